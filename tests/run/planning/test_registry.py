"""Names become classes, and wrong parameters are named before anything runs."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from kbench.errors import ConfigError, UnavailableError
from kbench.methods import KernelSVC
from kbench.run.planning import registry


def test_entry_points_and_dotted_paths_name_classes():
    assert registry.load(registry.target("kernel_svc")).estimator is KernelSVC
    assert registry.load(registry.target("sklearn.svm.SVC")).estimator is SVC


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        ("kernel_scv", "nearest: .*kernel_svc"),
        ("sklearn.svm.SCV", "nearest: .*SVC"),
        ("sklearn.svmm.SVC", r"no module svmm in sklearn \(nearest: svm"),
    ],
)
def test_unknown_names(estimator, named):
    with pytest.raises(ConfigError, match=named):
        registry.load(registry.target(estimator))


def test_a_package_that_is_absent_is_unavailable_and_named():
    with pytest.raises(UnavailableError, match="no_such_package"):
        registry.load("no_such_package.inside:Thing")


def test_a_package_whose_library_does_not_load_is_unavailable(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise OSError('libgone.so.9: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnavailableError, match="Thing cannot be loaded: libgone"):
        registry.load("broken_library:Thing")


def test_the_seed_becomes_random_state_where_there_is_one():
    assert registry.build("sklearn.svm:SVC", {"C": 2.0}, 7).random_state == 7
    assert registry.build("sklearn.svm:SVC", {"random_state": 3}, 7).random_state == 3
    assert "random_state" not in registry.build("sklearn.svm:SVR", {}, 7).get_params()


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_is_scikit_learn_s(method):
    X, y = make_classification(120, 5, n_informative=3, n_classes=3, random_state=0)
    base = {"C": 2.0, "gamma": 0.3}
    path = registry.target("kernel_svc")
    model = registry.build(path, base | {"calibration": method}, 0).fit(X, y)
    expected = CalibratedClassifierCV(KernelSVC(**base), method=method, cv=5, ensemble=False)
    np.testing.assert_array_equal(model.predict_proba(X), expected.fit(X, y).predict_proba(X))
    assert isinstance(registry.build(path, base | {"calibration": None}, 0), KernelSVC)


@pytest.mark.parametrize(
    ("path", "params", "named"),
    [
        ("sklearn.svm:SVC", {"calibration": "platt"}, "'platt', should be one of sigmoid"),
        ("sklearn.svm:SVR", {"calibration": "sigmoid"}, "SVR is not a classifier"),
        ("sklearn.svm:SVC", {"gama": 1}, r"SVC has no parameter 'gama' \(nearest: gamma\)"),
        ("sklearn.svm:SVC", {"C": -1}, "The 'C' parameter of SVC must be"),
        ("kbench.methods.divide.dc_svc:DCSVC", {"combine": "late"}, "'combine' parameter of DCSVC"),
        ("sklearn.svm:l1_min_c", {"X": [[0.0], [1.0]], "y": [0, 1]}, "is a function, should be"),
        ("math:pi", {}, "is a float, should be a class with fit"),
        ("os:system", {"command": "exit 3"}, "should be a class with fit"),
        ("pathlib:Path", {}, r"Path has no method fit\(\)"),
    ],
)
def test_what_cannot_be_built_is_one_line(path, params, named):
    with pytest.raises(ConfigError, match=named) as caught:
        registry.build(path, params, 0)
    assert "\n" not in str(caught.value)


COMPOSED = registry.target("sklearn.ensemble.BaggingClassifier", {"estimator": "sklearn.svm.SVC"})


def test_flat_parameters_go_to_the_estimator_first_and_then_to_the_part_that_has_them():
    params = {"n_estimators": 3, "C": 2.0, "gamma": 0.5, "verbose": 0}
    model = registry.build(COMPOSED, params, 7)
    assert (model.n_estimators, model.random_state, model.verbose) == (3, 7, 0)
    assert isinstance(model.estimator, SVC)
    assert (model.estimator.C, model.estimator.gamma) == (2.0, 0.5)
    assert model.estimator.random_state is None
    same = registry.build(COMPOSED, {}, 7).set_params(**registry.nested_params(COMPOSED, params))
    assert same.get_params().items() >= {"estimator__C": 2.0, "n_estimators": 3}.items()


@pytest.mark.parametrize(
    ("parts", "params", "named"),
    [
        ({"estimator": "sklearn.svm.SVC"}, {"gama": 1}, r"BaggingClassifier with SVC .*gamma"),
        ({"estimator": "sklearn.svm.SVC"}, {"C": -1}, "'C' parameter of SVC must be"),
        ({"estimator": "sklearn.svm.SVC"}, {"estimator": 1}, "'estimator' is a part of"),
        ({"estimator": "os.system"}, {}, "should be a class with fit"),
        ({"estimator": "SVC"}, {}, "should be package.module.Class"),
        ({"a": "sklearn.svm.SVC", "b": "sklearn.svm.SVR"}, {"C": 1.0}, "two parts of .*a and b"),
    ],
)
def test_what_cannot_be_composed_is_one_line(parts, params, named):
    with pytest.raises(ConfigError, match=named):
        registry.build(registry.target("sklearn.ensemble.BaggingClassifier", parts), params, 0)


def test_check_names_the_first_mistake_and_passes_over_absent_extras():
    params = [("gone.gone:X", {}), ("sklearn.svm:SVC", {"C": -1}), ("sklearn.svm:SVC", {"C": 1})]
    runs = [(*one, "binary") for one in params]
    assert "'C' parameter of SVC must be" in registry.check(runs)
    assert registry.check(runs[::2]) is None


@pytest.mark.parametrize(
    ("path", "task", "kind"),
    [("SVC", "regression", "classifier"), ("SVR", "binary", "regressor")],
)
def test_an_estimator_of_another_task_is_refused(path, task, kind):
    said = registry.check([(f"sklearn.svm:{path}", {}, task)])
    assert f"{path} is a {kind}" in said
    assert f"not for the task {task}" in said


def test_any_method_goes_behind_a_learned_metric():
    path = registry.target("kernel_svc")
    model = registry.build(path, {"C": 2.0, "metric": "learned"}, 7)
    assert (model.estimator.C, model.random_state) == (2.0, 7)
    with pytest.raises(ConfigError, match=r"method\.metric is 'lerned', should be one of learned"):
        registry.build(path, {"metric": "lerned"}, 0)


def test_a_method_with_a_metric_of_its_own_keeps_it():
    model = registry.build("sklearn.neighbors:KNeighborsClassifier", {"metric": "manhattan"}, 0)
    assert model.metric == "manhattan"
