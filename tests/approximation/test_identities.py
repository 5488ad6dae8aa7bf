"""Facts of mathematics about the feature maps and the transform under Fastfood."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel

from kbench.approximation import (
    Fastfood,
    LandmarkFeatures,
    Nystrom,
    RandomFourierFeatures,
    walsh_hadamard,
)
from kbench.approximation.features.turns import SERIES, write_features


def rows(n=120, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@given(q=st.integers(0, 9), n=st.integers(1, 70), dtype=st.sampled_from(["f4", "f8"]))
@settings(max_examples=30)
def test_fast_transform_is_the_hadamard_matrix(q, n, dtype):
    X = rows(n, 2**q, seed=q).astype(dtype)
    given_X = X.copy()
    H = scipy.linalg.hadamard(2**q)
    np.testing.assert_allclose(
        walsh_hadamard(X), X.astype(float) @ H, atol=(1e-3 if dtype == "f4" else 1e-10)
    )
    np.testing.assert_allclose(
        walsh_hadamard(walsh_hadamard(X)), 2.0**q * X, atol=(1e-2 if dtype == "f4" else 1e-9)
    )
    np.testing.assert_array_equal(X, given_X)


def test_error_names_a_length_that_is_not_a_power_of_two():
    with pytest.raises(ValueError, match="rows of length 6"):
        walsh_hadamard(rows(4, 6))


@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
@pytest.mark.parametrize("landmarks", ["uniform", "kmeans"])
def test_nystrom_is_exact_at_its_landmarks_and_defined_by_them(kernel, landmarks):
    X = rows()
    options = {"kernel": kernel, "gamma": 0.3, "degree": 2, "coef0": 1.0, "random_state": 1}
    used = {"laplacian": ["gamma"], "rbf": ["gamma"], "linear": []}
    own = {key: options[key] for key in used.get(kernel, ["gamma", "degree", "coef0"])}
    Z = LandmarkFeatures(15, landmarks=landmarks, **options).fit(X).components_
    feature_map = Nystrom(15, landmarks=landmarks, **options).fit(X)
    gram = pairwise_kernels(Z, metric=kernel, **own)
    cross = pairwise_kernels(X, Z, metric=kernel, **own)
    F_Z, F = feature_map.transform(Z), feature_map.transform(X)
    np.testing.assert_allclose(F_Z @ F_Z.T, gram, atol=1e-5)
    np.testing.assert_allclose(F @ F_Z.T, cross, atol=1e-5)
    np.testing.assert_allclose(F @ F.T, cross @ np.linalg.pinv(gram, 1e-9) @ cross.T, atol=1e-3)


def test_all_points_as_landmarks_give_the_kernel_itself():
    X = rows(80)
    K = rbf_kernel(X, gamma=0.5)
    for landmarks in ("uniform", "kmeans"):
        nystrom = Nystrom(1000, gamma=0.5, landmarks=landmarks, random_state=0)
        with pytest.warns(UserWarning, match="n_components=1000 is more than n_samples=80"):
            F = nystrom.fit_transform(X)
        np.testing.assert_allclose(F @ F.T, K, atol=1e-5)
        np.testing.assert_allclose(F[:10] @ F[10:].T, K[:10, 10:], atol=1e-5)


def test_nystrom_error_is_positive_semidefinite_and_falls_with_the_rank():
    X = rows(200)
    K = rbf_kernel(X, gamma=0.3)
    errors = []
    for m in (5, 20, 80):
        F = Nystrom(m, gamma=0.3, random_state=3).fit_transform(X)
        assert np.linalg.eigvalsh(K - F @ F.T)[0] > -1e-6
        errors.append(np.linalg.norm(K - F @ F.T))
    assert errors[0] > errors[1] > errors[2]


def test_landmarks_in_the_span_of_others_are_left_out():
    X = np.repeat(rows(10), 6, axis=0)
    feature_map = Nystrom(60, gamma=0.5, random_state=0).fit(X)
    assert feature_map.n_features_out_ == feature_map.n_landmarks_ == 10
    F = feature_map.transform(X.astype(np.float32))
    np.testing.assert_allclose(F @ F.T, rbf_kernel(X, gamma=0.5), atol=1e-4)


def test_landmark_coef_converts_weights_of_features_to_weights_of_landmarks():
    X = rows()
    w = np.random.default_rng(1).normal(size=(15, 2))
    for cls in (LandmarkFeatures, Nystrom):
        feature_map = cls(15, gamma=0.3, random_state=0).fit(X)
        Z = feature_map.components_
        expansion = rbf_kernel(X, Z, gamma=0.3) @ feature_map.landmark_coef(w)
        np.testing.assert_allclose(feature_map.transform(X) @ w, expansion, atol=1e-8)


def test_landmark_features_are_kernel_values():
    X = rows()
    feature_map = LandmarkFeatures(9, gamma=0.3, landmarks="kmeans", random_state=0).fit(X)
    Z = feature_map.components_
    np.testing.assert_allclose(feature_map.transform(X), rbf_kernel(X, Z, gamma=0.3), atol=1e-12)
    assert len(Z) == 9
    assert not np.isin(Z[:, 0], X[:, 0]).all()


def mean_gram(make, X, n_seeds):
    """Mean and standard error of the features' inner products over seeds."""
    grams = []
    for seed in range(n_seeds):
        F = make(seed).fit_transform(X)
        grams.append(F @ F.T)
    return np.mean(grams, axis=0), np.std(grams, axis=0) / np.sqrt(n_seeds)


