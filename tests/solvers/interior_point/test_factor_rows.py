"""Factors in memory and read by blocks: the same sums, values and rows, for any threads."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from kbench.solvers.interior_point import factor_rows
from kbench.solvers.interior_point.duals import solve_interior, solve_signed
from kbench.solvers.interior_point.factor_rows import (
    ReadRows,
    StoredRows,
    gram,
    squares,
    sums,
    values,
)
from kbench.solvers.interior_point.problem import LowRank, StoredKernel

SIZES = np.array([5, 0, 17, 1, 40])


def both(monkeypatch, block=7, sparse=False):
    """V in memory and the same rows, of both signs, read in blocks that cross no limit."""
    monkeypatch.setattr(factor_rows, "_BLOCK_ROWS", block)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(SIZES.sum(), 4)).astype(np.float32)
    X[np.abs(X) < 0.3] = 0.0
    signs = np.where(rng.random(len(X)) < 0.5, 1, -1).astype(np.int8)
    starts = np.cumsum(SIZES) - SIZES
    parts = [X[start : start + size] for start, size in zip(starts, SIZES, strict=True)]
    parts = [sp.csr_matrix(part) for part in parts] if sparse else parts
    read = ReadRows(SIZES, lambda number: parts[number], signs, 4)
    mean = X.mean(axis=0, dtype=np.float64)
    assert np.allclose(read.mean(), mean, atol=1e-12)
    return StoredRows(signs[:, None] * (X - mean)), read.centred(mean), rng


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_blocks_have_the_sums_of_the_array(monkeypatch, block, sparse):
    stored, read, rng = both(monkeypatch, block, sparse)
    n, Z = stored.shape[0], rng.normal(size=(4, 3))
    v, w, T = rng.normal(size=n), rng.normal(size=3), rng.random(n)
    points = np.flatnonzero(rng.random(n) < 0.4)
    for one, other in (
        (stored.times(Z), read.times(Z)),
        (stored.take(points).times(Z), read.take(points).times(Z)),
        (stored.columns(np.zeros(4), np.array([1, 0, 1, 1], bool)),) * 2,
    ):
        m = one.shape[0]
        assert other.shape == one.shape
        assert np.allclose(sums(one, v[:m]), sums(other, v[:m]), atol=1e-12)
        assert np.allclose(values(one, w), values(other, w), atol=1e-12)
        assert np.allclose(gram(one, T[:m]), gram(other, T[:m]), atol=1e-12)
        some = np.array([m - 1, 0, m // 2])
        assert np.allclose(one.rows_at(some), other.rows_at(some), atol=1e-12)
        for a, b in zip(squares(one), squares(other), strict=True):
            assert np.allclose(a, b, atol=1e-12)
    kept = np.array([True, False, True, True])
    assert np.allclose(
        values(stored.columns(np.zeros(4), kept), w), values(read.columns(np.zeros(4), kept), w)
    )


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS == 1, reason="numba may use one thread here")
@pytest.mark.parametrize("form", ["stored", "read", "gram"])
def test_two_threads_share_a_pass_and_find_the_same_bits(monkeypatch, form):
    monkeypatch.setattr(factor_rows, "_ROWS_PER_SHARD", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 5))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0.0, 1, -1).astype(np.int8)
    of_shards, before = factor_rows._map_shards, numba.get_num_threads()
    passes, allowed, found = [], [], []

    def watched(rows, function):
        passes.append(rows.n_shards)
        allowed.append(numba.get_num_threads())
        return of_shards(rows, function)

    monkeypatch.setattr(factor_rows, "_map_shards", watched)
    for n_threads in (1, 2):
        numba.set_num_threads(n_threads)
        if form == "read":
            pieces = np.split(X, 7)
            rows = ReadRows(np.full(7, 100), lambda number: pieces[number], y, 5)  # noqa: B023
            result = solve_signed(LowRank(rows), y, np.full(700, 3.0), coupled=True, tol=1e-8)
        else:
            K = LowRank(X) if form == "stored" else StoredKernel(X @ X.T)
            z = y.astype(np.float64)
            lower, upper = np.minimum(0.0, 3.0 * z), np.maximum(0.0, 3.0 * z)
            result = solve_interior(K, z, lower, upper, coupled=True, tol=1e-8)
        assert result.stop_reason == "tol"
        found.append((result.coef, result.intercept, result.objective))
    numba.set_num_threads(before)
    if form != "gram":
        assert set(passes) == {7}
        assert allowed == sorted(allowed)
        assert set(allowed) == {1, 2}
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_variables_with_signs_have_the_same_optimum(monkeypatch, coupled, C):
    stored, read, _ = both(monkeypatch)
    y = read.signs.astype(float)
    V = stored.V * y[:, None]
    signed = solve_signed(LowRank(read), read.signs, np.full(len(y), C), coupled=coupled, tol=1e-8)
    lower, upper = np.minimum(0.0, C * y), np.maximum(0.0, C * y)
    plain = solve_interior(LowRank(V), y, lower, upper, coupled=coupled, tol=1e-8)
    assert signed.stop_reason == plain.stop_reason == "tol"
    assert signed.objective == pytest.approx(plain.objective, rel=1e-9)
    assert signed.intercept == pytest.approx(plain.intercept, abs=1e-7)
    assert np.allclose(V.T @ signed.coef, V.T @ plain.coef, atol=1e-7)
    assert np.all((lower <= signed.coef) & (signed.coef <= upper))
