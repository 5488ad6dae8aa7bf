"""Checks of the objects in a model file before compiled code may read them.

Compiled code reads arrays without bounds checks, by shapes and offsets that other attributes state.
A file of unknown origin can state anything, so after loading every object whose arrays reach
compiled code is checked here: dtypes, shapes that must agree, index ranges, offsets, and that links
of trees lead to later nodes only. NumPy and SciPy check their inputs themselves, so objects that
only they read need no entry. The width of the rows to predict is checked at each call
(`require_width`).

`scripts/fuzz_models.py` mutates stored models of every method; a class that compiled code reads and
that lacks an entry shows there as a crash.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from kbench.errors import ModelError, one_line
from kbench.intrinsics.landmark_tiles import LANES
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.exponential import DensePoints, Exponential, SparsePoints
from kbench.kernels.functions import Linear, Polynomial, Precomputed, Sigmoid
from kbench.kernels.lattice import BytePoints, Lattice
from kbench.kernels.layout import Layout
from kbench.kernels.matern import Matern12
from kbench.kernels.tiles import STEP
from kbench.prediction.committee import CommitteeMember
from kbench.prediction.expansion import KernelExpansion
from kbench.prediction.hyperplane_tree import HyperplaneTrees
from kbench.prediction.landmarks import PSEUDO_KINDS, LocalLandmarks
from kbench.prediction.pairs import MatrixCentres

_DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "i8": np.int64, "u4": np.uint32}
# Rows of a model have fewer features: an index of a feature is stored in 32 bits.
_MOST_FEATURES = 1 << 31


def check_object(made: Any) -> None:
    """Raise a ModelError unless compiled code may read the decoded object `made`."""
    if _is_unfitted_part(made):
        return
    for cls in type(made).__mro__:
        check = _CHECKS.get(_path(cls))
        if check is None:
            continue
        try:
            check(made)
        except AttributeError as error:
            name = type(made).__qualname__
            raise ModelError(
                f"the stored {name} lacks {error.name!r}: another version of kbench wrote it, or "
                "somebody changed it; fit the model again"
            ) from None
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            name = type(made).__qualname__
            raise ModelError(f"the stored {name} is inconsistent: {one_line(error, 200)}") from None


def _is_unfitted_part(made: Any) -> bool:
    """Whether `made` is an estimator with parameters only, such as the part that a model clones.

    It has no arrays, so compiled code has nothing to read.
    """
    if not hasattr(type(made), "get_params"):
        return False
    return not any(name.startswith("_") or name.endswith("_") for name in vars(made))


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _arrays(owner: Any, *, in_c_order: bool = False, **expected: str) -> dict[str, int]:
    """Check dtypes and shapes of attributes, and return the lengths of named dimensions.

    in_c_order : whether the arrays are read by their addresses, so that their order matters.
    expected : attribute -> "dtype dimension ...", the dimensions numbers or names; a name stands
        for the same length everywhere. "f4|f8" allows both; a leading "?" allows None.
    """
    lengths: dict[str, int] = {}
    for name, form in expected.items():
        array, (kinds, *dimensions) = getattr(owner, name), form.lstrip("?").split()
        if array is None and form.startswith("?"):
            continue
        allowed = [np.dtype(_DTYPES[kind]) for kind in kinds.split("|")]
        fits = isinstance(array, np.ndarray) and array.dtype in allowed
        fits = fits and array.ndim == len(dimensions)
        fits = fits and (array.flags.c_contiguous or not in_c_order)
        if fits:
            for length, dimension in zip(array.shape, dimensions, strict=True):
                wanted = int(dimension) if dimension.isdigit() else dimension
                fits = fits and length == (
                    wanted if isinstance(wanted, int) else lengths.setdefault(wanted, length)
                )
        _require(fits, f"{name} should be an array of {form}, with {lengths}")
    return lengths


def _whole(owner: Any, name: str, low: int, high: int) -> int:
    value = getattr(owner, name)
    _require(
        isinstance(value, int | np.integer) and low <= value <= high,
        f"{name} is {str(value)[:40]}, should be a whole number from {low} to {high}",
    )
    return int(value)


def _number(owner: Any, name: str) -> float:
    value = getattr(owner, name)
    _require(
        isinstance(value, float | int | np.floating | np.integer) and np.isfinite(value),
        f"{name} is {str(value)[:40]}, should be a finite number",
    )
    return float(value)


def _indices(array: np.ndarray, length: int, name: str) -> None:
    inside = array.size == 0 or (array.min() >= 0 and array.max() < length)
    _require(inside, f"{name} should be indices from 0 to {length - 1}")


# Kernels and prepared points


def _layout(layout: Layout) -> None:
    _arrays(
        layout,
        features="i8 p",
        origin="f8 p",
        bits="i8 q",
        low="f8 q",
        high="f8 q",
        constants="i8 r",
        values="f8 r",
    )
    _number(layout, "spread")
    _number(layout, "gap")
    for name in ("features", "bits", "constants"):
        _indices(getattr(layout, name), _MOST_FEATURES, name)
    _require(isinstance(layout.lattice, Lattice | None), "lattice is of another class")
    if layout.lattice is not None:
        own = np.concatenate([layout.features, layout.bits])
        _require(np.array_equal(layout.lattice.columns, own), "lattice has other columns")


def _lattice(lattice: Lattice) -> None:
    _arrays(lattice, columns="i8 p", offset="f8 p")
    _indices(lattice.columns, _MOST_FEATURES, "columns")
    _require(_number(lattice, "step") > 0.0, "step should be positive")
    _number(lattice, "largest")


def _dense_points(points: DensePoints) -> None:
    _arrays(points, features="f4|f8 p n", words="?u4 w n", factor="?f8 n")


def _byte_points(points: BytePoints) -> None:
    _arrays(points, words="u4 w n", totals="i4 n", squares="i4 n", factor="?f8 n")


def _sparse_points(points: SparsePoints) -> None:
    rows = points.rows
    _require(sp.issparse(rows) and rows.format == "csr", "rows should be CSR")
    _require(rows.dtype in (np.float32, np.float64), "rows should be floats")
    n = _arrays(points, halves="f8 n")["n"]
    _require(rows.shape[0] == n, f"there are {n} halves for {rows.shape[0]} rows")


def _exponential(kernel: Exponential) -> None:
    _require(_number(kernel, "gamma") > 0.0, "gamma should be positive")
    _require(isinstance(kernel.layout, Layout | None), "layout is of another class")


def _polynomial(kernel: Polynomial) -> None:
    _require(_number(kernel, "gamma") > 0.0, "gamma should be positive")
    _whole(kernel, "degree", 1, 1 << 20)
    _number(kernel, "coef0")


def _points(kernel: Any, points: Any, dtype: Any, n_features: int) -> int:
    """Check prepared points against their kernel, return how many there are."""
    _require(isinstance(kernel, Kernel), "kernel is of another class")
    _require(dtype in (np.float32, np.float64), "dtype should be float32 or float64")
    if isinstance(kernel, Exponential) and kernel.layout is not None:
        layout = kernel.layout
        p, q = len(layout.features), len(layout.bits)
        columns = (layout.features, layout.bits, layout.constants)
        for array in columns:
            _indices(array, n_features, "columns of the layout")
        if isinstance(points, BytePoints):
            _require(layout.lattice is not None, "the points are bytes, and the layout has none")
            _require(len(points.words) == -(-(p + q) // 4), "the points have another width")
        else:
            _require(isinstance(points, DensePoints), "the points are of another class")
            _require(points.features.dtype == dtype, f"the points should be {dtype}")
            width = p + q if points.words is None else p
            _require(len(points.features) == -(-width // STEP) * STEP, "wrong width of features")
            if points.words is not None:
                _require(len(points.words) == layout.n_words, "the points have another width")
        return int(points.shape[0])
    if isinstance(kernel, Precomputed):
        _require(points.values is None, "the points of a given kernel matrix are numbers")
        return _arrays(points, ids="i8 n")["n"]
    if isinstance(kernel, Matern12):
        # Evaluated by NumPy alone, which checks its own bounds.
        return _arrays(points, rows=f"f8 n {n_features + 2}")["n"]
    _require(
        isinstance(kernel, Exponential | Linear | Polynomial | Sigmoid), "another kind of kernel"
    )
    rows = points.rows if isinstance(points, SparsePoints) else points
    _require(isinstance(rows, np.ndarray) or sp.issparse(rows), "the points are no rows")
    _require(rows.ndim == 2 and rows.dtype in (np.float32, np.float64), "the points are no rows")
    _require(rows.shape[1] == n_features, f"the points have {rows.shape[1]} features")
    _require(isinstance(rows, np.ndarray) or rows.format == "csr", "the points should be CSR")
    return int(rows.shape[0])


def _kernel_matrix(matrix: KernelMatrix) -> None:
    rows = matrix._X
    _require(isinstance(rows, np.ndarray) or sp.issparse(rows), "the matrix has no rows")
    _require(rows.ndim == 2 and rows.dtype in (np.float32, np.float64), "the rows are no floats")
    _arrays(matrix, _counter="i8 1")
    _whole(matrix, "_allowance", 0, 1 << 62)
    if matrix._prepared is None:
        # The layout alone has to fit.
        empty = np.zeros((0, rows.shape[1]), matrix.dtype)
        if isinstance(matrix.kernel, Exponential) and matrix.kernel.layout is None:
            empty = sp.csr_array(empty)
        _points(matrix.kernel, matrix.kernel.prepare(empty, matrix.dtype), matrix.dtype,
                rows.shape[1])  # fmt: skip
    else:
        n = _points(matrix.kernel, matrix._prepared, matrix.dtype, rows.shape[1])
        _require(n == rows.shape[0], f"{n} points are prepared of {rows.shape[0]} rows")


# Machines


def _width(machine: Any, kernel: Any) -> int:
    """The stated number of features, which precomputed kernel values lack."""
    if isinstance(kernel, Precomputed):
        _require(machine.n_features is None, "n_features should be None")
        return 1
    return _whole(machine, "n_features", 1, _MOST_FEATURES)


def _expansion(machine: KernelExpansion) -> None:
    lengths = _arrays(machine, coef="f8 s m")
    n_features = _width(machine, machine.kernel)
    n = _points(machine.kernel, machine.centres, machine.dtype, n_features)
    _require(n == lengths["s"], f"there are {n} centres for {lengths['s']} coefficients")


def _matrix_centres(centres: MatrixCentres) -> None:
    n_features = _width(centres, centres.kernel)
    _points(centres.kernel, centres.centres, centres.dtype, n_features)


def _member(member: CommitteeMember) -> None:
    lengths = _arrays(member, coef="f8 s m", chosen="i8 c", factor="f8 c c")
    n_features = _width(member, member.kernel)
    n = _points(member.kernel, member.centres, np.dtype(np.float64), n_features)
    _require(n == lengths["s"], f"there are {n} centres for {lengths['s']} coefficients")
    _indices(member.chosen, n, "chosen")


def _hyperplanes(machine: HyperplaneTrees) -> None:
    d = _whole(machine, "n_features", 1, _MOST_FEATURES)
    depth = _whole(machine, "depth", 0, 30)
    width, nodes = -(-d // LANES) * LANES, 2 ** (depth + 1) - 1
    _arrays(
        machine,
        in_c_order=True,
        nodes=f"f4 m {nodes} 3 {width}",
        biases=f"f4 m {nodes} 3",
        offset=f"?f8 {d}",
    )
    _number(machine, "sigma")


def _local_landmarks(machine: LocalLandmarks) -> None:
    d = _whole(machine, "n_features", 1, _MOST_FEATURES)
    pseudo = _whole(machine, "pseudo", 0, len(PSEUDO_KINDS) - 1)
    lengths = _arrays(
        machine,
        in_c_order=True,
        constant="f4 K m",
        leaves="i8 K 7",
        features="i4 F f",
        table="f4 T",
        spans="f4 S",
        coef="f4 C",
        offset=f"?f8 {d}",
    )
    n_leaves, n_outputs, width = lengths["K"], lengths["m"], lengths["f"]
    _require(min(n_leaves, n_outputs, width) > 0, "the machine is empty")
    _require(lengths["F"] in (1, n_leaves), "features should be those of all leaves or of each")
    _indices(machine.features, d, "features")
    everything = np.array_equal(machine.features, np.arange(d)[None])
    _require(machine.all_features is everything, f"all_features should be {everything}")
    blocks, landmarks, bounds, products = machine.leaves[:, :4].T
    _require(np.all((landmarks >= 0) & (landmarks <= lengths["T"])), "landmarks out of range")
    _require(np.all(blocks == -(-landmarks // LANES)), "blocks do not fit the landmarks")
    _require(np.all((products == 0) | (products == landmarks)), "products out of range")
    _require(np.all((bounds >= 0) & (bounds <= lengths["C"])), "bounds out of range")
    _require(pseudo >= 2 or not bounds.any(), "bounds without their kind of columns")
    _require(not (bounds.any() and products.any()), "bounds and products exclude one another")
    columns = blocks + bounds * (2 if PSEUDO_KINDS[pseudo] == "triangle" else 1)
    sizes = np.stack(
        [
            blocks * (1 + width),
            bounds * landmarks,
            # In floating point as well, against overflow.
            n_outputs * columns * (1 + products),
        ],
        axis=1,
    )
    _require(np.all(sizes.astype(float) < 1 << 40), "sizes out of range")
    ends = LANES * np.cumsum(sizes, axis=0)
    stored = (lengths["T"], lengths["S"], lengths["C"])
    _require(np.array_equal(ends[-1], stored), "the tables have another size than the leaves state")
    _require(np.array_equal(machine.leaves[:, 4:], ends - LANES * sizes), "offsets out of order")
    largest = LANES * max(1, int(columns.max()))
    _whole(machine, "largest", largest, largest)
    router = machine.router
    _require(_path(type(router)) in (_AXIS_TREE, _KMEANS_TREE), "router is of another class")
    _require(router.n_leaves == n_leaves, f"the router has {router.n_leaves} leaves")
    _require(router.fits(d), f"the router is for rows of another width than {d}")


# Classes of the packages above this one, which it may not import: routers and feature maps

_AXIS_TREE = "kbench.clustering.axis_tree:AxisTree"
_KMEANS_TREE = "kbench.clustering.kmeans_tree:KMeansTree"
_PACKED_RECORDS = "kbench.prediction.packed_machines:PackedRecords"


def _axis_tree(tree: Any) -> None:
    n = _arrays(tree, in_c_order=True, nodes="u4 3 n", leaf="i8 n")["n"]
    _require(n > 0, "the tree has no node")
    inner = tree.leaf < 0
    places = np.where(inner, 2 * np.cumsum(inner) - 1, np.arange(n))
    _require(np.array_equal(tree.nodes[2], places), "nodes out of order")
    _require(n == 2 * int(inner.sum()) + 1, "the tree has another number of nodes")
    _require(np.all(places[inner] > np.flatnonzero(inner)), "nodes out of order")
    _require(np.array_equal(tree.leaf, np.where(inner, -1, np.cumsum(~inner) - 1)), "wrong leaves")
    _require(np.all(tree.nodes[1].view(np.float32)[~inner] == np.inf), "wrong thresholds of leaves")
    _whole(tree, "n_leaves", n - int(inner.sum()), n - int(inner.sum()))
    depth = max(1, int(tree.comparisons().max()))
    _whole(tree, "depth", depth, depth)


def _kmeans_tree(tree: Any) -> None:
    d = _whole(tree, "n_features", 1, _MOST_FEATURES)
    width = -(-d // LANES) * LANES
    lengths = _arrays(
        tree,
        in_c_order=True,
        first="i8 n",
        n_children="i8 n",
        halves="f4 n",
        leaf="i8 n",
        planes=f"f4 n {width}",
    )
    n, inner = lengths["n"], tree.n_children != 0
    _indices(tree.n_children, n + 1, "n_children")
    own = np.flatnonzero(inner)
    _indices(tree.first, n + 1, "first")
    _require(np.all(tree.first[own] > own), "children should come after their node")
    _require(np.all(tree.first[own] + tree.n_children[own] <= n), "children out of range")
    _require(np.array_equal(tree.leaf, np.where(inner, -1, np.cumsum(~inner) - 1)), "wrong leaves")
    _whole(tree, "n_leaves", n - len(own), n - len(own))


def _packed_records(records: Any) -> None:
    data = records.data
    _require(isinstance(data, np.ndarray) and data.dtype == np.uint8, "data should be bytes")
    _require(data.ndim == 1, "data should have one dimension")
    _arrays(records, offsets="i8 k")


def _packed_machines(machines: Any) -> None:
    _require(_path(type(machines.records)) == _PACKED_RECORDS, "records are of another class")
    k = _arrays(machines, n_centres="i8 k")["k"]
    _require(k == len(machines.records), f"there are {len(machines.records)} records")


def _kernel_centres(centres: Any) -> None:
    n_features = _width(centres, centres._kernel)
    starts = centres._starts
    if starts is None:
        lengths = _arrays(centres, _weights="f4|f8 k m", _square="f8 k")
    else:
        lengths = _arrays(centres, _weights="f4|f8 m", _square="f8 k", _starts="i8 s")
        _require(len(starts) == lengths["k"] + 1, "wrong number of starts")
        rising = starts[0] == 0 and np.all(np.diff(starts) >= 0) and starts[-1] == lengths["m"]
        _require(rising, "starts out of order")
    n = _points(centres._kernel, centres._points, centres._weights.dtype, n_features)
    _require(n == lengths["m"], f"there are {n} points for {lengths['m']} weights")


def _fourier_features(features: Any) -> None:
    d = _whole(features, "n_features_in_", 1, _MOST_FEATURES)
    n = _whole(features, "n_frequencies_", 1, _MOST_FEATURES)
    phases = _arrays(features, phases_="f8 n")["n"]
    _require(phases in (0, n), f"there are {phases} phases for {n} frequencies")
    outputs = n if phases else 2 * n
    _whole(features, "n_features_out_", outputs, outputs)
    _arrays(features, _centre=f"?f8 {d}")
    _require(_number(features, "_unit") > 0.0, "_unit should be positive")
    if hasattr(features, "frequencies_"):
        _arrays(features, frequencies_=f"f8 {d} {n}")


def _fastfood(features: Any) -> None:
    lengths = _arrays(
        features, signs_="f8 b l", gaussians_="f8 b l", scales_="f8 b l", permutations_="i4 b l"
    )
    n_blocks, length = lengths["b"], lengths["l"]
    _require(length > 0 and length & (length - 1) == 0, "the length should be a power of two")
    _require(features.n_features_in_ <= length, "rows are longer than a block")
    _require(n_blocks == -(-features.n_frequencies_ // length), "wrong number of blocks")
    _indices(features.permutations_, length, "permutations_")


def _landmark_features(features: Any) -> None:
    d = _whole(features, "n_features_in_", 1, _MOST_FEATURES)
    matrix = features.landmarks_
    _require(isinstance(matrix, KernelMatrix), "landmarks_ is of another class")
    _require(matrix._X.shape[1] == d, f"the landmarks have {matrix._X.shape[1]} features")
    _whole(features, "n_features_out_", 1, _MOST_FEATURES)
    n = len(matrix)
    if hasattr(features, "projection_"):
        _arrays(features, projection_=f"f8 {n} {features.n_features_out_}")
        return
    _whole(features, "n_features_out_", n, n)
    if hasattr(features, "factor_"):
        _arrays(features, factor_=f"f8 {n} {n}")


def _feature_machine(machine: Any) -> None:
    weights, features = machine.weights, machine.feature_map
    _require(isinstance(weights, np.ndarray) and weights.ndim == 2, "weights should be a matrix")
    _require(weights.dtype in (np.float32, np.float64), "weights should be floats")
    n = features.n_features_out_
    _require(len(weights) == n, f"there are {len(weights)} weights for {n} features")


def _estimator(model: Any) -> None:
    # Predictions compare the width of their rows with it.
    if hasattr(model, "n_features_in_") or hasattr(type(model), "predict"):
        _whole(model, "n_features_in_", 1, _MOST_FEATURES)
    if hasattr(model, "_parameter_constraints"):
        model._validate_params()


_CHECKS: dict[str, Callable[[Any], None]] = {
    **{
        _path(cls): check
        for cls, check in (
            (Layout, _layout),
            (Lattice, _lattice),
            (DensePoints, _dense_points),
            (BytePoints, _byte_points),
            (SparsePoints, _sparse_points),
            (Exponential, _exponential),
            (Polynomial, _polynomial),
            (KernelMatrix, _kernel_matrix),
            (KernelExpansion, _expansion),
            (MatrixCentres, _matrix_centres),
            (CommitteeMember, _member),
            (HyperplaneTrees, _hyperplanes),
            (LocalLandmarks, _local_landmarks),
            (BaseEstimator, _estimator),
        )
    },
    _AXIS_TREE: _axis_tree,
    _KMEANS_TREE: _kmeans_tree,
    _PACKED_RECORDS: _packed_records,
    "kbench.prediction.packed_machines:PackedMachines": _packed_machines,
    "kbench.clustering.kernel_kmeans:KernelCentres": _kernel_centres,
    "kbench.approximation.features.fourier:FourierFeatures": _fourier_features,
    "kbench.approximation.features.fastfood:Fastfood": _fastfood,
    "kbench.approximation.landmarks.landmarks:LandmarkFeatures": _landmark_features,
    "kbench.approximation.features.feature_map:FeatureMachine": _feature_machine,
}
