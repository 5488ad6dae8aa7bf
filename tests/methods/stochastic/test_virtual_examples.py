"""Virtual examples are functions of seed, row and copy; what they keep and what they change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import TruncatedSVD
from small_problems import digits

from kbench.methods import DoublySGDClassifier, DoublySGDRegressor
from kbench.methods.stochastic.row_map import RowMap
from kbench.methods.stochastic.virtual_examples import KINDS, VirtualExamples

SIZES = {"shifts": 2.0, "elastic": 0.7, "coulomb": 0.5}


DIGITS = (load_digits().data[:200] / 16).astype(np.float32)


def images(n=30):
    return DIGITS[:n].copy()


def molecules(n=30, k=6):
    """Upper triangles of symmetric matrices; the last places of some are empty."""
    rng = np.random.default_rng(0)
    matrices = rng.uniform(0.1, 1.0, (n, k, k)) + np.diag(np.linspace(6, 1, k))
    matrices = matrices + matrices.transpose(0, 2, 1)
    matrices[::3, -2:, :] = matrices[::3, :, -2:] = 0
    upper = np.triu_indices(k)
    return matrices[:, upper[0], upper[1]].astype(np.float32)


def rows_of(kind):
    return molecules() if kind == "coulomb" else images()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_copy_depends_on_seed_row_and_copy_alone(kind):
    X = rows_of(kind)
    make = VirtualExamples(kind, SIZES[kind], X.shape[1], 7)
    rows, copies = np.arange(len(X)), np.full(len(X), 3)
    whole = make(X, rows, copies)
    order = np.random.default_rng(1).permutation(len(X))[:10]
    np.testing.assert_array_equal(make(X[order], rows[order], copies[order]), whole[order])
    np.testing.assert_array_equal(make(X, rows, np.zeros_like(copies)), X)
    for other in (
        make(X, rows, copies + 1),
        make(X, rows + 100, copies),
        VirtualExamples(kind, SIZES[kind], X.shape[1], 8)(X, rows, copies),
    ):
        assert np.any(other != whole)


@given(size=st.integers(1, 3), seed=st.integers(0, 2**31), channels=st.sampled_from([1, 3]))
def test_a_shift_is_one_of_whole_pixels(size, seed, channels):
    plane = images(5).reshape(5, 8, 8)
    X = np.concatenate([plane.reshape(5, 64)] * channels, axis=1)
    make = VirtualExamples("shifts", size, X.shape[1], seed)
    shifted = make(X, np.arange(5), np.ones(5, int)).reshape(5, channels, 8, 8)
    for i in range(5):
        padded = np.pad(plane[i], size)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (8, 8)).reshape(-1, 8, 8)
        for channel in shifted[i]:
            assert np.any(np.all(windows == channel, axis=(1, 2)))


def test_every_shift_occurs():
    X = np.zeros((400, 25), np.float32)
    X[:, 12] = 1.0
    moved = VirtualExamples("shifts", 1, 25, 0)(X, np.arange(400), np.ones(400, int))
    counts = moved.sum(axis=0).reshape(5, 5)[1:4, 1:4]
    assert counts.sum() == 400
    assert counts.min() > 20


def test_a_deformation_reads_the_image_bilinearly_where_its_field_points():
    """An image that is linear in the place takes, inside, the values of the places themselves."""
    k, size = 28, 0.5
    down, right = np.mgrid[:k, :k]
    for plane, axis in ((down, 0), (right, 1)):
        X = plane.reshape(1, -1).astype(np.float32)
        make = VirtualExamples("elastic", size, k * k, 3)
        fields = []
        for copy in range(1, 200):
            read = make(X, np.array([5]), np.array([copy])).reshape(k, k)
            fields.append((read - plane)[8:20, 8:20])
        spread = np.std(fields, axis=0)
        # Standard deviation of a + B p + e: at a point of the grid, and at most.
        assert np.all(spread > 0.8 * size)
        assert np.all(spread < 1.2 * size * np.sqrt(2 + 2 * 0.5**2))
        steps = np.abs(np.diff(fields, axis=axis + 1))
        assert steps.max() < 6 * size / 6.75 * 2  # smooth: a grid's cell is 6.75 pixels wide
    blank = np.zeros((2, k * k), np.float32)
    np.testing.assert_array_equal(make(blank, np.arange(2), np.ones(2, int)), blank)


@given(seed=st.integers(0, 2**31), size=st.floats(0.01, 5.0))
def test_another_order_of_the_atoms_is_the_same_molecule(seed, size):
    X, k = molecules(), 6
    make = VirtualExamples("coulomb", size, X.shape[1], seed)
    copies = make(X, np.arange(len(X)), np.ones(len(X), int))
    upper = np.triu_indices(k)
    for before, after in zip(X, copies, strict=True):
        matrices = np.zeros((2, k, k))
        for matrix, triangle in zip(matrices, (before, after), strict=True):
            matrix[upper] = triangle
            matrix.T[upper] = triangle
        np.testing.assert_allclose(*np.linalg.eigvalsh(matrices), atol=1e-5)
        empty = ~matrices.any(axis=2)
        np.testing.assert_array_equal(empty[0], empty[1])


@pytest.mark.parametrize(
    ("kind", "d", "message"),
    [
        ("shifts", 65, "X has 65 features, which do not form square images with 1 or 3"),
        ("coulomb", 64, "X has 64 features, which are not the upper triangle of a square"),
    ],
)
def test_rows_of_another_kind_are_refused(kind, d, message):
    X = np.random.default_rng(0).normal(size=(50, d))
    with pytest.raises(ValueError, match=message):
        DoublySGDClassifier(virtual=kind).fit(X, X[:, 0] > 0)


def test_axes_are_those_of_the_second_moments():
    X = images(200)
    mapped = RowMap(True, 10, centred=True).fit(X)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    svd = TruncatedSVD(10, algorithm="arpack").fit(unit.astype(np.float64))
    overlap = np.abs(np.sum(mapped.axes * svd.components_.T, axis=0))
    np.testing.assert_allclose(overlap, 1.0, atol=1e-4)
    np.testing.assert_allclose(mapped(X).mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(mapped(X), unit @ mapped.axes - mapped.centre, atol=1e-6)
    with pytest.raises(
        ValueError, match=r"pca_components is 65, should be at most .* features, 64"
    ):
        RowMap(False, 65, centred=True).fit(X)


def test_virtual_examples_count_and_help():
    """Of 100 digits: with deformed copies of them fewer others are mistaken."""
    X, y = digits()
    shared = {"block_size": 256, "batch_size": 150, "unit_norm": True, "random_state": 0}
    plain = DoublySGDClassifier(n_epochs=8, **shared).fit(X[:100], y[:100])
    model = DoublySGDClassifier(
        virtual="elastic", virtual_size=0.15, n_copies=8, predict_votes=3, **shared
    ).fit(X[:100], y[:100])
    assert model.n_seen_ == plain.n_seen_ == 800
    assert model.score(X[300:], y[300:]) > plain.score(X[300:], y[300:])
    some = model.decision_function(X[400:410])
    np.testing.assert_allclose(model.decision_function(X[300:])[100:110], some, atol=1e-5)
    once = clone(model).set_params(predict_votes=1).fit(X[:100], y[:100])
    assert np.any(once.decision_function(X[400:410]) != some)


def test_passes_over_copies_are_evaluated_once_each():
    X, y = digits()
    model = DoublySGDClassifier(
        virtual="shifts", n_copies=2, n_epochs=3, block_size=64, batch_size=100, random_state=0
    ).fit(X[:200], y[:200])
    steps = 3 * 4
    assert model.n_iter_ == steps
    # Features of a step's own block, and those of each block before on each batch once.
    once = 4 * steps - sum(range(1, 5))
    # At the end the training rows are predicted once (`kbench.methods.base.finished_fit`).
    at_the_end = 200 * 64 * steps
    assert model.features_.n_features_computed <= 100 * 64 * (steps + once) + at_the_end


def test_a_stream_of_virtual_examples():
    X, y = digits()
    model = DoublySGDClassifier(
        virtual="shifts",
        n_copies=2,
        block_size=64,
        batch_size=100,
        pca_components=20,
        random_state=0,
    )
    for start in range(0, 600, 200):
        rows = slice(start, start + 200)
        model.partial_fit(X[rows], y[rows], classes=range(10))
    assert model.n_seen_ == 1200
    assert model.score(X[600:], y[600:]) > 0.8


def test_regression_on_molecules_in_any_order():
    X = molecules(300)
    y = X.sum(axis=1)  # does not depend on the order
    model = DoublySGDRegressor(
        virtual="coulomb", n_copies=5, predict_votes=5, block_size=256, batch_size=500,
        pca_components=21, ridge=1e-3, random_state=0,
    ).fit(X[:250], y[:250])  # fmt: skip
    assert model.score(X[250:], y[250:]) > 0.9
