"""Nanoseconds per kernel value by number and kind of features, beside GEMM + exp and scikit-learn.

    python scripts/bench_kernels.py

One thread, CPU seconds, median of five. `block` stores K[rows][:, columns], `product` multiplies it
by coefficients on the fly; both float32. The peers store the block: numpy adds the squared norms
within GEMM and takes exp in place, tile by tile; `rbf_kernel` is scikit-learn's. `gain` is numpy's
time, multiplication by the coefficients included, over that of `product`; `error` is the largest
error of an entry of the block.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from kbench.kernels import KernelMatrix, make_kernel

N, ROWS = 16384, 512  # columns and rows of the block


def seconds(function: Callable[[], Any]) -> float:
    """CPU seconds, median of five calls after an untimed one."""
    function()
    times = []
    for _ in range(5):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return median(times)


def gemm_and_exp(X: np.ndarray, gamma: float, coef: np.ndarray) -> Callable[[], np.ndarray]:
    """K[:ROWS] with coef' K[:ROWS], in tiles that fit the cache."""
    Z = X - X.mean(axis=0)
    half = -gamma * np.einsum("ij,ij->i", Z, Z)
    ones = np.ones_like(half)
    left = np.column_stack([2 * gamma * Z, half, ones])[:ROWS].astype(np.float32)
    right = np.column_stack([Z, ones, half]).astype(np.float32)
    out = np.empty((ROWS, N), np.float32)

    def compute() -> np.ndarray:
        values = np.zeros(N)
        for i in range(0, ROWS, 128):
            for j in range(0, N, 2048):
                tile = out[i : i + 128, j : j + 2048]
                np.matmul(left[i : i + 128], right[j : j + 2048].T, out=tile)
                np.minimum(tile, 0.0, out=tile)
                np.exp(tile, out=tile)
                values[j : j + 2048] += coef[i : i + 128] @ tile
        return values

    return compute


def compare(label: str, X: Any, gamma: float) -> None:
    """Print the line of one set of features."""
    rows = np.arange(ROWS)
    coef = np.ones(ROWS, np.float32)
    K = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X)
    columns = K.points(slice(None))
    out = np.empty((ROWS, N), np.float32)
    block = seconds(lambda: K.block(rows, columns, out=out))
    product = seconds(lambda: K.product(rows, coef))
    dense = X.toarray() if sp.issparse(X) and X.shape[1] < 2000 else X
    numpy = np.nan
    if not sp.issparse(dense):
        numpy = seconds(gemm_and_exp(dense, gamma, coef))
    sklearn = seconds(lambda: rbf_kernel(X[:ROWS], X, gamma=gamma))
    exact = rbf_kernel(X[:ROWS].astype(np.float64), X.astype(np.float64), gamma=gamma)
    scale = 1e9 / out.size
    print(
        f"{label:24} {block * scale:7.2f} {product * scale:8.2f} {numpy * scale:9.2f} "
        f"{sklearn * scale:9.2f} {numpy / product:6.1f} {np.abs(out - exact).max():9.1e} "
        f"{K.entry_error:9.1e}",
        flush=True,
    )


def main() -> None:
    rng = np.random.default_rng(0)
    print(
        "ns an entry                block  product  GEMM+exp   sklearn   gain     error     bound"
    )
    for d in (8, 12, 22, 54, 123, 300, 784):
        compare(f"{d} real", rng.random((N, d), np.float32), 4.0 / d)
    for d in (54, 123, 300):
        compare(f"{d} binary", (rng.random((N, d)) < 0.2).astype(np.float32), 4.0 / d)
    mixed = np.column_stack([rng.random((N, 10)), rng.random((N, 44)) < 0.1]).astype(np.float32)
    compare("10 real, 44 binary", mixed, 1.0)
    wide = sp.random_array((N, 47236), density=73 / 47236, format="csr", dtype=np.float32, rng=rng)
    compare("47,236 sparse, 73 each", wide, 0.05)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    numba.set_num_threads(1)
    with threadpool_limits(1):
        main()
