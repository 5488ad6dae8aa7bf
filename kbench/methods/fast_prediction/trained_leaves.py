"""Common part of the estimators with trained landmarks: parameters, training of a leaf, model."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kbench.chunked import ChunkedRows
from kbench.clustering import weighted_kmeans
from kbench.clustering.axis_tree import AxisTree, variance_tree
from kbench.errors import KbenchError, warn
from kbench.intrinsics.landmark_tiles import LANES
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.kernels.tiles import LOG2_E
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.limits import limit_text, refuse_max_time
from kbench.methods.base.sizes import MAX_MEAN_LEAF_ROWS, number_of_groups
from kbench.methods.base.survey import ChunkedTargets, Survey
from kbench.methods.fast_prediction.compiled import CompiledRows
from kbench.methods.fast_prediction.target_cost import TargetCost, leaf_counts
from kbench.methods.fast_prediction.trained_leaf_chunks import LeavesFit, train_leaves
from kbench.methods.out_of_core.out_of_core import Trainer, sample_size
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import (
    LocalLandmarks,
    Router,
    float32_offset,
    float32_rows,
    require_float32_range,
)
from kbench.solvers.stochastic.landmark_training import train_landmarks
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, choice, integer, usual

# Every number below is set by hand. Ridge regression with the first penalty on b' K_UU b, and the
# second on the square of each coefficient, gives the initial b. It is solved four times, and rows
# beyond the margin get the weight 1e-3 in the next solution. This approximates the squared hinge
# loss, which the training refines.
_RIDGE, _DIAGONAL_RIDGE = 0.1, 1e-4
_REWEIGHTINGS = 4
_WEIGHT_BEYOND_MARGIN = 1e-3
# Leaves with fewer than 400 rows get more epochs, up to 200, so that they take as many steps as a
# leaf of 400 rows.
_FULL_EPOCH_ROWS = 400
_MAX_EPOCHS = 200
# Adam's first step size for landmarks of up to 64 features; for landmarks of more features, whose
# moves add up over the features; and for coefficients.
_LANDMARK_RATE, _WIDE_LANDMARK_RATE, _MAX_NARROW_FEATURES = 0.05, 0.01, 64
_COEF_RATE = 0.03
# Number of features of a leaf, besides all features, that is tried for a `target_cost`.
_LEAF_FEATURES = 16
# For a fit to chunks: rows of the sample on which the tree is grown (more take more memory), and
# the fraction of the memory that the training of a leaf may take, beside the rows that are read.
_SAMPLE_ROWS, _LEAF_MEMORY_FRACTION = 20_000, 1 / 2
# Bytes for each pair of row and landmark: the initial ridge regression holds three matrices of
# float64 kernel values; and bytes of the solver's vectors for each row.
_BYTES_PER_VALUE, _BYTES_PER_ROW = 24, 100
# A leaf is expected to have up to this many standard deviations more rows than its sample implies.
_SIZE_DEVIATIONS = 3.0


@dataclass(eq=False, repr=False)
class TrainedLeaves(CompiledRows, TargetCost, ABC):
    """Base of the estimators: their parameters as fields of a dataclass, and the model."""

    # CSR rows of a leaf, and batches of the tree, are made dense; `kbench.validated` explains the
    # two numbers.
    dense_rows: ClassVar[tuple[float, int]] = (5.5, 8192)

    _parameter_constraints: ClassVar[dict] = {
        **TargetCost._parameter_constraints,
        "n_leaves": [integer(1), None],
        "n_features": [integer(1), None],
        "min_rows": [integer(1)],
        "epochs": [integer(1)],
        "gamma": [choice("scale", "auto"), POSITIVE],
        **usual("n_landmarks", "max_time", "random_state", "n_jobs"),
    }

    # Routers that are tried for a `target_cost`; the first one is used for a single leaf.
    _ROUTERS: ClassVar[tuple[str, ...]]

    n_leaves: int | None = None
    _: KW_ONLY
    n_landmarks: int = 16
    n_features: int | None = 16
    router: str = "variance"
    min_rows: int = 30
    epochs: int = 20
    max_time: float | None = None
    gamma: float | str = "scale"
    target_cost: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    def _candidates_by_kind(self, n: int, d: int) -> Iterable[list[dict[str, Any]]]:
        # A single leaf needs all features; within small leaves most features hardly vary. Numbers
        # of landmarks from 16 to 128 are set by hand.
        for n_leaves in leaf_counts(n):
            for n_features in dict.fromkeys((d if n_leaves == 1 else min(d, _LEAF_FEATURES), d)):
                for router in self._ROUTERS[:1] if n_leaves == 1 else self._ROUTERS:
                    other_sizes = {"n_leaves": n_leaves, "n_features": n_features, "router": router}
                    yield [
                        {**other_sizes, "n_landmarks": m} for m in range(LANES, 9 * LANES, LANES)
                    ]

    def _stand_in_router(self, X: np.ndarray, n_leaves: int) -> Router:
        return variance_tree(X, n_leaves, 1, np.random.RandomState(0))

    def _stand_in_leaf(
        self, X: np.ndarray, sizes: dict[str, Any], n_outputs: int
    ) -> tuple[LandmarkMachine, str]:
        m, features = sizes["n_landmarks"], np.arange(sizes["n_features"])
        landmarks = X[np.arange(m) % len(X)][:, features]
        gammas = np.full(m, 1.0 / X.shape[1])
        coef = np.ones((m, n_outputs))
        return LandmarkMachine(np.zeros(n_outputs), landmarks, gammas, coef, features), "none"

    def _tree(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        weight: np.ndarray,
        n_leaves: int,
        min_rows: int,
        rng: np.random.RandomState,
    ) -> AxisTree:
        """Tree for rows X : (n, d) float32 with targets Y : (n, m) and weights (n,)."""
        if self.router == "variance":
            return variance_tree(X, n_leaves, min_rows, rng)
        return self._tree_of_targets(X, Y, weight, n_leaves, min_rows)

    @abstractmethod
    def _tree_of_targets(
        self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray, n_leaves: int, min_rows: int
    ) -> AxisTree:
        """A tree whose splits separate the targets, as `router` asks for."""

    @abstractmethod
    def _targets_of_sample(self, survey: Survey) -> tuple[np.ndarray, np.ndarray]:
        """Y : (s, m) and weights (s,) of the sample, as `_tree` takes them."""

    @abstractmethod
    def _leaf_trainer(
        self, survey: Survey, rbf: RBF, offset: np.ndarray | None, seeds: np.ndarray
    ) -> Trainer:
        """The trainer of the leaves of rows in chunks, each of which has a seed."""

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return self.target_cost is None and self.max_time is None

    def _fit_chunks(self, rows: ChunkedRows, targets: ChunkedTargets, trace: Trace) -> LeavesFit:
        """Train on rows in chunks; the subclass sets the attributes of its targets."""
        refuse_max_time(self)
        if not self.accepts_chunks:
            raise ValueError(
                f"{type(self).__name__} with these parameters needs all rows in memory, not in "
                "chunks"
            )
        with trace.phase("survey"):
            # Tree and leaves get the same random numbers as in a fit to rows in memory.
            seed = check_random_state(self.random_state).randint(2**31)
            # len(rows) may read all rows, so it is asked only if n_leaves depends on it.
            n_leaves = self.n_leaves or number_of_groups(
                None, len(rows), max_rows=MAX_MEAN_LEAF_ROWS
            )
            size = sample_size(_SAMPLE_ROWS, n_leaves)
            survey = Survey(rows, targets, size, seed)
        rng = check_random_state(self.random_state)
        with trace.phase("cluster"):
            require_float32_range(survey.sample)
            rbf = make_kernel("rbf", survey.sample, gamma=survey.gamma(self.gamma))
            assert isinstance(rbf, RBF)
            offset = float32_offset(survey.sample)
            sample = float32_rows(survey.sample, offset)
            Y, weight = self._targets_of_sample(survey)
            tree, notes = self._sampled_tree(rows, survey, sample, Y, weight, rng)
        seeds = rng.randint(np.iinfo(np.int32).max, size=tree.n_leaves)
        trainer = self._leaf_trainer(survey, rbf, offset, seeds)
        result = train_leaves(self, rows, survey, tree, offset, trainer, seed, trace)
        self.n_features_in_ = rows.n_features
        self.notes_ = notes + result.notes
        self._set_model(tree, result.sizes, result.machines, rows.n_features, offset, trace)
        return result

    def _sampled_tree(
        self,
        rows: ChunkedRows,
        survey: Survey,
        X: np.ndarray,
        Y: np.ndarray,
        weight: np.ndarray,
        rng: np.random.RandomState,
    ) -> tuple[AxisTree, list[str]]:
        """A tree for all rows, grown on the sample X : (s, d) float32, Y : (s, m), weight : (s,).

        The tree gets more leaves than `n_leaves`, with a note, if a leaf would not fit into memory.
        Raises a KbenchError if no tree has leaves that fit.
        """
        n, s = survey.n, len(X)
        # Training holds about three float32 copies of a leaf's rows; this factor is set by hand.
        row_bytes = (
            3 * rows.n_features * 4 + _BYTES_PER_VALUE * (self.n_landmarks + 1) + _BYTES_PER_ROW
        )
        max_leaf_rows = max(1, int(_LEAF_MEMORY_FRACTION * rows.memory_mb * 2**20 / row_bytes))
        n_initial = n_leaves = number_of_groups(self.n_leaves, n, max_rows=MAX_MEAN_LEAF_ROWS)
        min_rows = max(1, self.min_rows * s // n)
        while True:
            tree = self._tree(X, Y, weight, n_leaves, min_rows, rng)
            largest = np.bincount(tree.assign(X)).max()
            expected_rows = (
                n * (largest + (_SIZE_DEVIATIONS * np.sqrt(largest) if s < n else 0.0)) / s
            )
            if expected_rows <= max_leaf_rows:
                break
            if tree.n_leaves < n_leaves:
                raise KbenchError(
                    f"about {expected_rows:.0f} rows of a leaf do not fit into "
                    f"memory_mb={rows.memory_mb:g}, at most {max_leaf_rows} are trained together, "
                    f"and the tree divides no further with min_rows={self.min_rows}"
                )
            n_leaves *= 2
        if n_leaves == n_initial:
            return tree, []
        note = (
            f"n_leaves is {n_leaves}, not {n_initial}, because larger leaves do not fit into "
            f"memory_mb={rows.memory_mb:g}"
        )
        warn(note)
        return tree, [note]

    def _n_leaf_features(self, d: int) -> int:
        return d if self.n_features is None else min(self.n_features, d)

    def _set_model(
        self,
        tree: AxisTree,
        sizes: np.ndarray,
        machines: list[LandmarkMachine],
        n_features: int,
        offset: np.ndarray | None,
        trace: Trace,
    ) -> None:
        """Set the model and the attributes that describe it; `sizes` : rows of each leaf."""
        require_finite(self, coef_=[machine.parameter_sum for machine in machines])
        with trace.phase("prepare"):
            # Every leaf has rows, because the tree was grown on these rows.
            self._machine = LocalLandmarks(tree, machines, n_features, offset=offset)
        self.tree_, self.leaf_sizes_ = tree, sizes
        self.n_leaves_ = tree.n_leaves
        self.n_landmarks_ = sum(
            len(machine.landmarks) for machine in machines if machine.landmarks is not None
        )
        self.n_parameters_ = self._machine.n_parameters + 2 * (tree.n_leaves - 1)
        comparisons = np.average(tree.comparisons(), weights=sizes) / n_features
        self.prediction_flops_ = self._machine.flops(sizes) + comparisons
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)


class LeafTrainingSet(NamedTuple):
    """The training set of a leaf."""

    X: np.ndarray  # (n, f) float32, the features of the leaf
    targets: np.ndarray  # (n, q)
    loss_weights: np.ndarray  # (n,) weights of the rows in the loss
    kmeans_weights: np.ndarray  # (n,) for the k-means that gives the initial landmarks
    has_margin: bool  # whether values beyond a target of 1 or -1 have no loss


def train_leaf(
    training: LeafTrainingSet,
    gamma: float,
    n_landmarks: int,
    epochs: int,
    deadline: Deadline,
    rng: np.random.RandomState,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Train a leaf; returns landmarks (m, f), widths (m,), coefficients (m, q), constants (q,).

    After the deadline it returns their initial values.
    """
    # ||x - u||^2 gamma log2(e) is the exponent to the base 2, in which `train_landmarks` computes.
    scale = np.sqrt(gamma * LOG2_E)
    Z = np.ascontiguousarray(training.X * np.float32(scale))
    m = -(-n_landmarks // LANES) * LANES
    landmarks = weighted_kmeans(Z, training.kmeans_weights, m, rng)  # at most m
    landmarks = np.vstack([landmarks, Z[rng.randint(len(Z), size=m - len(landmarks))]])
    initial_coef, intercept = _initial_coef(Z, training.targets, landmarks, training.has_margin)
    landmarks = np.ascontiguousarray(landmarks.T, np.float32)
    log_widths, coef = np.zeros(m, np.float32), np.ascontiguousarray(initial_coef.T, np.float32)
    constants = intercept.astype(np.float32)
    passes = 0.0 if deadline.passed else max(1.0, _FULL_EPOCH_ROWS / len(Z)) * epochs
    train_landmarks(
        Z,
        np.ascontiguousarray(training.targets, np.float32),
        training.loss_weights.astype(np.float32),
        training.has_margin,
        landmarks,
        log_widths,
        coef,
        constants,
        int(min(max(_MAX_EPOCHS, epochs), passes)),
        _LANDMARK_RATE if Z.shape[1] <= _MAX_NARROW_FEATURES else _WIDE_LANDMARK_RATE,
        _COEF_RATE,
        seed,
    )
    gammas = gamma * np.exp(log_widths.astype(np.float64))
    return landmarks.T / scale, gammas, coef.T, constants


def warn_of_time(estimator: TrainedLeaves, in_time: Iterable[bool]) -> None:
    """ConvergenceWarning on behalf of the caller of `fit`, if leaves were not trained in time."""
    leaves_in_time = list(in_time)
    if not all(leaves_in_time):
        warn(
            f"stopped by {limit_text(estimator, 'max_time')}: {leaves_in_time.count(False)} "
            f"of {len(leaves_in_time)} leaves were not trained to the end; "
            "the model is no worse than a constant",
            ConvergenceWarning,
        )


def varying_features(X: np.ndarray, n_features: int) -> np.ndarray:
    """Sorted indices of the features with the largest standard deviations; (n_features,)."""
    return np.sort(np.argsort(-X.std(axis=0), kind="stable")[:n_features])


def _initial_coef(
    Z: np.ndarray, targets: np.ndarray, landmarks: np.ndarray, has_margin: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Initial coefficients (m, q) and constants (q,) by reweighted ridge regression."""
    # The kernel 2^(-||z - u||^2), which `train_landmarks` evaluates.
    kernel = make_kernel("rbf", landmarks, gamma=1.0 / LOG2_E)
    matrix = KernelMatrix(kernel, landmarks.astype(np.float64), np.float64)
    points = matrix.points(slice(None))
    values = np.ones((len(Z), len(landmarks) + 1))
    block = np.empty((len(Z), len(landmarks)))
    matrix.kernel.evaluate(
        matrix.kernel.prepare(Z.astype(np.float64), np.dtype(np.float64)), points, block
    )
    values[:, :-1] = block
    penalty = np.zeros((values.shape[1], values.shape[1]))
    penalty[:-1, :-1] = _RIDGE * matrix.block(np.arange(len(landmarks)))
    penalty[np.diag_indices_from(penalty)] += _DIAGONAL_RIDGE
    solution = np.zeros((values.shape[1], targets.shape[1]))
    for output, target in enumerate(targets.T):
        weights = np.ones(len(Z))
        for _ in range(_REWEIGHTINGS if has_margin else 1):
            weighted = values * weights[:, None]
            normal_matrix = matmul(weighted.T, values) + penalty
            solution[:, output] = scipy.linalg.solve(
                normal_matrix, matmul(weighted.T, target), assume_a="pos"
            )
            estimates = matmul(values, solution[:, output])
            beyond_margin = ((target >= 1) & (estimates > 1)) | ((target <= -1) & (estimates < -1))
            weights = np.where(beyond_margin, _WEIGHT_BEYOND_MARGIN, 1.0)
    return solution[:-1], solution[-1]
