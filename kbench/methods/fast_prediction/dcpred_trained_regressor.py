"""Regression by local models with trained landmarks; `dcpred_trained.py` explains the method."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import RegressorMixin, clone
from sklearn.utils import check_random_state

from kbench.clustering.axis_tree import AxisTree, target_tree
from kbench.kernels import make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.methods.base.chunk_scores import ChunkScores, rows_in_chunks
from kbench.methods.base.new_rows import checked_rows
from kbench.methods.base.sizes import MAX_MEAN_LEAF_ROWS, number_of_groups
from kbench.methods.base.survey import RealTargets, Survey
from kbench.methods.fast_prediction.trained_leaf_chunks import LeafRecord, make_record
from kbench.methods.fast_prediction.trained_leaves import (
    LeafTrainingSet,
    TrainedLeaves,
    train_leaf,
    varying_features,
    warn_of_time,
)
from kbench.prediction import group_rows
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import float32_offset, float32_rows, require_float32_range
from kbench.trace import Deadline, Trace
from kbench.validated import TakesSparseRows, choice, fit_context, validate_data


@dataclass(kw_only=True, eq=False, repr=False)
class DCPredTrainedRegressor(TakesSparseRows, ChunkScores, RegressorMixin, TrainedLeaves):
    """Least squares on trained Gaussian landmarks in the leaves of a decision tree.

        1. grow a tree of comparisons of single features to at most `n_leaves` leaves;
        2. in each leaf, on its `n_features` features of largest deviation, find landmarks by
           k-means, and coefficients by ridge regression;
        3. train landmarks u_j, widths s_j, coefficients b_j and a constant c of

               f(x) = c + sum_j b_j exp(-s_j ||x - u_j||^2)

           on the squared error (`kbench.solvers.stochastic.landmark_training`).

    Parameters
    ----------
    n_leaves : int or None, default=None
    n_landmarks : int, default=16
    n_features : int or None, default=16
        As in `DCPredTrainedClassifier`.
    router : {"targets", "variance"}, default="targets"
        Whether splits of the tree reduce the variance of the targets or of the features.
    min_rows : int, default=60
        Least number of rows of a leaf. Set by hand.
    epochs : int, default=40
        Passes over a leaf of 400 rows or more; up to 200 over smaller leaves. Set by hand.
    max_time : float or None, default=None
        As in `DCPredTrainedClassifier`.
    gamma : float or {"scale", "auto"}, default="scale"
        Initial width of the landmarks.
    target_cost, random_state, n_jobs
        As in `DCPredTrainedClassifier`.

    Attributes
    ----------
    tree_, labels_, leaf_sizes_, n_leaves_, n_landmarks_, n_parameters_, model_bytes_, \
