"""A Gaussian machine on all features, for many rows at once by a matrix product."""

import numpy as np
from numba import njit, types

from kbench.kernels.tiles import LOG2_E, power_of_two
from kbench.prediction.packing import LandmarkMachine

# Features from which on a matrix product is cheaper than vector code for each row, and the error of
# an exponent up to which it may be used.
_WIDE = 64
_PRODUCT_ERROR = 1e-5

_READ_ROWS = types.Array(types.float32, 2, "C", readonly=True)
_READ_FLOATS = types.Array(types.float32, 1, "C", readonly=True)
_MATRIX = types.float32[:, ::1]


@njit(
    types.void(
        _READ_ROWS,
        _MATRIX,
        _READ_FLOATS,
        _READ_FLOATS,
        _READ_ROWS,
        _READ_FLOATS,
        types.float64[:, ::1],
    ),
    fastmath={"contract", "nsz", "nnan", "ninf"},
    nogil=True,
    cache=True,
)
def _finish_products(X, inner, widths, bias, coef, constant, values):
    """values : (u, m) of rows X : (u, d) from inner : (u, l), 2 widths <x, u>.

    bias : (l,) is -widths ||u||^2; coef : (m, l). Overwrites `inner`; l is a multiple of four.
    """
    zero = np.float32(0.0)
    for i in range(X.shape[0]):
        x, t = X[i], inner[i]
        square = zero
        s0, s1, s2, s3 = zero, zero, zero, zero
        for k in range(0, x.shape[0] - 3, 4):
            s0 += x[k] * x[k]
            s1 += x[k + 1] * x[k + 1]
            s2 += x[k + 2] * x[k + 2]
            s3 += x[k + 3] * x[k + 3]
        for k in range(x.shape[0] // 4 * 4, x.shape[0]):
            square += x[k] * x[k]
        square += (s0 + s1) + (s2 + s3)
        for j in range(t.shape[0]):
            t[j] = power_of_two(min(t[j] + (bias[j] - widths[j] * square), zero))
        for o in range(coef.shape[0]):
            b = coef[o]
            s0, s1, s2, s3 = zero, zero, zero, zero
            for j in range(0, t.shape[0], 4):
                s0 += b[j] * t[j]
                s1 += b[j + 1] * t[j + 1]
                s2 += b[j + 2] * t[j + 2]
                s3 += b[j + 3] * t[j + 3]
            values[i, o] = constant[o] + ((s0 + s1) + (s2 + s3))


class Products:
    """A machine without a router, by matrix products: cheaper than row by row for many features.

    ||x - u||^2 = ||x||^2 + ||u||^2 - 2 <x, u> loses eps ||u||^2, so only where that does not show.
    """

    def __init__(self, machine: LandmarkMachine) -> None:
        assert machine.landmarks is not None
        assert machine.gammas is not None
        assert machine.coef is not None
        m = len(machine.landmarks)
        padded = -(-m // 4) * 4
        widths = np.zeros(padded)
        widths[:m] = machine.gammas * LOG2_E
        landmarks = np.zeros((padded, machine.landmarks.shape[1]))
        landmarks[:m] = machine.landmarks
        coef = np.zeros((machine.coef.shape[1], padded))
        coef[:, :m] = machine.coef.T
        self.matrix = np.ascontiguousarray((2.0 * widths[:, None] * landmarks).T, np.float32)
        self.bias = (-widths * (landmarks**2).sum(axis=1)).astype(np.float32)
        self.widths, self.coef = widths.astype(np.float32), coef.astype(np.float32)

    @staticmethod
    def serves(machines: list[LandmarkMachine], n_features: int, pseudo: str) -> bool:
        machine = machines[0]
        if len(machines) > 1 or pseudo != "none" or n_features < _WIDE:
            return False
        if machine.landmarks is None or machine.landmarks.shape[1] != n_features:
            return False
        exponents = machine.gammas * (machine.landmarks**2).sum(axis=1)
        return bool(4.0 * np.finfo(np.float32).eps * exponents.max() < _PRODUCT_ERROR)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.matrix, self.bias, self.widths, self.coef))

    def __call__(self, X: np.ndarray, constant: np.ndarray, values: np.ndarray) -> None:
        _finish_products(X, X @ self.matrix, self.widths, self.bias, self.coef, constant, values)
