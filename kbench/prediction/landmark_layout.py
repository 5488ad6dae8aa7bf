"""A local model on Gaussian landmarks, and its numbers in the order that vector code reads them.

Landmarks are packed in blocks of sixteen (`LANES`); the last block is filled with zeros.
"""

from dataclasses import dataclass, field

import numpy as np

from kbench.intrinsics.landmark_tiles import LANES
from kbench.kernels.tiles import LOG2_E


@dataclass(frozen=True)
class LandmarkMachine:
    """The functions of one leaf."""

    constant: np.ndarray  # (m,)
    landmarks: np.ndarray | None = None  # (l, f) array: None if the functions are constant
    gammas: np.ndarray | None = None  # (l,): widths g_j in exp(-g_j ||x - u_j||^2)
    # (l + c, m): coefficients of the columns, in the order of `PseudoLandmarks`.
    coef: np.ndarray | None = None
    features: np.ndarray | None = None  # (f,) ints: features that the landmarks have; None for all
    # (p, 2) ints: the landmarks i <= j of each monomial c_i c_j, as in `PseudoLandmarks`.
    pairs: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.intp))
    # (l, p): distances from landmarks to pseudo landmarks, as in `PseudoLandmarks`.
    spans: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def parameter_sum(self) -> float:
        """The sum of constants, widths and coefficients; finite if and only if all these are."""
        arrays = (self.constant, self.gammas, self.coef)
        return float(sum(array.sum() for array in arrays if array is not None))


def concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    """The arrays one after the other; an empty float32 array if there are none."""
    return np.concatenate(arrays) if arrays else np.empty(0, np.float32)


def read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view, so that numba sees one type for arrays and for read-only memory maps."""
    view = array.view()
    view.flags.writeable = False
    return view


def aligned(numbers: np.ndarray) -> np.ndarray:
    """The same numbers : (n,) at an address that is a multiple of the bytes of a vector.

    Vectors of sixteen float32 then cross no cache line. An array at such an address is not copied.
    """
    width = numbers.itemsize * LANES
    if numbers.ctypes.data % width == 0:
        return numbers
    buffer = np.empty(numbers.size + LANES, numbers.dtype)
    n_skipped = -buffer.ctypes.data % width // numbers.itemsize
    copy = buffer[n_skipped : n_skipped + numbers.size]
    copy[:] = numbers
    return copy


def feature_table(machines: list[LandmarkMachine], n_features: int) -> np.ndarray:
    """Features of each model, (K, f) int32; (1, d) if all models read all features."""
    feature_sets = [machine.features for machine in machines if machine.features is not None]
    all_features = np.arange(n_features, dtype=np.int32)
    if all(np.array_equal(features, all_features) for features in feature_sets):
        return all_features[None]
    table = np.zeros((len(machines), len(feature_sets[0])), np.int32)
    for leaf, machine in enumerate(machines):
        if machine.features is not None:
            table[leaf] = machine.features
    return table


def pack_landmarks(machine: LandmarkMachine, n_features: int) -> np.ndarray:
    """-g_j log2(e), the factor of exponents to the base 2, then the entries of u_j by feature.

    (blocks, 1 + f, LANES), float64.
    """
    assert machine.landmarks is not None
    assert machine.gammas is not None
    n_landmarks = len(machine.landmarks)
    packed = np.zeros((-(-n_landmarks // LANES) * LANES, 1 + n_features))
    packed[:n_landmarks, 0] = -machine.gammas * LOG2_E
    packed[:n_landmarks, 1:] = machine.landmarks
    return packed.reshape(-1, LANES, 1 + n_features).transpose(0, 2, 1)


def to_lanes(matrix: np.ndarray, n_blocks: int) -> np.ndarray:
    """A matrix (rows, columns) as (blocks, rows, LANES), filled with zeros."""
    padded = np.zeros((len(matrix), n_blocks * LANES))
    padded[:, : matrix.shape[1]] = matrix
    return padded.reshape(len(matrix), n_blocks, LANES).transpose(1, 0, 2)


def pack_coef(
    machine: LandmarkMachine, n_blocks: int, n_bound_blocks: int, n_sides: int, n_rows: int
) -> np.ndarray:
    """Linear coefficients, then coefficients of products by landmark; (m, blocks, 1 + rows, LANES).

    n_bound_blocks : number of blocks of pseudo landmarks
    n_sides : 2 for lower and upper bounds, else 1
    """
    assert machine.coef is not None
    assert machine.landmarks is not None
    n_landmarks, n_outputs = len(machine.landmarks), machine.coef.shape[1]
    total = n_blocks + n_sides * n_bound_blocks
    packed = np.zeros((n_outputs, 1 + n_rows, total * LANES))
    packed[:, 0, :n_landmarks] = machine.coef[:n_landmarks].T
    extra = machine.coef[n_landmarks:].T
    if n_rows:
        packed[:, 1 + machine.pairs[:, 0], machine.pairs[:, 1]] = extra
    elif n_bound_blocks:
        # The lower bounds of a block come directly before its upper bounds.
        p = machine.spans.shape[1]
        for side in range(n_sides):
            bounds = np.zeros((n_outputs, n_bound_blocks * LANES))
            bounds[:, :p] = extra[:, side * p : (side + 1) * p]
            slots = packed[:, 0, n_blocks * LANES :].reshape(
                n_outputs, n_bound_blocks, n_sides, LANES
            )
            slots[:, :, side] = bounds.reshape(n_outputs, n_bound_blocks, LANES)
    return packed.reshape(n_outputs, 1 + n_rows, total, LANES).transpose(0, 2, 1, 3)
