"""KernelRidge, Nystrom and RandomFourierFeatures agree with scikit-learn's classes."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_diabetes
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge as Theirs
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from kbench.approximation import Nystrom, RandomFourierFeatures
from kbench.kernels.named import PAIRWISE_KERNELS
from kbench.methods import KernelRidge

X, Y = load_diabetes(return_X_y=True)
X, Y = 10.0 * X[:150], Y[:150]


def test_the_kernels_are_those_of_scikit_learn():
    assert set(PAIRWISE_KERNEL_FUNCTIONS) == PAIRWISE_KERNELS
    theirs = Theirs().get_params()
    assert {name: KernelRidge().get_params()[name] for name in theirs} == theirs


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", sorted(PAIRWISE_KERNELS))
def test_predictions_are_those_of_scikit_learn(kernel, weighted):
    rows = np.abs(X) if "chi2" in kernel else X
    parameters = {"kernel": kernel} | ({"gamma": 0.7} if kernel == "chi2" else {})
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(Y)) if weighted else None
    with warnings.catch_warnings(action="ignore"):
        theirs = Theirs(**parameters).fit(rows, Y, weight)
        ours = KernelRidge(**parameters).fit(rows, Y, weight)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_array_equal(ours.X_fit_, theirs.X_fit_)
    atol = 1e-3 * np.std(Y)
    np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), atol=atol)


def test_callables_get_two_rows_precomputed_values_and_alpha_for_each_target():
    few, targets = X[:30], np.c_[Y, -2.0 * Y][:30]
    for parameters, rows in (
        ({"kernel": lambda a, b, c: c + float(a @ b), "kernel_params": {"c": 1.0}}, few),
        ({"kernel": "precomputed", "alpha": [0.1, 10.0]}, few @ few.T),
        ({"kernel": "rbf", "alpha": [0.1, 10.0]}, few),
    ):
        theirs, ours = (cls(**parameters).fit(rows, targets) for cls in (Theirs, KernelRidge))
        np.testing.assert_allclose(ours.predict(rows), theirs.predict(rows), atol=1e-4)
    with pytest.raises(ValueError, match="alpha has shape \\(3,\\), but there are 2 targets"):
        KernelRidge([1.0, 2.0, 3.0]).fit(few, targets)


def test_a_singular_system_is_solved_by_least_squares_with_a_warning():
    with pytest.warns(scipy.linalg.LinAlgWarning, match="singular"):
        ours = KernelRidge(0.0).fit(X, Y)
    expected = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(ours.predict(X), expected, atol=1e-6 * np.abs(Y).max())


@pytest.mark.parametrize("kernel", sorted(PAIRWISE_KERNELS))
def test_nystrom_of_all_rows_is_the_kernel_of_nystroem(kernel):
    rows = np.abs(X[:40]) if "chi2" in kernel else X[:40]
    gamma = 0.7 if kernel in ("chi2", "sigmoid") else None
    if kernel in ("additive_chi2", "sigmoid"):
        pytest.skip("not positive definite: each keeps another part of it")
    parameters = {"kernel": kernel, "gamma": gamma, "n_components": 40, "random_state": 0}
    ours = Nystrom(**parameters, degree=None, coef0=None).fit(rows)
    A, B = ours.transform(rows), Nystroem(**parameters).fit_transform(rows)
    np.testing.assert_allclose(A @ A.T, B @ B.T, rtol=1e-3, atol=1e-3)
    assert ours.normalization_.shape == (ours.n_features_out_,) * 2


def test_random_fourier_features_are_those_of_rbf_sampler():
    parameters = {"gamma": 0.3, "n_components": 50, "random_state": 3}
    ours, theirs = (cls(**parameters).fit(X) for cls in (RandomFourierFeatures, RBFSampler))
    np.testing.assert_allclose(ours.random_weights_, theirs.random_weights_)
    np.testing.assert_allclose(ours.random_offset_, theirs.random_offset_)
    np.testing.assert_allclose(ours.transform(X), theirs.transform(X), atol=1e-4)


@pytest.mark.parametrize("alpha", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_beside_which_alpha_is_a_rounding_error_are_solved_by_least_squares(alpha, weighted):
    """A cubic of a column with a mean of 50, whose values are 1e10: predictions were zero."""
    rng = np.random.default_rng(0)
    X = 50.0 + rng.normal(size=(40, 1))
    y = X[:, 0] - 50.0 + rng.normal(size=40)
    weight = rng.integers(1, 4, 40) if weighted else None
    model = KernelRidge(alpha=alpha, kernel="poly", degree=3, coef0=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        predicted = model.fit(X, y, weight).predict(X)
    # The map of (x z + 1)^3, whose condition is the root of the matrix's.
    map_ = X ** np.arange(4) * np.sqrt([1.0, 3.0, 3.0, 1.0])
    root = np.ones((40, 1)) if weight is None else np.sqrt(weight)[:, None]
    augmented = np.vstack([root * map_, np.sqrt(alpha) * np.eye(4)])
    coef = np.linalg.lstsq(augmented, np.append(root[:, 0] * y, np.zeros(4)))[0]
    np.testing.assert_allclose(predicted, map_ @ coef, atol=0.05)
