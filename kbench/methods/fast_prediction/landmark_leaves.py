"""Common part of the two DC-Pred++ estimators: parameters, tree, Algorithm 1, packed model.

Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel Machines" (NIPS 2014), Algorithm 2.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed

from kbench.approximation.landmarks.pseudo_landmarks import (
    PSEUDO,
    PseudoLandmarks,
    make_pseudo_landmarks,
    optimal_factor,
)
from kbench.approximation.operator import sampled_rows
from kbench.clustering import kmeans_tree, weighted_kmeans
from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.sizes import MAX_MEAN_LEAF_ROWS, number_of_groups
from kbench.methods.fast_prediction.compiled import CompiledRows
from kbench.methods.fast_prediction.target_cost import TargetCost, leaf_counts
from kbench.prediction import group_rows
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import (
    LocalLandmarks,
    Router,
    float32_offset,
    require_float32_range,
)
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, choice, integer, usual

# Minimum number of sampled rows for each column (a landmark or a product of landmarks) when R is
# fitted and when the number of products is chosen. With fewer rows the products overfit.
# Held-out accuracy with 16 leaves of 32 landmarks on letter: 82.4 % with all products, 89.0 with 4
# rows a column, 86.7 with 8. On usps, a9a, ijcnn1 and letter 4 rows a column lose at most .4
# percentage points, 16 rows up to 7.6 (`scripts/bench_fast_prediction.py --products`).
_ROWS_PER_COLUMN = 4
# Rows per leaf if `n_leaves` exceeds the number of rows, because models of one row ignore C. Set by
# hand.
_SMALL_LEAF_ROWS = 10
# Numbers of landmarks per leaf among which `target_cost` chooses, at most a factor of two apart:
# a finer list would meet the cost more closely but train more models. Set by hand.
_LANDMARK_COUNTS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)


class LeafResult(NamedTuple):
    """The model of a leaf, and the work and the errors of its training."""

    machine: LandmarkMachine
    n_iter: int
    converged: bool
    kernel_entries: int
    # Sums over sampled rows: squared errors of approximate kernel values, squared kernel values.
    squared_errors: float = 0.0
    squared_values: float = 0.0
    in_time: bool = True


@dataclass(eq=False, repr=False)
class LandmarkLeaves(CompiledRows, TargetCost, ABC):
    """Base of the estimators: their parameters as fields of a dataclass, and the model."""

    # CSR rows of a leaf, and batches of the tree, are made dense; `kbench.validated` explains the
    # two numbers.
    dense_rows: ClassVar[tuple[float, int]] = (5.5, 8192)

    _parameter_constraints: ClassVar[dict] = {
        **TargetCost._parameter_constraints,
        "n_leaves": [integer(1), None],
        "pseudo": [choice(*PSEUDO)],
        "n_pseudo": [integer(1), None],
        "landmarks": [choice("weighted", "kmeans", "support")],
        "gamma": [choice("scale", "auto"), POSITIVE],
        "branching": [integer(2)],
        "n_samples": [integer(1)],
        **usual("n_landmarks", "error_rows", "random_state", "n_jobs"),
    }

    n_leaves: int | None = None
    _: KW_ONLY
    n_landmarks: int = 16
    pseudo: str = "monomials"
    n_pseudo: int | None = None
    landmarks: str = "weighted"
    gamma: float | str = "scale"
    branching: int = 4
    n_samples: int = 1000
    error_rows: int = 0
    target_cost: float | None = None
    random_state: Any = None
    n_jobs: int | None = None

    @abstractmethod
    def _train_leaf(
        self,
        X: np.ndarray,
        kernel: KernelMatrix,
        rng: np.random.RandomState,
        targets: tuple[np.ndarray, ...],
        max_time: float | None,
    ) -> LeafResult:
        """Train on the rows X : (n, d) of one leaf, with their kernel matrix and targets.

        max_time : seconds for the steps that can be interrupted.
        """

    def _candidates_by_kind(self, n: int, d: int) -> Iterable[list[dict[str, Any]]]:
        for n_leaves in leaf_counts(n):
            rows = max(1, n // n_leaves)
            for pseudo in dict.fromkeys(("none", self.pseudo)):
                candidates = [
                    {"n_leaves": n_leaves, "pseudo": pseudo, "n_landmarks": m, "n_pseudo": p}
                    for m in _LANDMARK_COUNTS
                    if m <= rows and (p := self._n_pseudo_of_leaf(rows, m, pseudo)) != 0
                ]
                if candidates:
                    yield candidates

    def _stand_in_router(self, X: np.ndarray, n_leaves: int) -> Router:
        return kmeans_tree(X, n_leaves, np.random.RandomState(0), branching=self.branching)

    def _stand_in_leaf(
        self, X: np.ndarray, sizes: dict[str, Any], n_outputs: int
    ) -> tuple[LandmarkMachine, str]:
        rng, pseudo = np.random.RandomState(0), sizes["pseudo"]
        landmarks = X[: sizes["n_landmarks"]].astype(np.float64)
        rbf = make_kernel("rbf", X, gamma=self.gamma)
        assert isinstance(rbf, RBF)
        gamma = rbf.gamma
        columns = make_pseudo_landmarks(landmarks, gamma, pseudo, sizes["n_pseudo"], X, rng)
        coef = np.ones((columns.n_columns, n_outputs))
        return approximate_machine(columns, coef, np.zeros(n_outputs)), pseudo

    def _n_leaves_for(self, n: int) -> int:
        """Leaves of a tree of n rows: `n_leaves` or its default, fewer if this exceeds n."""
        n_leaves = number_of_groups(self.n_leaves, n, max_rows=MAX_MEAN_LEAF_ROWS)
        return n_leaves if n_leaves <= n else max(1, n // _SMALL_LEAF_ROWS)

    def _warn_of_sizes(self, n: int) -> None:
        """Warn of sizes above the number of rows n."""
        for name, size in (("n_leaves", self._n_leaves_for(n)), ("n_landmarks", n)):
            if (getattr(self, name) or 0) > n:
                warn(f"{name}={getattr(self, name)} is more than the {n} rows; {size} are used")

    def _fit_leaves(
        self,
        X: Any,
        targets: tuple[np.ndarray, ...],
        n_outputs: int,
        rng: np.random.RandomState,
        trace: Trace,
        deadline: Deadline | None = None,
    ) -> bool:
        """Grow the tree, train each leaf, pack the model; returns whether all leaves had time.

        targets : arrays (n, ...), of which each leaf gets its rows.
        """
        require_float32_range(X)
        offset = float32_offset(X)
        if offset is not None:
            X = (X - offset).astype(X.dtype)
        rbf = make_kernel("rbf", X, gamma=self.gamma)
        assert isinstance(rbf, RBF)
        self.gamma_ = rbf.gamma
        with trace.phase("cluster"):
            tree = kmeans_tree(X, self._n_leaves_for(X.shape[0]), rng, branching=self.branching)
            labels = tree.assign(X)
        with trace.phase("train"):
            groups = group_rows(labels)
            seeds = rng.randint(np.iinfo(np.int32).max, size=len(groups))
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(_train_leaf)(
                    self,
                    X[rows],
                    rbf,
                    seed,
                    [t[rows] for t in targets],
                    None if deadline is None else deadline.seconds_left(),
                )
                for (_, rows), seed in zip(groups, seeds, strict=True)
            )
        with trace.phase("prepare"):
            # The tree assigns rows in float32, so a leaf may lack training rows; its model is 0.
            machines = [LandmarkMachine(np.zeros(n_outputs))] * tree.n_leaves
            for (leaf, _), result in zip(groups, results, strict=True):
                machines[leaf] = result.machine
            require_finite(self, coef_=[machine.parameter_sum for machine in machines])
            self._machine = LocalLandmarks(tree, machines, X.shape[1], self.pseudo, offset=offset)
        self.tree_, self.labels_ = tree, labels
        self.n_leaves_ = tree.n_leaves
        self.n_landmarks_ = sum(
            len(machine.landmarks) for machine in machines if machine.landmarks is not None
        )
        self.n_iter_ = sum(result.n_iter for result in results)
        self.converged_ = all(result.converged for result in results)
        self.kernel_entries_ = sum(result.kernel_entries for result in results)
        squared_values = sum(result.squared_values for result in results)
        if squared_values > 0.0:
            squared_errors = sum(result.squared_errors for result in results)
            self.kernel_error_ = float(np.sqrt(squared_errors / squared_values))
        self.n_parameters_ = self._machine.n_parameters + tree.centres.size
        sizes = np.bincount(labels, minlength=tree.n_leaves)
        self.prediction_flops_ = self._machine.flops(sizes) + tree.distances()[labels].mean()
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return all(result.in_time for result in results)

    def _columns(
        self, X: np.ndarray, coef: np.ndarray, rng: np.random.RandomState
    ) -> PseudoLandmarks:
        """Landmarks and pseudo landmarks of a leaf with exact coefficients coef : (n, m)."""
        squares = (coef**2).sum(axis=1)
        weights = squares if self.landmarks == "weighted" else np.ones(len(X))
        centres = weighted_kmeans(np.asarray(X, np.float64), weights, self.n_landmarks, rng)
        n_pseudo = self._n_pseudo_of_leaf(len(X), len(centres), self.pseudo)
        return make_pseudo_landmarks(centres, self.gamma_, self.pseudo, n_pseudo, X, rng)

    def _n_pseudo_of_leaf(self, n: int, m: int, pseudo: str) -> int | None:
        """`n_pseudo` of a leaf of n rows, m landmarks; by default n / `_ROWS_PER_COLUMN` - m."""
        if self.n_pseudo is not None or pseudo != "monomials":
            return self.n_pseudo
        return max(0, n // _ROWS_PER_COLUMN - m)

    def _factor(
        self, columns: np.ndarray, kernel: KernelMatrix, rng: np.random.RandomState
    ) -> np.ndarray:
        """R of equation (6), from `n_samples` rows, or `_ROWS_PER_COLUMN` a column if more."""
        size = min(len(columns), max(self.n_samples, _ROWS_PER_COLUMN * columns.shape[1]))
        rows = np.sort(rng.choice(len(columns), size, replace=False))
        gram = kernel.square(rows)
        return optimal_factor(columns[rows], gram.astype(np.float64))

    def _squared_error_and_norm(
        self, features: np.ndarray, kernel: KernelMatrix, rng: np.random.RandomState
    ) -> tuple[float, float]:
        """||K_R - Phi_R Phi'||^2 and ||K_R||^2 for up to `error_rows` rows R of a leaf."""
        if not self.error_rows:
            return 0.0, 0.0
        rows = sampled_rows(len(features), self.error_rows, rng)
        exact = kernel.block(rows).astype(np.float64)
        return float(((exact - matmul(features[rows], features.T)) ** 2).sum()), float(
            (exact**2).sum()
        )