@pytest.mark.parametrize("form", ["phase", "cos_sin"])
@pytest.mark.parametrize(
    "name", ["rbf", "laplacian", "orthogonal", "quasi", "quasi laplacian", "fastfood"]
)
def test_features_are_unbiased_over_seeds(name, form):
    X = 0.5 * rows(12, 6)

    def make(seed):
        if name == "fastfood":
            return Fastfood(256, gamma=0.4, form=form, random_state=seed)
        kernel = "laplacian" if "laplacian" in name else "rbf"
        sampling = name.split()[0] if name[0] in "oq" else "independent"
        options = {"gamma": 0.4, "form": form, "kernel": kernel, "sampling": sampling}
        return RandomFourierFeatures(256, random_state=seed, **options)

    K = (laplacian_kernel if "laplacian" in name else rbf_kernel)(X, gamma=0.4)
    mean, error = mean_gram(make, X, 150)
    # 72 distinct values: six standard errors are never exceeded by chance.
    assert np.all(np.abs(mean - K) <= 6 * error + 1e-12)
    assert error.max() < 0.01
    if form == "cos_sin":
        np.testing.assert_allclose(mean.diagonal(), 1.0, atol=1e-12)


@pytest.mark.parametrize("cls", [RandomFourierFeatures, Fastfood])
def test_error_falls_with_the_square_root_of_the_features(cls):
    X = rows(40, 8)
    K = rbf_kernel(X, gamma=0.1)
    errors = []
    for D in (256, 4096):
        grams = (cls(D, gamma=0.1, random_state=s).fit_transform(X) for s in range(8))
        errors.append(np.mean([np.sqrt(np.mean((F @ F.T - K) ** 2)) for F in grams]))
    # sqrt(4096 / 256) = 4.
    assert 3.0 < errors[0] / errors[1] < 5.3


@pytest.mark.parametrize(("d", "D"), [(1, 3), (5, 3), (5, 17)])
def test_orthogonal_frequencies_are_orthogonal_and_estimate_better(d, D):
    X = 0.3 * rows(40, d)
    K = rbf_kernel(X, gamma=0.5)
    errors = np.zeros(2)
    for seed in range(60):
        for i, sampling in enumerate(("independent", "orthogonal")):
            options = {"form": "cos_sin", "sampling": sampling, "random_state": seed}
            feature_map = RandomFourierFeatures(2 * D, gamma=0.5, **options).fit(X)
            F = feature_map.transform(X)
            errors[i] += np.square(F @ F.T - K).sum()
        frequencies = feature_map.frequencies_
        assert frequencies.shape == (d, D)
        for start in range(0, D, d):
            products = frequencies[:, start : start + d].T @ frequencies[:, start : start + d]
            np.testing.assert_allclose(products, np.diag(products.diagonal()), atol=1e-12)
    assert d == 1 or errors[1] < 0.8 * errors[0]


