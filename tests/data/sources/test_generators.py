"""The synthetic generators: reproducible, streamed, and as hard as they should be."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.data.sources.generators import BLOCK, build
from kbench.errors import ConfigError


def rows(generator, part, n, chunk=BLOCK):
    X, y = zip(*generator.chunks(part, n, chunk), strict=True)
    return np.vstack(X), np.concatenate(y)


@given(
    st.sampled_from(["covtype_like", "noisy_function"]),
    st.integers(1, 2 * BLOCK + 5),
    st.integers(1, 5000),
    st.integers(6, 30),
)
@settings(max_examples=15)
def test_neither_chunks_nor_the_number_of_rows_change_a_row(name, n, chunk, d):
    generator = build(name, d=d, seed=3, noise=0.1)
    X, y = rows(generator, "train", n, chunk)
    X_more, y_more = rows(generator, "train", 2 * BLOCK + 5)
    assert X.shape == (n, d)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, X_more[:n])
    np.testing.assert_array_equal(y, y_more[:n])


def test_memory_is_bounded_by_blocks():
    """A billion rows can be begun at once."""
    chunks = build("covtype_like", d=54, seed=0, noise=0.05).chunks("train", 10**9)
    assert sum(X.shape[0] for X, _ in itertools.islice(chunks, 3)) == 3 * BLOCK


def test_seeds_and_parts_differ():
    first = build("covtype_like", d=54, seed=0, noise=0.05)
    other = build("covtype_like", d=54, seed=1, noise=0.05)
    assert not np.array_equal(rows(first, "train", 50)[0], rows(first, "test", 50)[0])
    assert not np.array_equal(rows(first, "train", 50)[0], rows(other, "train", 50)[0])


def test_the_rows_of_a_seed_are_pinned():
    """A change of these values asks for a new `version` of the generator."""
    X, y = rows(build("covtype_like", d=54, seed=0, noise=0.05), "train", 4)
    np.testing.assert_allclose(X[:, 0], [0.579667, 0.613534, 0.650676, 0.256456], rtol=2e-6)
    assert y.tolist() == [1.0, -1.0, -1.0, -1.0]


@pytest.mark.parametrize("d", [6, 20, 54, 200])
def test_covtype_like_has_the_form_of_covtype(d):
    X, y = rows(build("covtype_like", d=d, seed=0, noise=0.05), "train", 20_000)
    assert X.min() >= 0.0
    assert X.max() <= 1.0
    one_hot = X[:, max(2, round(d * 10 / 54)) :]
    np.testing.assert_array_equal(np.unique(one_hot), [0.0, 1.0])
    np.testing.assert_array_equal(one_hot.sum(axis=1), 2.0)
    assert 0.35 < np.mean(y == 1.0) < 0.65


def test_an_rbf_kernel_beats_a_linear_model_on_covtype_like():
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    generator = build("covtype_like", d=54, seed=0, noise=0.05)
    X, y = rows(generator, "train", 5000)
    X_test, y_test = rows(generator, "test", 2000)
    linear = LogisticRegression(max_iter=2000).fit(X, y).score(X_test, y_test)
    rbf = SVC(C=8, gamma=4).fit(X, y).score(X_test, y_test)
    assert rbf > linear + 0.1
    assert rbf < 0.96  # 5 % of the labels are flipped


def test_noise_flips_the_share_of_labels_that_it_says():
    clean = rows(build("covtype_like", d=54, seed=0, noise=0.0), "train", 20_000)[1]
    noisy = rows(build("covtype_like", d=54, seed=0, noise=0.2), "train", 20_000)[1]
    assert np.mean(clean != noisy) == pytest.approx(0.2, abs=0.015)


def test_noisy_function_is_its_formula_plus_normal_noise():
    X, y = rows(build("noisy_function", d=2, seed=0, noise=0.1), "train", 20_000)
    assert np.abs(X).max() <= 5.0
    r = np.hypot(X[:, 0].astype(float), X[:, 1].astype(float))
    residual = (y - np.cos(np.pi / 2 * r) * np.exp(-np.pi / 10 * r)) / 0.1
    # Four standard errors of mean, variance and kurtosis of 20,000 normals.
    assert abs(residual.mean()) < 0.03
    assert residual.var() == pytest.approx(1.0, abs=0.04)
    assert np.mean(residual**4) == pytest.approx(3.0, abs=0.28)


def test_parameters_out_of_range():
    with pytest.raises(ConfigError, match=r"dataset\.d is 5, covtype_like needs at least 6"):
        build("covtype_like", d=5, seed=0, noise=0.0)
    with pytest.raises(ConfigError, match=r"dataset\.noise is 0\.7, should be at most 0\.5"):
        build("covtype_like", d=54, seed=0, noise=0.7)


def test_the_fingerprint_tells_parameters_apart():
    prints = {
        build(name, d=d, seed=seed, noise=noise).fingerprint(n, 10)
        for name in ("covtype_like", "noisy_function")
        for d in (6, 7)
        for seed in (0, 1)
        for noise in (0.0, 0.1)
        for n in (10, 11)
    }
    assert len(prints) == 32
