"""Posterior deviations of kernel ridge: those of Gaussian processes, and their laws."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Exponentiation, PairwiseKernel

from kbench.approximation import HSSMatrix
from kbench.kernels import KernelMatrix
from kbench.kernels.named import pairwise_names
from kbench.methods import HSSKernelRidge, KernelRidge
from kbench.prediction import load_model, save_model

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(size=(150, 3))
Z = GENERATOR.uniform(-0.2, 1.2, size=(40, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1]


def gaussian_process(kernel, alpha, y=Y):
    return GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y)


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 3.0])
@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        (RBF(0.5), {"kernel": "rbf", "gamma": 2.0}),
        (DotProduct(1.0), {"kernel": "poly", "degree": 1, "gamma": 1.0, "coef0": 1.0}),
        (Exponentiation(DotProduct(0.5), 2), {"kernel": "poly", "degree": 2, "gamma": 1.0,
                                              "coef0": 0.25}),
        (PairwiseKernel(gamma=1.5, metric="laplacian"), {"kernel": "laplacian", "gamma": 1.5}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array])
def test_mean_and_deviation_are_those_of_a_gaussian_process(kernel, params, alpha, rows):
    mean, std = gaussian_process(kernel, alpha).predict(Z, return_std=True)
    model = KernelRidge(alpha, **params).fit(rows(X), Y)
    found, deviation = model.predict(rows(Z), return_std=True)
    np.testing.assert_array_equal(found, model.predict(rows(Z)))
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(deviation, std, atol=1e-6)


def test_weights_divide_the_variance_of_the_noise():
    weight = GENERATOR.uniform(0.2, 3.0, size=len(X))
    model = KernelRidge(0.3, kernel="rbf", gamma=2.0).fit(X, Y, weight)
    mean, std = gaussian_process(RBF(0.5), 0.3 / weight).predict(Z, return_std=True)
    found, deviation = model.predict(Z, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(deviation, std, atol=1e-9)
    without = model.fit(X, Y).predict(Z, return_std=True)[1]
    expected = gaussian_process(RBF(0.5), 0.3).predict(Z, return_std=True)[1]
    np.testing.assert_allclose(without, expected, atol=1e-9)


def test_each_target_has_the_deviation_of_its_alpha():
    targets = np.column_stack([Y, -Y, Y**2])
    model = KernelRidge([0.1, 2.0, 0.1], kernel="rbf", gamma=2.0).fit(X, targets)
    mean, std = model.predict(Z, return_std=True)
    assert mean.shape == std.shape == (40, 3)
    for column, alpha in enumerate([0.1, 2.0, 0.1]):
        one = KernelRidge(alpha, kernel="rbf", gamma=2.0).fit(X, targets[:, column])
        np.testing.assert_array_equal(std[:, column], one.predict(Z, return_std=True)[1])
    shared = KernelRidge(0.1, kernel="rbf", gamma=2.0).fit(X, targets)
    assert shared.predict(Z, return_std=True)[1].shape == (40, 3)


@pytest.mark.parametrize("kernel", sorted(pairwise_names()))
def test_every_kernel_has_the_formula_or_says_that_it_is_not_definite(kernel):
    model = KernelRidge(0.5, kernel=kernel, gamma=0.7).fit(X, Y)
    rows = np.abs(Z)
    both = np.concatenate([X, rows])
    values = KernelMatrix(model._kernel(X), both, np.float64).block(np.arange(len(both)))
    n = len(X)
    if np.linalg.eigvalsh(values).min() < -1e-6:
        assert kernel in ("additive_chi2", "sigmoid")
        with pytest.raises(ValueError, match="not positive"):
            model.predict(rows, return_std=True)
        return
    cross = values[n:, :n]
    inverse = np.linalg.inv(values[:n, :n] + 0.5 * np.eye(n))
    expected = np.sqrt(np.diag(values)[n:] - np.einsum("ij,jk,ik->i", cross, inverse, cross))
    np.testing.assert_allclose(model.predict(rows, return_std=True)[1], expected, atol=1e-6)


def test_far_away_it_is_the_prior(tmp_path):
    model = KernelRidge(0.1, kernel="rbf", gamma=2.0).fit(X, Y)
    far = model.predict(X + 100.0, return_std=True)
    np.testing.assert_allclose(far, [np.zeros(150), np.ones(150)], atol=1e-12)
    save_model(tmp_path / "model.npz", model)
    loaded = load_model(tmp_path / "model.npz").estimator
    np.testing.assert_array_equal(
        loaded.predict(Z, return_std=True), model.predict(Z, return_std=True)
    )


@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_hss_ridge_has_that_of_the_exact_matrix(alpha, n_targets):
    y = Y if n_targets == 1 else np.column_stack([Y, Y**2])
    matrix = HSSMatrix(gamma=2.0, preset="precise", leaf_size=32, random_state=0)
    model = HSSKernelRidge(matrix, alpha=alpha, warm_start=True).fit(X, y)
    assert model.ranks_
    mean, std = gaussian_process(RBF(0.5), alpha, y).predict(Z, return_std=True)
    found, deviation = model.predict(Z, return_std=True)
    assert deviation.shape == found.shape == std.shape
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(deviation, std, atol=1e-6)
    np.testing.assert_array_equal(found, model.predict(Z))


@pytest.mark.parametrize(
    ("model", "rows", "said"),
    [
        (KernelRidge(kernel="precomputed"), X @ X.T, "a kernel with values k\\(x, x\\)"),
        (KernelRidge(0.0, kernel="poly", degree=1), X, "alpha=0 is not positive definite"),
        (KernelRidge(memory_mb=0.1), X, "memory_mb=0.1"),
        (HSSKernelRidge(), X, "warm_start=True"),
    ],
)
@pytest.mark.filterwarnings("ignore:the kernel matrix plus alpha is singular")
def test_what_has_no_deviation_says_why(model, rows, said):
    if getattr(model, "memory_mb", None) == 0.1:
        model.set_params(memory_mb=1.0).fit(rows, Y).set_params(memory_mb=0.1)
    else:
        model.fit(rows, Y)
    with pytest.raises(ValueError, match=said):
        model.predict(rows, return_std=True)
