"""Blocks of seeded features: what they estimate, and that they need nothing but seed and number."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.signal import correlate2d
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from kbench.approximation.seeded.named_blocks import median_gamma, seeded_features

KERNELS = {
    "rbf": ({}, lambda X: rbf_kernel(X, gamma=0.3)),
    "laplacian": ({}, lambda X: laplacian_kernel(X, gamma=0.3)),
    "matern": ({"smoothness": 2.5}, Matern(length_scale=(1 / 0.6) ** 0.5, nu=2.5)),
    "poly": (
        {"degree": 3, "coef0": 1.0},
        lambda X: polynomial_kernel(X, degree=3, gamma=0.3, coef0=1.0),
    ),
}


def rows(n=20, d=5, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (n, d)).astype(np.float32)


def features(kernel, n_features=256, seed=1, **options):
    return seeded_features(kernel, 5, n_features, seed, 0.3, **KERNELS[kernel][0], **options)


def block(maker, number, X):
    out = np.empty((X.shape[0], maker.n_features), np.float32)
    maker.fill(number, X, out)
    return out


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_mean_gram_matrix_of_blocks_is_the_kernel(kernel):
    X = rows()
    maker = features(kernel)
    grams = np.array([Z @ Z.T for Z in (block(maker, t, X) for t in range(400))], np.float64)
    error = np.abs(grams.mean(axis=0) - KERNELS[kernel][1](X))
    # 5.5 standard errors: 400 values, and bound by chance once in 10^4 such tests.
    assert (error <= 5.5 * grams.std(axis=0) / np.sqrt(len(grams)) + 1e-6).all()
    if kernel != "poly":  # cos^2 + sin^2
        np.testing.assert_allclose(np.diagonal(grams, axis1=1, axis2=2), 1.0, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_do_not_depend_on_order_or_cache(kernel):
    X = rows()
    forward, backward = features(kernel), features(kernel, cache_mb=1.0)
    first = [block(forward, t, X) for t in range(5)]
    for _ in range(2):
        for t in reversed(range(5)):
            np.testing.assert_array_equal(block(backward, t, X), first[t])
    assert forward.n_drawn == backward.n_drawn == 5
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], block(features(kernel, seed=2), 0, X))


def test_the_cache_is_bounded_and_keeps_what_was_used_last():
    maker = features("rbf", cache_mb=2 * 4 * 5 * 128 / 2**20)  # two blocks
    for number in (0, 1, 0, 2, 0, 1):
        maker.drawn(number)
    assert maker.n_drawn == 4
    uncached = features("rbf")
    for _ in range(3):
        uncached.drawn(0)
    assert uncached.n_drawn == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_add_is_the_product_of_features_and_coefficients(kernel):
    X = rows(5000)
    maker = features(kernel, n_features=1024)
    coef = np.random.default_rng(0).normal(size=(1024, 3)).astype(np.float32)
    values = np.ones((5000, 3))
    maker.add(4, X, coef, values)
    assert maker.n_features_computed == 5000 * 1024
    np.testing.assert_allclose(values, 1.0 + block(maker, 4, X) @ coef, rtol=1e-3, atol=1e-3)
    sparse = np.ones((5000, 3))
    maker.add(4, sp.csr_array(X), coef, sparse)
    np.testing.assert_allclose(sparse, values, rtol=1e-3, atol=1e-3)


def test_median_gamma():
    rng = np.random.RandomState(0)
    X = np.array([[0.0], [0.0], [2.0]])
    assert median_gamma(X, rng) == median_gamma(sp.csr_array(X), rng) == 1 / 8
    assert median_gamma(np.ones((5, 2)), rng) == 1.0


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("matern", {"smoothness": 0.7}, "smoothness is 0.7, should be a positive multiple of 1/2"),
        ("poly", {"coef0": -1.0}, "coef0 is -1, should not be negative"),
    ],
)
def test_invalid_parameters_are_refused(kernel, options, message):
    with pytest.raises(ValueError, match=message):
        seeded_features(kernel, 5, 8, 0, 1.0, **options)


@pytest.mark.parametrize(("side", "channels"), [(8, 1), (10, 3)])
def test_convolution_is_filters_maxima_and_rectifiers(side, channels):
    """Pixel by pixel with scipy's correlation."""
    n_filters, places = 3, (side // 4) ** 2
    X = np.random.default_rng(0).normal(size=(70, channels * side * side)).astype(np.float32)
    blocks = seeded_features("convolution", X.shape[1], n_filters * places, 5, 1.0)
    out = np.empty((len(X), n_filters * places), np.float32)
    blocks.fill(2, X, out)
    numbers = blocks.drawn(2).astype(np.float64)
    first = numbers[: 25 * channels * 16].reshape(channels, 5, 5, 16)
    second = numbers[25 * channels * 16 :].reshape(16, 5, 5, n_filters)

    def layer(planes, filters):
        half = planes.shape[1] // 2
        results = []
        for k in range(filters.shape[-1]):
            value = sum(
                correlate2d(plane, f, mode="same")
                for plane, f in zip(planes, filters[..., k], strict=True)
            )
            cut = value[: 2 * half, : 2 * half].reshape(half, 2, half, 2)
            results.append(np.maximum(cut.max(axis=(1, 3)), 0))
        return np.array(results)

    for i in (0, 69):
        image = X[i].reshape(channels, side, side).astype(np.float64)
        expected = layer(layer(image, first), second).transpose(1, 2, 0).ravel()
        np.testing.assert_allclose(out[i], expected / np.sqrt(n_filters), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("d", "n_features", "message"),
    [
        (63, 32, "X has 63 features, which do not form square images"),
        (64, 30, "should be a multiple of 4, the pixels that two layers leave of images of 8 x 8"),
        (9, 4, "images of 3 x 3 pixels"),
    ],
)
def test_images_of_unsuitable_size_are_refused(d, n_features, message):
    with pytest.raises(ValueError, match=message):
        seeded_features("convolution", d, n_features, 0, 1.0)