def exact_machine(X: np.ndarray, gamma: float, coef: np.ndarray, constant: np.ndarray) -> Any:
    """The exact model of a leaf: its landmarks are the rows with non-zero coef : (n, m)."""
    support = np.flatnonzero(coef.any(axis=1))
    if not len(support):
        return LandmarkMachine(constant)
    return LandmarkMachine(constant, X[support], np.full(len(support), gamma), coef[support])


def approximate_machine(columns: PseudoLandmarks, coef: np.ndarray, constant: np.ndarray) -> Any:
    """The model of a leaf with coefficients coef : (n_columns, m)."""
    gammas = np.full(len(columns.landmarks), columns.gamma)
    return LandmarkMachine(
        constant, columns.landmarks, gammas, coef, None, columns.pairs, columns.spans
    )


def _train_leaf(
    model: LandmarkLeaves,
    X: Any,
    function: RBF,
    seed: int,
    targets: list[np.ndarray],
    max_time: float | None,
) -> LeafResult:
    """Train one leaf by the method `_train_leaf` of `model`, as a task of joblib.

    A worker process gets the rows X : (n, d) of the leaf, dense or CSR, and their targets, arrays
    (n, ...). The kernel matrix is made here, so that it need not be sent.

    max_time : seconds for the steps that can be interrupted
    """
    dense = X.toarray() if sp.issparse(X) else X
    kernel = KernelMatrix(function, dense)
    rng = np.random.RandomState(seed)
    return model._train_leaf(dense, kernel, rng, tuple(targets), max_time)
