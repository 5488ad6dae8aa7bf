"""Plans: expansion, what is dropped and why, keys, and commands that reproduce their run."""

import re
import shlex
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from kbench.config import composer, hydra_value, options, shipped_root
from kbench.errors import ConfigError
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import make_plan
from kbench.settings import Settings

pytestmark = pytest.mark.usefixtures("here")


COMPOSED = {}


def plan(*words, multirun=True):
    with composer() as hydra:
        if not Path("configs").is_dir():
            hydra._composed = COMPOSED  # most tests compose the same pairs of what is shipped
        return make_plan(hydra, list(words), multirun=multirun)


def keys(*words):
    return [run.key for run in plan(*words).runs]


def repeated(run):
    """The run of a run's own command, which is the same."""
    program, *words = shlex.split(run.command)
    assert program == "kbench"
    (again,) = plan(*words, multirun=False).runs
    assert again.key == run.key
    return again


def test_methods_data_sets_seeds_and_parameters_are_multiplied():
    found = plan("method=svc,knn", "dataset=digits,iris", "seed=0,1", "method.C=1,10")
    counts = Counter((run.method, run.dataset) for run in found.runs)
    assert counts == {
        (name, data): n for name, n in (("svc", 4), ("knn", 2)) for data in ("digits", "iris")
    }
    assert found.dropped == ["C: sweep dropped for knn, which has no such parameter"]


def test_a_grid_is_dropped_for_a_method_that_lacks_its_parameters():
    found = plan("method=dummy,svc", "grid=c_gamma")
    assert sum(run.method == "dummy" for run in found.runs) == 1
    assert sum(run.method == "svc" for run in found.runs) == 25
    assert found.dropped == ["C, gamma: grid dropped for dummy, which has no such parameter"]


def test_calibration_is_a_parameter_of_any_classifier_and_none_by_itself():
    bare, sigmoid = plan("method=svc", "method.calibration=null,sigmoid").runs
    assert "calibration" not in bare.params
    assert sigmoid.params["calibration"] == "sigmoid"
    assert [bare.key] == keys("method=svc")
    assert "method.calibration=sigmoid" in shlex.split(sigmoid.command)


def test_an_optional_parameter_is_absent_where_it_is_null():
    """A parameter that a method gets later leaves the keys of its older rows as they are."""
    planned = plan("method=spsvm", "dataset=iris")
    (without,) = planned.runs
    assert "max_time" not in without.params
    # What is checked before the runs is what they get.
    assert [params for _, params, _ in planned.estimators] == [without.params]
    (limited,) = plan("method=spsvm", "dataset=iris", "method.max_time=5").runs
    assert limited.params == without.params | {"max_time": 5}
    assert limited.key != without.key
    assert "method.max_time=5" in limited.command


def test_hydra_s_own_ways_to_add_and_delete_a_parameter():
    (run,) = plan("method=svc", "~method.cache_size", "+method.random_state=3").runs
    assert "cache_size" not in run.params
    assert run.params["random_state"] == 3


def test_a_method_may_have_a_class_for_each_task():
    found = plan("method=krr", "dataset=diabetes,iris,breast_cancer")
    classes = {run.dataset: run.estimator.partition(":")[2] for run in found.runs}
    assert classes == {
        "diabetes": "KernelRidge",
        "iris": "KernelRidgeClassifier",
        "breast_cancer": "KernelRidgeClassifier",
    }


def test_an_experiment_is_filtered_by_what_the_command_names():
    whole = plan("experiment=demo")
    part = plan("experiment=demo", "method=svc,dummy", "seed=1")
    assert {run.method for run in part.runs} == {"svc", "dummy"}
    assert {run.key for run in part.runs} < {run.key for run in whole.runs}
    with pytest.raises(ConfigError, match="experiment demo has no method ridge"):
        plan("experiment=demo", "method=ridge")


@pytest.fixture
def own_values(config_file):
    """An experiment whose entries have values of their own."""
    return config_file(
        "experiment/own.yaml",
        "# @package _global_\n"
        "plan:\n"
        "  methods: [dummy, svc: {C: [1, 2], tol: 0.1}, knn: {n_neighbors: [3]}]\n"
        "  datasets: [digits, covtype_like: {scale: unit}, covtype_like]\n",
    )


def test_entries_of_a_plan_have_values_of_their_own(own_values):
    found = plan("experiment=own", "method=svc,dummy")
    labels = [run.label.removesuffix(" seed 0") for run in found.runs]
    assert labels[:2] == ["dummy on digits", "svc on digits C=1 tol=0.1"]
    assert labels[2] == "svc on digits C=2 tol=0.1"
    assert labels[4] == "svc on covtype_like (scale=unit) C=1 tol=0.1"
    assert labels[6] == "dummy on covtype_like"
    assert not found.dropped
    for run in found.runs:
        repeated(run)


