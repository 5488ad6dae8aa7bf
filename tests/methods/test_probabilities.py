"""Probabilities of every classifier with a decision function."""

import itertools
import warnings

import numpy as np
import pytest
from all_machines import Machine, build
from sklearn.base import is_outlier_detector
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.svm import SVC

import kbench.methods
from kbench.class_labels import coupled_probabilities, probabilities
from kbench.methods import DCSVC, KernelSVC
from kbench.methods.base.probability import fitted_sigmoids

X, Y = make_classification(
    240, 5, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0
)
# Diagnostics predict with a machine of theirs; the net's softmax needs no calibration, and
# svc_intelex is scikit-learn's class.
WITHOUT = {"BlockSpectra", "DivisionBound", "KernelSpectrum", "SupportCurves"}
OWN = {"IntelexSVC", "JointConvolutionClassifier"}
CLASSIFIERS = [
    name
    for name in kbench.methods.__all__
    if hasattr(getattr(kbench.methods, name), "decision_function")
    and not is_outlier_detector(getattr(kbench.methods, name)())
    and name not in WITHOUT | OWN
]


def small_model(name):
    return build(Machine(getattr(kbench.methods, name))).set_params(probability=True)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_every_classifier_has_calibrated_probabilities(name):
    model = small_model(name)
    labels = np.array(["a", "b", "c"])[Y]
    model.fit(X[::2], labels[::2])
    P = model.predict_proba(X[1::2])
    assert P.shape == (120, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(X[1::2]), np.log(P))
    assert log_loss(labels[1::2], P) < 0.9 * np.log(3)
    assert model.timings_["calibrate"] > 0.0
    plain = type(model)(**({"loss": "hinge"} if name == "DoublySGDClassifier" else {}))
    assert not hasattr(plain, "predict_proba")


@pytest.mark.parametrize(
    "name", [n for n in CLASSIFIERS if "class_weight" in small_model(n).get_params()]
)
@pytest.mark.filterwarnings("ignore")
def test_the_weight_of_a_class_is_that_of_its_label_in_probabilities_too(name):
    """`TunedKernelSVC` looked class numbers up among the labels: the weight of another class."""
    rows, y = X[Y < 2], Y[Y < 2]
    expected = small_model(name).set_params(class_weight={0: 1.0, 1: 2.0}).fit(rows, y)
    for labels in ([1, 2], ["a", "b"]):
        weights = {labels[1]: 2.0}
        model = small_model(name).set_params(class_weight=weights).fit(rows, np.take(labels, y))
        np.testing.assert_array_equal(model.predict_proba(rows), expected.predict_proba(rows))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_probabilities_of_a_former_model_are_not_those_of_a_changed_one(name):
    rows, y = X[Y < 2], Y[Y < 2]
    model = small_model(name).fit(rows, y)
    if hasattr(model, "partial_fit"):
        model.partial_fit(rows[::-1], 1 - y[::-1], classes=[0, 1])
    else:
        model.set_params(probability=False).fit(rows, 1 - y).set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        model.predict_proba(rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_sigmoid_is_that_of_the_held_out_decision_values(weighted):
    """Recomputed with SVC's decision values of the same folds."""
    from sklearn.calibration import _sigmoid_calibration
    from sklearn.model_selection import StratifiedKFold

    two = Y < 2
    rows, y = X[two], Y[two]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    model = KernelSVC(gamma=0.2, probability=True, tol=1e-6, random_state=3).fit(rows, y, weight)
    values = np.empty(len(y))
    for a, b in StratifiedKFold(5, shuffle=True, random_state=3).split(rows, y):
        values[b] = (
            SVC(gamma=0.2, tol=1e-6).fit(rows[a], y[a], weight[a]).decision_function(rows[b])
        )
    a, b = _sigmoid_calibration(values, y, weight)
    expected = 1.0 / (1.0 + np.exp(a * model.decision_function(rows) + b))
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], expected, atol=1e-4)


