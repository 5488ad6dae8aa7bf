"""One list of methods: entry points, YAML files, the names of kbench.methods and the docs agree."""

import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import kbench.methods
from kbench.errors import UnavailableError
from kbench.presets import TABLES
from kbench.run.planning import registry

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "method"
FILES = {path.stem: yaml.safe_load(path.read_text()) for path in CONFIGS.glob("*.yaml")}
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
    "kbench.methods"
]
# Methods whose classes are kbench's; the others are those of other packages.
FOREIGN = ("sklearn.", "neo_ls_svm.", "thundersvm.")
OURS = sorted(
    name for name, config in FILES.items() if not str(config["estimator"]).startswith(FOREIGN)
)

# Values by which a method differs from the defaults of its classes.
SETTINGS = {
    "n_pegasos": {"features": "nystrom"},
    "n_sdca": {"features": "nystrom"},
    "rfm": {"kernel": "any", "scaling": "auto"},
    # KernelRidge has scikit-learn's defaults, the method those of the papers' ridge machines.
    "krr": {"coef0": 0.0, "fit_intercept": None},
    "division_bound": {"n_clusters": [8, 16, 32, 64, 128]},
    "dcsvm": {"combine": "exact"},
    "bka_svm": {
        "n_clusters": 64,
        "partition": "kmeans",
        "n_samples": 1000,
        "n_levels": 1,
        "branching": 4,
        "tol": 0.001,
    },
    "conv_fixed": {
        "kernel": "convolution",
        "block_size": 1568,
        "max_blocks": 1,
        "n_epochs": 5,
        "gamma": 1.0,
        "step_size": 3.0,
        "unit_norm": True,
    },
    "meka": {"preset": "paper"},
    "meka_psd": {"preset": "paper", "psd": True},
    "kmeans_nystrom": {"landmarks": "kmeans"},
    "randomized_nystrom": {"eigensolver": "randomized"},
    "ensemble_nystrom": {"n_experts": 3},
    "svd": {"n_landmarks": "all", "eigensolver": "lanczos"},
    "fastfood": {"features": "fastfood"},
    "block_spectra": {"n_clusters": 5},
    "hss_krr": {"preset": "precise"},
    # The sizes of the DC-SVM paper's comparison.
    "llsvm": {"n_components": 3000, "landmarks": "kmeans"},
    "ltpu": {"n_components": 3000, "landmarks": "kmeans"},
    "rks_svm": {"n_components": 3000, "form": "cos_sin"},
    "fastfood_svm": {"n_components": 3000, "form": "cos_sin"},
}
# Parameters of a part that its method leaves at the part's default.
LEFT_OUT = {
    "meka": {"dtype"},
    "meka_galerkin": {"dtype"},
    "meka_psd": {"dtype"},
    "bka": {"dtype"},
    "bka_svm": {"preset"},  # its file sets all that a preset would
    "block_spectra": {"dtype", "memory_mb"},
    "krr": {"kernel_params"},  # of a callable kernel, which no command line has
    "llsvm": {"kmeans_iter"},
    "ltpu": {"kmeans_iter"},
    "rks_svm": {"sampling"},
    # Set by the classifier and the regressor.
    "rfm": {"task"},
}


def targets(config):
    """task -> registry target, with "" for a method whose class is the same for all tasks."""
    named = config["estimator"]
    of_tasks = named if isinstance(named, dict) else {"": named}
    return {task: registry.target(name, config.get("parts")) for task, name in of_tasks.items()}


def parameters(composition):
    """Name -> default over the estimator and its parts, the parts themselves left out."""
    inner = [inspect.signature(cls).parameters for cls in composition.parts.values()]
    outer = inspect.signature(composition.estimator).parameters
    return {
        key: parameter.default
        for signature in (*inner, outer)
        for key, parameter in signature.items()
        if key != "random_state" and key not in composition.parts
    }


def test_methods_that_take_the_width_of_a_data_set_take_its_kernel():
    taking = [c for c in FILES.values() if "use:krr.gamma" in str(c.get("gamma"))]
    kernels = {c["kernel"] for c in taking if "kernel" in c}
    assert kernels == {"${use:krr.kernel,rbf}"}


@pytest.mark.parametrize("name", OURS)
def test_keys_and_defaults_are_those_of_the_classes(name):
    config = dict(FILES[name])
    assert config["name"] == name
    given = {k: v for k, v in config.items() if k not in registry.RESERVED}
    for target in targets(config).values():
        composition = registry.load(target)
        defaults = parameters(composition)
        if composition.estimator.__name__ != "IntelexSVC":  # whose random_state is a key
            # On the command line every classifier has `calibration` in place of `probability`.
            left_out = defaults.keys() - given.keys() - {"probability"}
            assert left_out == LEFT_OUT.get(name, set()) & defaults.keys()
        expected = defaults | SETTINGS.get(name, {})
        for key, value in given.items():
            if not str(value).startswith("${"):
                assert value == expected[key], key


@pytest.mark.parametrize("name", OURS)
def test_a_method_has_an_entry_point_of_its_name_and_a_class_for_each_task(name):
    from sklearn.base import is_classifier, is_outlier_detector, is_regressor

    kinds = {"regression": is_regressor, "outlier": is_outlier_detector}
    config = FILES[name]
    tasks = config["meta"]["tasks"]
    found = targets(config)
    assert set(found) == {""} or set(found) == set(tasks)
    named = config["estimator"]
    assert name == (named["regression"] if isinstance(named, dict) else named)
    for task in tasks:
        estimator = registry.build(found.get(task, found.get("")), {}, 0)
        assert kinds.get(task, is_classifier)(estimator)
    assert config["meta"].get("presets") in {None, *TABLES}
    for optional in config["meta"].get("optional", []):
        # The data set may give a value in place of null.
        assert config[optional] is None or str(config[optional]).endswith(",null}")


def test_entry_points_are_the_methods_and_name_public_classes():
    assert ENTRY_POINTS.keys() == set(OURS)
    for path in ENTRY_POINTS.values():
        module, _, name = path.partition(":")
        assert kbench.methods._MODULES[name] == module


def test_public_names_are_where_their_modules_define_them():
    for name, module in kbench.methods._MODULES.items():
        assert getattr(kbench.methods, name).__module__ == module


def test_every_method_and_every_class_stands_in_the_docs():
    text = (ROOT / "docs" / "methods.md").read_text()
    words = set(re.findall(r"`(\w+)`", text))
    assert set(FILES) <= words
    classes = {name for name in kbench.methods.__all__ if name[0].isupper()}
    assert classes <= words


@pytest.mark.parametrize("name", ["neo_ls_svm", "svc_thunder"])
def test_a_rival_that_is_not_installed_says_so_in_one_line(name, monkeypatch):
    target = FILES[name]["estimator"]
    package = target.partition(".")[0]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnavailableError, match=f"needs the package '{package}'") as error:
        registry.build(registry.target(target, None), {}, 0)
    assert "\n" not in str(error.value)
