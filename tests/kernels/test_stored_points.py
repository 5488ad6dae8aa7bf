"""Stored points are refused if compiled code would read beyond their arrays."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

from kbench.kernels import KERNELS, make_kernel
from kbench.kernels.kernel import check_points

RNG = np.random.default_rng(0)
N = 30  # unlike any number of features or words
ROWS = {
    "real": RNG.normal(size=(N, 7)),
    "bits": np.column_stack([RNG.normal(size=(N, 3)), RNG.random((N, 40)) < 0.5]),
    "levels": RNG.integers(0, 6, (N, 24)).astype(float),
    "sparse": sp.random_array((N, 5000), density=0.001, rng=RNG, format="csr"),
}
NAMES = sorted(set(KERNELS) - {"precomputed"})  # whose points are numbers of rows


def prepared(name, rows, dtype=np.float32):
    """The bound kernel, its points of all rows as a model keeps them, and the number of columns."""
    X = ROWS[rows].astype(dtype)
    kernel = make_kernel(name, X, gamma=0.1).bind(X)
    return kernel, kernel.as_centres(kernel.prepare(X, np.dtype(dtype))), X.shape[1]


def is_taken(kernel, points, n_features):
    try:
        check_points(kernel, points, np.dtype(np.float32), n_features)
    except ValueError:
        return False
    return True


def shorter(points):
    """The same points, once with each of their matrices with a number less of each point."""
    if not is_dataclass(points):
        yield "columns", points[:, :-1]
        return
    for item in fields(points):
        array = getattr(points, item.name)
        if isinstance(array, np.ndarray) and array.ndim == 2 and array.size:
            fewer = array[:-1] if array.shape[1] == N else array[:, :-1]
            yield item.name, replace(points, **{item.name: fewer})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", sorted(ROWS))
def test_points_as_they_were_prepared_are_taken(name, rows, dtype):
    kernel, points, d = prepared(name, rows, dtype)
    assert check_points(kernel, points, np.dtype(dtype), d) == N


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", sorted(ROWS))
def test_points_that_lack_a_number_are_refused(name, rows):
    kernel, points, d = prepared(name, rows)
    for changed, damaged in shorter(points):
        assert not is_taken(kernel, damaged, d), changed


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", sorted(ROWS))
def test_points_of_more_features_than_the_model_has_are_refused(name, rows):
    kernel, points, _ = prepared(name, rows)
    assert not is_taken(kernel, points, 2)


@pytest.mark.parametrize("name", NAMES)
def test_points_of_another_layout_are_refused(name):
    made = {rows: prepared(name, rows) for rows in sorted(ROWS)}
    for rows, (kernel, _, d) in made.items():
        for other, (_, points, _) in made.items():
            if other != rows:
                assert not is_taken(kernel, points, d), (rows, other)


def test_something_that_is_no_kernel_is_refused():
    _, points, d = prepared("rbf", "real")
    with pytest.raises(ValueError, match="kernel is of another class"):
        check_points("rbf", points, np.dtype(np.float32), d)