def test_orthogonal_frequencies_have_no_laplacian_kernel():
    with pytest.raises(ValueError, match="sampling='orthogonal' is for kernels with an isotropic"):
        RandomFourierFeatures(8, kernel="laplacian", sampling="orthogonal").fit(rows(20, 3))


def test_quasi_monte_carlo_frequencies_estimate_better_along_principal_axes():
    # Two of ten directions hold nearly all of the variance, and neither is an axis.
    X = rows(60, 10) * np.r_[1.0, 0.7, np.full(8, 0.05)]
    X = X @ np.linalg.qr(rows(10, 10))[0]
    K = rbf_kernel(X, gamma=0.5)
    errors = np.zeros(3)
    for seed in range(20):
        for i, sampling in enumerate(("independent", "orthogonal", "quasi")):
            options = {"form": "cos_sin", "sampling": sampling, "random_state": seed}
            F = RandomFourierFeatures(128, gamma=0.5, **options).fit_transform(X)
            errors[i] += np.square(F @ F.T - K).sum()
    assert errors[2] < 0.2 * errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("X", [rows(1, 3), np.ones((5, 3)), sp.csr_array(rows(30, 4))])
def test_quasi_monte_carlo_frequencies_of_few_equal_or_sparse_rows(X):
    F = RandomFourierFeatures(16, sampling="quasi", form="cos_sin", random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.square(F).sum(axis=1), 1.0, atol=1e-6)


@given(turns=arrays(np.float64, 24, elements=st.floats(-1e3, 1e3)), dtype=st.sampled_from("fd"))
def test_cosines_of_turns_are_those_of_numpy(turns, dtype):
    angles = turns.astype(dtype)
    exact = angles - np.rint(angles)  # without error
    expected = np.cos(2 * np.pi * exact), np.sin(2 * np.pi * exact)
    series, tolerance = SERIES[np.dtype(dtype)], 8 * np.finfo(dtype).eps
    pair = np.tile(angles.reshape(4, 6), 2)
    write_features(pair, series[:0], series.dtype.type(0.5), series)
    np.testing.assert_allclose(2 * pair[:, :6].ravel(), expected[0], atol=tolerance)
    np.testing.assert_allclose(2 * pair[:, 6:].ravel(), expected[1], atol=tolerance)
    shifted = angles.reshape(4, 6).copy()
    write_features(shifted, np.full(6, 0.75, dtype), series.dtype.type(1), series)
    tolerance += 2 * np.pi * np.finfo(dtype).eps * (1 + np.abs(angles))  # of t + 3/4
    assert np.all(np.abs(shifted.ravel() - expected[1]) <= tolerance)


@pytest.mark.parametrize(("d", "D"), [(1, 5), (8, 8), (9, 40), (13, 33)])
def test_fastfood_is_its_product_of_matrices(d, D):
    X = rows(50, d)
    feature_map = Fastfood(2 * D, gamma=0.7, form="cos_sin", random_state=0).fit(X)
    blocks, length = feature_map.signs_.shape
    assert length >= d > length // 2
    assert blocks == -(-D // length)
    H = scipy.linalg.hadamard(length)
    V = np.vstack(
        [
            np.diag(feature_map.scales_[b])
            @ H
            @ np.diag(feature_map.gaussians_[b])
            @ np.eye(length)[feature_map.permutations_[b]]
            @ H
            @ np.diag(feature_map.signs_[b])
            for b in range(blocks)
        ]
    )[:D]
    angles = np.pad(X, ((0, 0), (0, length - d))) @ V.T
    expected = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(D)
    np.testing.assert_allclose(feature_map.transform(X), expected, atol=1e-10)


def test_fastfood_frequencies_have_the_norms_of_gaussian_ones():
    feature_map = Fastfood(64 * 64, gamma=0.5, random_state=0).fit(rows(3, 64))
    norms = feature_map.scales_ * np.linalg.norm(feature_map.gaussians_, axis=1)[:, None] * 8.0
    # chi with 64 degrees of freedom over sigma = 1: mean of squares 64.
    assert (norms**2).mean() == pytest.approx(64.0, rel=0.02)