def test_rows_of_weight_zero_do_not_influence_probabilities():
    two = Y < 2
    rows, y = X[two], Y[two]
    more = np.vstack([rows, rows[:3]]), np.concatenate([y, [2, 2, 2]])
    weight = np.concatenate([np.ones(len(y)), np.zeros(3)])
    ours = KernelSVC(gamma=0.2, multi_class="ovr", probability=True, random_state=0)
    with pytest.raises(ValueError, match="class 2 have a weight of zero"):
        ours.fit(*more, weight)
    weight[: len(y) // 4] = 0.0
    kept = weight[: len(y)] > 0.0
    a = ours.fit(rows, y, weight[: len(y)]).predict_proba(rows)
    b = ours.fit(rows[kept], y[kept]).predict_proba(rows)
    np.testing.assert_allclose(a, b, atol=1e-2)


def test_a_region_with_another_scale_has_its_own_sigmoid():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4000, 1))
    regions = np.repeat([0, 1, 2], [1900, 1900, 200])
    # The same values mean little in region 0 and much in region 1; region 2 has one class.
    slope = np.array([0.5, 6.0, 0.0])[regions]
    index = (rng.uniform(size=4000) < 1.0 / (1.0 + np.exp(-slope * values[:, 0]))).astype(int)
    index[regions == 2] = 1
    sigmoids = fitted_sigmoids(values, index, 2, None, regions)
    common = fitted_sigmoids(values, index, 2)
    np.testing.assert_allclose(-sigmoids[:2, 0, 0], [0.5, 6.0], rtol=0.15)
    np.testing.assert_array_equal(sigmoids[2], common[0])
    local = probabilities(values, sigmoids[regions])
    assert log_loss(index, local) < log_loss(index, probabilities(values, common[0]))


def test_early_prediction_uses_the_sigmoids_of_the_cluster():
    model = DCSVC(3, probability=True, random_state=0).fit(X, Y)
    clusters = model._regions(X)
    assert np.unique(clusters).tolist() == [0, 1, 2]
    expected = probabilities(model.decision_function(X), model._sigmoids[clusters])
    np.testing.assert_allclose(model.predict_proba(X), expected)
    whole = DCSVC(3, combine="naive", probability=True, random_state=0).fit(X, Y)
    expected = probabilities(whole.decision_function(X), whole._sigmoids[0])
    np.testing.assert_allclose(whole.predict_proba(X), expected)
    assert len(whole._sigmoids) == 1


def pair_values(P):
    """Decision values of pairs whose sigmoids with A = -1 and B = 0 are p_i / (p_i + p_j)."""
    pairs = itertools.combinations(range(P.shape[1]), 2)
    values = np.column_stack([np.log(P[:, a] / P[:, b]) for a, b in pairs])
    return values, np.tile([-1.0, 0.0], (values.shape[1], 1))


@pytest.mark.parametrize("k", [2, 3, 7, 26])
def test_coupling_gives_back_the_probabilities_that_agree_with_every_pair(k):
    P = np.random.default_rng(k).dirichlet(np.ones(k), size=5000)
    P = np.maximum(P, 1e-3)
    P /= P.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(coupled_probabilities(*pair_values(P), k), P, atol=1e-9)