def test_the_command_line_wins_over_the_values_of_a_plan(own_values):
    words = ("experiment=own", "method=svc", "dataset=covtype_like")
    found = plan(*words, "method.C=7", "dataset.scale=symmetric")
    assert {run.params["C"] for run in found.runs} == {7}
    assert {run.dataset_config["scale"] for run in found.runs} == {"symmetric"}


@pytest.mark.parametrize("entry", ["{svc: 3}", "{svc: {C: 1}, knn: {}}", "{svcc: {C: 1}}"])
def test_an_entry_that_is_none_is_told(own_values, entry):
    own_values.write_text(f"# @package _global_\nplan:\n  methods: [{entry}]\n")
    with pytest.raises(ConfigError, match=r"plan\.methods holds|no method is called 'svcc'"):
        plan("experiment=own")


def test_a_run_names_every_experiment_of_the_command_that_asks_for_it(config_file):
    for name, methods in (("one", "[svc, knn]"), ("two", "[svc]")):
        text = f"# @package _global_\nplan: {{methods: {methods}, datasets: [digits]}}\n"
        config_file(f"experiment/{name}.yaml", text)
    named = {run.method: run.experiment for run in plan("experiment=one,two").runs}
    assert named == {"svc": "one,two", "knn": "one"}
    assert plan("method=svc").runs[0].experiment is None


def test_a_method_s_version_is_part_of_the_key_from_the_second_on(config_file):
    text = options("method")["knn"].read_text()
    made = {}
    for version in ("", "  version: 1\n", "  version: 2\n", "  version: 0\n"):
        config_file("method/knn.yaml", text.replace("meta:\n", f"meta:\n{version}"))
        if "0" in version:
            with pytest.raises(ConfigError, match=r"method knn: meta\.version is 0"):
                plan("method=knn")
            continue
        (run,) = plan("method=knn").runs
        made[version.strip()] = (run.key, run.method_version)
    assert made[""] == made["version: 1"]
    assert made["version: 2"][0] != made[""][0]
    assert made["version: 2"][1] == 2


def test_values_that_are_equal_have_equal_keys():
    assert keys("method=svc", "method.C=1") == keys("method=svc", "method.C=1.0")
    assert keys("method=svc", "method.C=1,1.0") == keys("method=svc", "method.C=1")
    assert len(keys("method=random_forest", "method.max_features=1,1.0")) == 2  # one, and all
    forest = ("method=isolation_forest", "dataset.variant=outlier")
    assert keys(*forest, "method.max_features=1.0") == keys(*forest)
    swept = ("dataset.missing=null,error", "dataset.scale_over=train,all")
    raw = ("method=svc", "dataset.scale=none")
    assert keys(*raw, *swept) == keys(*raw)


def test_keys_depend_on_what_changes_the_outcome_and_on_nothing_else():
    base = keys("method=svc")
    others = "method.C=3", "seed=1", "dataset=iris", "limits.wall_s=5", "limits.memory_mb=900"
    for other in others:
        assert keys("method=svc", other) != base
    for same in ("results_dir=elsewhere", "parallel.jobs=2", "rerun=all", "limits.threads=2"):
        assert keys("method=svc", same) == base
    assert keys("dataset=digits", "method=svc") == base


def test_the_command_of_a_run_is_a_plan_of_that_run_alone():
    words = ["method=svc,knn,mlp", "dataset=covtype_like", "dataset.n=3000", "grid.C=[1,0.5]"]
    found = plan(*words, "seed=0,4", "limits=quick", "limits.cpu_s=9")
    assert len(found.runs) == 8
    for run in found.runs:
        repeated(run)


def test_the_command_line_wins_over_a_variant_and_the_row_names_both(config_file):
    config_file(
        "dataset/two.yaml",
        "name: two\ntask: multiclass\nsource: {kind: sklearn, bundled: iris}\nscale: unit\n"
        "split: {kind: random, test_fraction: 0.2, seed: 0}\n"
        "variants: {raw: {scale: none, split: {seed: 7}}}\n",
    )

    def form(*words):
        (run,) = plan("method=dummy", "dataset=two", *words).runs
        config = run.dataset_config
        return run.variant, config["scale"], config["split"]["seed"]

    assert form() == (None, "unit", 0)
    assert form("dataset.variant=raw") == ("raw", "none", 7)
    assert form("dataset.scale=standard") == ("scale=standard", "standard", 0)
    assert form("dataset.variant=raw", "dataset.split.seed=3") == ("raw,split.seed=3", "none", 3)
    words = ["method=dummy", "dataset=two", "dataset.variant=raw", "dataset.scale=symmetric"]
    repeated(*plan(*words).runs)


