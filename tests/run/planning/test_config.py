"""Composition: precedence of config folders, the `use` resolver, and one-line errors."""

import pytest

from kbench.config import composer, flatten, options, roots, shipped_root
from kbench.errors import ConfigError
from kbench.settings import settings

pytestmark = pytest.mark.usefixtures("here")


def compose(*overrides):
    with composer() as hydra:
        return hydra.compose(list(overrides))


def test_own_configs_come_first_and_the_shipped_ones_stay(here, config_file):
    config_file("method/mine.yaml", "name: mine\nestimator: sklearn.dummy.DummyClassifier\nk: 3\n")
    own = config_file("method/svc.yaml", "name: svc\nestimator: sklearn.svm.SVC\nC: 77\n")
    assert roots() == [here / "configs", shipped_root()]
    assert options("method")["svc"] == own
    assert "dummy" in options("method")
    assert compose("method=mine")["method"]["k"] == 3
    assert compose("method=svc")["method"]["C"] == 77
    assert compose("method=dummy")["method"]["name"] == "dummy"


def test_a_data_sets_default_reaches_the_method(config_file):
    config_file(
        "dataset/mine.yaml",
        "name: mine\ntask: binary\nuse: {svm: {C: 32}}\nvariants: {other: {use: {svm: {C: 4}}}}\n",
    )
    config_file(
        "method/mine.yaml",
        "name: mine\nestimator: x.Y\nC: ${use:svm.C,1.0}\ngamma: ${use:svm.gamma,scale}\n",
    )
    for overrides, expected in (
        ([], {"C": 32, "gamma": "scale"}),
        (["dataset.variant=other"], {"C": 4, "gamma": "scale"}),
        (["method.C=5"], {"C": 5, "gamma": "scale"}),
    ):
        method = compose("method=mine", "dataset=mine", *overrides)["method"]
        assert {k: method[k] for k in expected} == expected
    config_file("dataset/silent.yaml", "name: silent\ntask: binary\n")
    assert compose("method=mine", "dataset=silent")["method"]["C"] == 1.0


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("limits.wall_s=0", "limits.wall_s is 0"),
        ("limits.wall_s=abc", "wall_s"),
        ("limits.threads=0", "limits.threads is 0"),
        ("limits.threads=5000", "limits.threads is 5000, this machine has"),
        ("parallel.jobs=0", "parallel.jobs is 0"),
        ("parallel.address=tcp://a:1", "backend=loky does not use it; write parallel=dask\\|ray,"),
        ("+parallel.options.n_workers=2", "does not use it; write parallel=dask\\|ray\\|slurm, or"),
        ("parallel.runs_per_job=2", "does not use it; write parallel=slurm, or leave it out"),
        ("rerun=often", "none, failed, changed, all"),
        ("limits.memory_mb=-3", "limits.memory_mb is -3"),
    ],
)
def test_settings_are_typed_and_checked(override, named):
    config = compose("method=dummy", override)
    with pytest.raises(ConfigError, match=named):
        settings(config)


def test_a_foreign_config_folder_is_named(config_file):
    config_file("config.yaml", "model: resnet\n")
    with pytest.raises(ConfigError, match=r"configs/config\.yaml"):
        compose()


@pytest.mark.parametrize(
    "text",
    [
        "name: mine\nname: mine\n",
        "name: [mine\n",
        "name: mine\ndefaults: {svm: {C: 1}}\n",
        "- a\n- list\n",
        "name: ${nothing.there}\n",
        "name: ${use:\n",
        "name: \x00\x01\n",
    ],
)
def test_a_config_file_that_cannot_be_read_is_named_in_one_line(config_file, text):
    config_file("dataset/mine.yaml", text)
    with composer() as hydra, pytest.raises(ConfigError) as caught:
        hydra.compose(["method=dummy", "dataset=mine"])
    assert "\n" not in str(caught.value)
    assert (
        "mine" in str(caught.value) or "nothing" in str(caught.value) or "use" in str(caught.value)
    )


def test_hydra_is_left_as_it_was_found():
    from hydra.core.global_hydra import GlobalHydra

    compose("method=dummy")
    compose("method=dummy")
    assert not GlobalHydra.instance().is_initialized()


def test_flatten():
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1]}) == {"a.b": 1, "a.c": {}, "d": [1]}


@pytest.mark.parametrize("tag", ["", " ", "a,b", " a", "a\nb", "x" * 101])
def test_a_tag_that_a_report_could_not_name_is_refused(tag):
    with pytest.raises(ConfigError, match=r"^tag (is|has) "):
        settings({"tag": tag})
    assert settings({"tag": "first try"}).tag == "first try"