prediction_flops_, timings_, sizes_, cost_, choices_, n_features_in_
        As in `DCPredTrainedClassifier`.

    Notes
    -----
    O(n d log n log K) time for the tree and O(epochs n m f) for the training of K leaves of m
    landmarks on f features. Prediction takes O(depth + m f) time a row, in float32. `fit` takes
    rows in chunks as in `DCPredTrainedClassifier`; mean and deviation of their targets are summed
    in another order, so the model is that of the fit in memory up to rounding.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import DCPredTrainedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DCPredTrainedRegressor(1, epochs=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TrainedLeaves._parameter_constraints,
        "router": [choice("targets", "variance")],
    }

    _ROUTERS: ClassVar[tuple[str, ...]] = ("variance", "targets")

    router: str = "targets"
    min_rows: int = 60
    epochs: int = 40

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
            X becomes a dense float32 array during the fit. It may also be `ChunkedRows`, which
            contain their targets.
        y : (n,)
        trace : Trace, optional
            Receives the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, a `target_cost` below that of the smallest model, or
            features whose squared distances leave the range of float32.
        """
        trace = Trace() if trace is None else trace
        if (chunks := rows_in_chunks(X, y)) is not None:
            self._fit_chunks(chunks, RealTargets(), trace)
            return self
        deadline = Deadline(self.max_time, trace)
        if self.target_cost is not None:
            self._fit_within_cost(self.target_cost, X, y, None, trace)
            return self
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            X, y = validate_data(self, X, y, y_numeric=True)
            require_float32_range(X)
            rbf = make_kernel("rbf", X, gamma=self.gamma)
            assert isinstance(rbf, RBF)
            offset = float32_offset(X)
            rows = float32_rows(X, offset)
            y = np.asarray(y, np.float64)
            mean, scale = y.mean(), y.std() or 1.0
            targets = (y - mean) / scale
        with trace.phase("cluster"):
            n_leaves = number_of_groups(self.n_leaves, len(rows), max_rows=MAX_MEAN_LEAF_ROWS)
            weights = np.ones(len(rows))
            tree = self._tree(rows, targets[:, None], weights, n_leaves, self.min_rows, rng)
            labels = tree.assign(rows)
        with trace.phase("train"):
            groups = group_rows(labels)
            seeds = rng.randint(np.iinfo(np.int32).max, size=len(groups))
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(_train_leaf)(
                    self,
                    rows[leaf_rows],
                    targets[leaf_rows],
                    rbf.gamma,
                    seed,
                    deadline.seconds_left(),
                )
                for (_, leaf_rows), seed in zip(groups, seeds, strict=True)
            )
            machines = [_rescale(machine, mean, scale) for machine, _ in results]
        self.labels_ = labels
        sizes = np.bincount(labels, minlength=tree.n_leaves)
        self._set_model(tree, sizes, machines, rows.shape[1], offset, trace)
        warn_of_time(self, (in_time for _, in_time in results))
        return self

    def _targets_of_sample(self, survey: Survey) -> tuple[np.ndarray, np.ndarray]:
        targets = survey.targets
        assert isinstance(targets, RealTargets)
        if targets.n_outputs > 1:
            raise ValueError(f"y should have one target for each row, it has {targets.n_outputs}")
        scale = targets.deviation[0] or 1.0
        Y = (np.asarray(survey.sample_y, np.float64).reshape(-1, 1) - targets.mean) / scale
        return Y, np.ones(len(Y))

    def _leaf_trainer(
        self, survey: Survey, rbf: RBF, offset: np.ndarray | None, seeds: np.ndarray
    ) -> "_LeafTrainer":
        targets = survey.targets
        assert isinstance(targets, RealTargets)
        mean, scale = float(targets.mean[0]), float(targets.deviation[0]) or 1.0
        return _LeafTrainer(clone(self), rbf.gamma, offset, mean, scale, seeds)

    def _tree_of_targets(
        self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray, n_leaves: int, min_rows: int
    ) -> AxisTree:
        return target_tree(X, Y[:, 0], n_leaves, min_rows)

    def predict(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR, or rows in chunks; (u,) float64."""
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self.predict(block.X) for block in chunks.blocks()])
        X = checked_rows(self, X)
        return self._machine(X)[:, 0]


def _train_leaf(
    model: DCPredTrainedRegressor,
    X: np.ndarray,
    y: np.ndarray,
    gamma: float,
    seed: int,
    max_time: float | None,
) -> tuple[LandmarkMachine, bool]:
    """The model of a leaf with rows X : (n, d) float32, and whether it was trained in time."""
    if np.ptp(y) == 0.0:
        return LandmarkMachine(y[:1]), True
    deadline = Deadline(max_time, Trace())
    in_time = not deadline.passed
    rng, features = (
        np.random.RandomState(seed),
        varying_features(X, model._n_leaf_features(X.shape[1])),
    )
    ones = np.ones(len(y))
    training = LeafTrainingSet(X[:, features], y[:, None], ones, ones, False)
    landmarks, gammas, coef, constant = train_leaf(
        training, gamma, model.n_landmarks, model.epochs, deadline, rng, seed
    )
    return LandmarkMachine(constant, landmarks, gammas, coef, features), in_time


@dataclass(frozen=True)
class _LeafTrainer:
    """Trains the leaves of rows in chunks as `fit` trains those of rows in memory."""

    model: DCPredTrainedRegressor  # not fitted
    gamma: float
    offset: np.ndarray | None
    mean: float  # of the targets of all rows
    scale: float  # standard deviation of the targets
    seeds: np.ndarray  # (n_leaves,)

    record: ClassVar[type] = LeafRecord

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> LeafRecord:
        y = (targets[:, 0] - self.mean) / self.scale
        rows = float32_rows(X, self.offset)
        machine, _ = _train_leaf(self.model, rows, y, self.gamma, self.seeds[cluster], None)
        return make_record(_rescale(machine, self.mean, self.scale))


def _rescale(machine: LandmarkMachine, mean: float, scale: float) -> LandmarkMachine:
    """Make the model of scale f + mean from the model of f."""
    coef = None if machine.coef is None else scale * machine.coef
    constant = scale * np.asarray(machine.constant, np.float64) + mean
    return LandmarkMachine(constant, machine.landmarks, machine.gammas, coef, machine.features)