def test_a_command_reproduces_its_run_after_defaults_have_changed(config_file):
    (run,) = plan("method=svc", "dataset=iris").runs
    shipped = (shipped_root() / "method" / "svc.yaml").read_text()
    changed = yaml.safe_load(shipped) | {"C": 7, "shrinking": False}
    config_file("method/svc.yaml", yaml.safe_dump(changed))
    (by_names,) = plan("method=svc", "dataset=iris").runs
    assert by_names.params["C"] == 7
    assert repeated(run).params == run.params


def test_a_command_names_the_values_of_a_preset():
    (run,) = plan("method=hss_admm", "dataset=iris", "method.preset=paper_table4").runs
    assert all(f"method.{name}=" in run.command for name in run.params)
    assert repeated(run).params == run.params


def test_a_command_names_parameters_that_differ_from_those_of_its_variant(config_file):
    """A parameter may equal the method's default and still differ from the variant's value."""
    config_file(
        "dataset/two.yaml",
        "name: two\ntask: multiclass\nsource: {kind: sklearn, bundled: iris}\n"
        "split: {kind: random, test_fraction: 0.2, seed: 0}\nuse: {svm: {C: 2, gamma: 0.5}}\n"
        "variants: {wide: {use: {svm: {C: 16, gamma: 0.125}}}}\n",
    )
    words = ["method=svc", "dataset=two", "dataset.variant=wide", "method.C=2,16"]
    for run, C in zip(plan(*words).runs, (2, 16), strict=True):
        again = repeated(run)
        assert (again.params["C"], again.params["gamma"]) == (C, 0.125)


def test_a_method_file_of_another_form_is_named(config_file):
    config_file("method/odd.yaml", "name: odd\nestimator: sklearn.svm.SVC\nmeta: a word\n")
    config_file("method/bare.yaml", "C: 1\n")
    with pytest.raises(ConfigError, match="method odd: meta is 'a word'"):
        plan("method=odd")
    with pytest.raises(ConfigError, match=r"lacks `name: bare` and `estimator: \.\.\.`"):
        plan("method=bare")


def test_a_data_set_has_the_name_of_its_file(config_file):
    text = "task: binary\nsource: {kind: files, files: {all: {names: [toy]}}}\n"
    config_file("dataset/own.yaml", f"name: digits\n{text}")
    with pytest.raises(
        ConfigError, match=r"own\.yaml: name is 'digits', should be the file's name"
    ):
        plan("method=svc", "dataset=own")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: other", "method/own.yaml: name is 'other', should be the file's name, own"),
        ("name: on", "name is True, should be the file's name, own"),
        (
            "meta: {tasks: [classification]}",
            "should be a list of binary, multiclass, regression, outlier",
        ),
        ("meta: {rolle: baseline}", "meta has no key 'rolle' (nearest: role)"),
        ("meta: {role: mine}", "should be one of mission, baseline"),
        ("random_state: 3", "seed=... sets it"),
    ],
)
def test_the_file_of_a_method_has_no_word_that_kbench_does_not_know(config_file, text, named):
    lines = {"name": "own", "estimator": "sklearn.svm.SVC", **yaml.safe_load(text)}
    config_file("method/own.yaml", yaml.safe_dump(lines))
    with pytest.raises(ConfigError, match=re.escape(named)):
        plan("method=own")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["experiment=dem"], "nearest: demo"),
        (["method=svc", "seed=-1"], "seed is -1"),
        (["method=svc", "seed=a"], "seed is 'a'"),
        (["dataset=digits"], "name a method"),
        (["method=svc", "metric=r2"], "which is a key of `kbench report`"),
        (["method=svc", "method.C=logspace(-2,2,5)"], "no function logspace: write the values"),
        (["method=svc", "parallel=4"], "parallel.jobs=4"),
        (["method=svc", "limits=foo"], "there are default, quick"),
        (["method=svc", "use=nones"], "should be shipped or none"),
        (["method=svc", "dataset.variant=nope"], "nope"),
        (["method=svc", "dataset.variant=[]"], "dataset.variant is [], should be a name"),
        (["method=svc", "dataset.name=a\nb"], "dataset.name=a b: a character"),
        (
            ["method=svc", "dataset.split.repeats=2", "++dataset.holdout.fraction=0.2"],
            "dataset.split asks for 2 splits",
        ),
        *(
            (["method=svc", *words], said)
            for words, said in (
                (["grid.zip=[{C:[1,10],gamma:[0.1]}]"], "different lengths: C 2, gamma 1"),
                (["grid.zip={C:[1]}"], "should be a list such as"),
                (["grid.zip=[{C:1}]"], "should be a list such as"),
                (["grid.zip=[{C:[1]}]", "method.C=2"], "C is in grid.zip and has values else"),
                (["grid.zip=[{C:[1]}]", "grid.C=[2]"], "C is in grid.zip and has values else"),
                (["grid.zip=[{C:[1]},{C:[2]}]"], "C is in grid.zip and has values elsewhere"),
                (["grid.zip=[{gama:[1]}]"], "no method of this command has a parameter 'gama'"),
                (["method.gamma=${method.C}"], "is not looked up in other keys; write the"),
                (["method.gamma=1,${method.C}"], "is not looked up in other keys; write the"),
            )
        ),
    ],
)
def test_mistakes_are_one_line(words, named):
    with pytest.raises(ConfigError) as caught:
        plan(*words)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -0.5, 1e-9, "scale", "a b", "it's", "null", "3", "a,b", "x=y", "", [1, "b"]],
)
def test_hydra_reads_back_what_is_written(value):
    with composer() as hydra:
        assert hydra.value("method.key", hydra_value(value)) == value