def test_coupled_probabilities_minimise_the_disagreement_of_the_pairs():
    """Wu, Lin and Weng (2004), equation 21: no other probabilities have a lower sum of squares."""
    rng = np.random.default_rng(0)
    k = 5
    values = rng.normal(scale=3.0, size=(20, k * (k - 1) // 2))
    sigmoids = np.tile([-1.0, 0.0], (values.shape[1], 1))
    P = coupled_probabilities(values, sigmoids, k)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert P.min() >= 0.0

    def disagreement(P):
        r = 1.0 / (1.0 + np.exp(-values))
        pairs = enumerate(itertools.combinations(range(k), 2))
        return sum(((1.0 - r[:, p]) * P[:, a] - r[:, p] * P[:, b]) ** 2 for p, (a, b) in pairs)

    for _ in range(50):
        other = P + 0.01 * (rng.dirichlet(np.ones(k), size=len(P)) - P)
        assert np.all(disagreement(other) >= disagreement(P) - 1e-15)


def test_values_of_any_size_have_probabilities():
    values = np.array([[1e3, 1e3, 1e3], [-1e3, 1e3, -1e3], [0.0, 0.0, 0.0]])
    P = coupled_probabilities(values, np.tile([-1.0, 0.0], (3, 1)), 3)
    assert np.isfinite(P).all()
    assert P[0].argmax() == 0
    np.testing.assert_allclose(P[1:], 1.0 / 3.0, atol=1e-6)


@pytest.mark.parametrize(("load", "gamma"), [(load_iris, 0.1), (load_digits, 1e-3)])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_probabilities_of_several_classes_are_close_to_those_of_svc(load, gamma):
    """Both couple sigmoids of the pairs; the folds behind the sigmoids differ."""
    rows, y = load(return_X_y=True)
    rows, y = rows[:900], y[:900]
    parameters = {"C": 10.0, "gamma": gamma, "probability": True, "random_state": 0}
    ours = KernelSVC(**parameters).fit(rows[::2], y[::2]).predict_proba(rows[1::2])
    theirs = SVC(**parameters).fit(rows[::2], y[::2]).predict_proba(rows[1::2])
    assert np.abs(ours - theirs).mean() < 0.01
    assert log_loss(y[1::2], ours) < 1.1 * log_loss(y[1::2], theirs)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_probabilities_never_fall_where_the_decision_value_rises(name):
    """Few rows of pure noise, whose held-out values often say the opposite."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows, y = rng.normal(size=(12, 2)), np.repeat([0, 1], 6)
        model = small_model(name).fit(rows, y)
        values = model.decision_function(rows)
        P = model.predict_proba(rows)[np.argsort(values), 1]
        if len(getattr(model, "_sigmoids", [0])) == 1:
            assert np.diff(P).min() >= 0.0


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_the_same_seed_gives_the_same_probabilities(name):
    a, b = (small_model(name).fit(X[:60], Y[:60]).predict_proba(X[60:90]) for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_values_that_fall_where_they_should_rise_are_said():
    y = np.arange(20) % 2
    with pytest.warns(UserWarning, match="do not rise with the class"):
        sigmoids = fitted_sigmoids(np.where(y == 1, -1.0, 1.0)[:, None], y, 2)
    np.testing.assert_allclose(sigmoids, [[[0.0, 0.0]]], atol=1e-12)


def test_too_few_rows_for_the_folds_are_said():
    rows = np.vstack([X[Y == 0][:20], X[Y == 1][:3]])
    y = np.repeat(["many", "few"], [20, 3])
    with pytest.warns(UserWarning, match="class few has 3 rows, which are too few for the 5 folds"):
        KernelSVC(probability=True, random_state=0).fit(rows, y)
    with pytest.warns(UserWarning, match="class few has one row, so that none of it can be held"):
        model = KernelSVC(probability=True, random_state=0).fit(rows[:-2], y[:-2])
    assert model.predict_proba(rows).shape == (23, 2)


def test_fits_for_probabilities_leave_the_filters_of_warnings():
    """They are those of the process: of two fits in threads, the one may leave the other's."""
    filters = []

    def kernel(A, B):
        filters.append(warnings.filters[:])
        return A @ B.T

    KernelSVC(kernel=kernel, probability=True).fit(X, Y)
    assert len(filters) > 5
    assert all(one == warnings.filters for one in filters)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_probability_deprecated_is_false(name):
    """The default of `SVC().get_params()` since scikit-learn 1.9."""
    model = small_model(name).set_params(probability="deprecated")
    if getattr(model, "loss", None) == "log":
        model.set_params(loss="hinge")
    assert not hasattr(model.fit(X[:60], Y[:60]), "predict_proba")