def test_canonical_json_knows_one_number():
    assert canonical({"b": 1.0, "a": (2, 0.5)}) == '{"a":[2,0.5],"b":1}'


def test_a_large_plan_composes_once_per_pair():
    asked = []

    class Recorded:
        def __init__(self, composer):
            self._composer = composer

        def compose(self, overrides):
            asked.append(overrides)
            return self._composer.compose(overrides)

        def __getattr__(self, name):
            return getattr(self._composer, name)

    with composer() as hydra:
        words = ["method=svc", "seed=range(0,400)", "grid=c_gamma"]
        found = make_plan(Recorded(hydra), words, multirun=True)
    assert len({run.key for run in found.runs}) == 10_000
    assert len(asked) <= 2  # the config, and the bare one that the command is compared with


@pytest.mark.parametrize("name", sorted({f.name for f in fields(Settings)} - {"seed", "limits"}))
def test_a_key_that_all_runs_share_has_one_value(name):
    with composer() as hydra, pytest.raises(ConfigError, match="one value for all runs"):
        make_plan(hydra, ["method=dummy", f"{name}=a,b"], multirun=True)


def test_repeated_splits_are_the_runs_of_their_seeds_in_every_method():
    sweep = keys("method=svc,knn", "dataset=digits,iris", "dataset.split.seed=0,1,2")
    assert set(sweep) == set(
        keys("method=svc,knn", "dataset=digits,iris", "dataset.split.repeats=3")
    )
    assert set(keys("method=svc")) < set(sweep), "the data set's own split is the first"


def test_folds_are_runs_whose_commands_repeat_them():
    found = plan("method=svc,knn", "dataset.split.folds=2", "dataset.split.repeats=2", "seed=0,1")
    assert len({run.key for run in found.runs}) == 2 * 2 * 2 * 2
    for run in found.runs[:3]:
        repeated(run)
    configs = {canonical(run.dataset_config["split"]) for run in found.runs}
    assert len(configs) == 4, "methods and seeds have the same splits"


@pytest.mark.parametrize("size", ["n_train=99", "n_test=9", "test_fraction=0.5"])
def test_folds_replace_the_sizes_of_a_config_and_refuse_those_of_the_command_line(size):
    asked = ["method=svc", "dataset.split.folds=3", "dataset.split.fold=2"]
    (run,) = plan(*asked).runs
    assert plan("method=svc").runs[0].dataset_config["split"]["test_fraction"]
    assert run.dataset_config["split"]["test_fraction"] is None
    name = size.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"folds takes the place of {name}; set one"):
        plan(*asked, f"dataset.split.{size}")


def points(*words, names=("C", "gamma")):
    return [tuple(run.params[name] for name in names) for run in plan(*words).runs]


def test_zipped_values_vary_together_from_a_file_and_from_the_command_line(config_file):
    pairs = [(1, 0.1), (10, 0.01)]
    typed = "grid.zip=[{C:[1,10],gamma:[0.1,0.01]}]"
    assert points("method=svc", typed) == pairs
    assert len(points("method=svc", typed, "method.tol=0.1,0.2")) == 4
    assert points("method=svc", f"{typed[:-1]},{{tol:[1,2]}}]", names=("C", "tol")) == [
        (1, 1), (1, 2), (10, 1), (10, 2),
    ]  # fmt: skip
    config_file("grid/pairs.yaml", "zip: [{C: [1, 10], gamma: [.1, .01]}]\n")
    assert points("method=svc", "grid=pairs") == pairs
    config_file("grid/more.yaml", "C: [1, 2]\ngamma: [.1]\n")
    union = points("method=svc", "grid=pairs,more")
    assert union == [*pairs, (2, 0.1)], "a point of both grids is one run"
    runs = plan("method=dummy,svc", "grid=pairs").runs
    assert [run.params.get("C") for run in runs] == [None, 1, 10]
