"""Local models with trained landmarks, widths and coefficients in the leaves of a decision tree.

kbench's variant of DC-Pred++ (Hsieh, Si and Dhillon, NIPS 2014): leaves are axis-aligned boxes
instead of k-means cells, which is faster, and landmarks are trained by gradients instead of fitted
by Nystrom's formula, which is more accurate.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import check_random_state

from kbench import class_labels
from kbench.clustering.axis_tree import AxisTree, class_tree
from kbench.intrinsics.landmark_tiles import LANES
from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.methods.base.box_svc import solve_problems
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.one_vs_rest import BinaryProblems, WeightedOneVsRest
from kbench.methods.base.penalty import C_CONSTRAINT, penalty_of_sample
from kbench.methods.base.sizes import MAX_MEAN_LEAF_ROWS, number_of_groups
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.fast_prediction.trained_leaf_chunks import LeafRecord, make_record
from kbench.methods.fast_prediction.trained_leaves import (
    LeafTrainingSet,
    TrainedLeaves,
    train_leaf,
    varying_features,
    warn_of_time,
)
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import float32_offset, float32_rows, require_float32_range
from kbench.trace import Deadline, Trace
from kbench.validated import NOT_NEGATIVE, choice, fit_context, usual

# Standard deviation of the noise of synthetic rows, in standard deviations of each feature in the
# leaf: large enough to fill the box of the leaf, small enough to stay in it mostly. Set by hand.
_NOISE_DEVIATION = 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class DCPredTrainedClassifier(WeightedOneVsRest, TrainedLeaves):
    """Squared-hinge models on trained Gaussian landmarks in the leaves of a decision tree.

        1. grow a tree of comparisons of single features to at most `n_leaves` leaves;
        2. solve the dual of the support vector machine of each leaf (or of all rows) for a;
           targets are its values, clipped to [-1, 1];
        3. in each leaf, on its `n_features` features of largest deviation, find landmarks by
           k-means of the support vectors with weights a_i^2, and coefficients by ridge regression;
        4. train landmarks u_j, widths s_j, coefficients b_j and a constant c of

               f(x) = c + sum_j b_j exp(-s_j ||x - u_j||^2)

           on the squared distance to the target, with no loss beyond a margin of 1
           (`kbench.solvers.stochastic.landmark_training`).

    Prediction costs the comparisons of the tree and `n_landmarks` kernel values on `n_features`
    features. A leaf with one class is constant. More than two classes are one-vs-rest and share
    tree and landmarks.

    Parameters
    ----------
    n_leaves : int or None, default=None
        None: one for each 500 rows, at most 64, but one for each 8,000 of more than 512,000 rows.
    n_landmarks : int, default=16
        Landmarks of each leaf, rounded up to a multiple of 16, which costs the same. Set by hand.
    n_features : int or None, default=16
        Number of features that the landmarks of a leaf have; None is all. Set by hand.
    router : {"classes", "variance"}, default="variance"
        Whether splits of the tree reduce the entropy of the classes or the variance of features.
    min_rows : int, default=30
        Least number of rows of a leaf. Set by hand.
    target : {"leaf", "global", "labels"}, default="leaf"
        Targets of the training: values of the exact model of the leaf or of all rows, or the
        labels (without step 2, and with unweighted k-means).
    n_synthetic : float, default=0.0
        Number of synthetic rows of a leaf, as a multiple of its rows: rows of the leaf plus normal
        noise of half the standard deviation of each feature, with values of the model of all
        rows as targets. Requires target="global".
    epochs : int, default=20
        Passes over a leaf of 400 rows or more; up to 200 over smaller leaves. Set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`. It ends the exact models, and is checked before a leaf is trained: the
        landmarks of later leaves stay as k-means and ridge regression give them.
    C : float or "loo", default=1.0
        As in `KernelSVC`.
    gamma : float or {"scale", "auto"}, default="scale"
        Width of the exact models, and the initial one of the landmarks.
    tol : float, default=0.05
        Tolerance of the exact models, as in `KernelSVC`. Set by hand.
    cache_mb : float, default=200.0
        As `cache_size` of `KernelSVC`.
    class_weight, probability
        As in `KernelSVC`.
    target_cost : float or None, default=None
        Largest cost of a prediction, in predictions of a linear model on this computer. n_leaves,
        n_landmarks, n_features and router are then chosen by measured cost and by validation on a
        fifth of the rows. Measured costs vary, so two fits may differ.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Leaves trained at the same time, by joblib; the result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    tree_ : AxisTree
        Of the rows, minus their mean if this is more than 16 standard deviations from 0.
    labels_ : (n,) ints
        Leaf of each training row; not set after a fit of rows in chunks.
    leaf_sizes_ : (n_leaves_,) ints
        Training rows of each leaf.
    n_leaves_, n_landmarks_ : int
    kernel_entries_ : int
        Kernel values that the exact models took.
    n_parameters_, model_bytes_ : int
    prediction_flops_ : float
        Mean cost of predicting a training row, in units of a linear model's prediction; an
        exponential counts as ten multiplications.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (the tree), "exact" (the model of all rows), "train",
        and of "choose" with `target_cost`.
    sizes_, cost_, choices_
        With `target_cost`: the chosen parameters, their measured cost, and (parameters, cost,
        score) of all candidates.
    n_features_in_ : int

    Notes
    -----
    With K leaves of m landmarks on f features: O(n d log n log K) time for the tree, about 1 / K of
    the kernel values of an exact model of all rows, and O(epochs n m f) time for the training.
    Prediction takes O(depth + m f) time a row, in float32.

    A leaf sees n / K rows, and `n_features` of their features. If there are few rows of many
    features, a linear model of all rows can be one or two percentage points more accurate (a9a:
    4,000 rows, 81.5 % against 83.5 %). n_features=None takes all features.

    Without target="global", probability, target_cost and max_time, `fit` also takes `ChunkedRows`
    (`kbench.chunked`), rows that need not fit into memory. They are read twice. The tree is grown
    on a sample of 20,000 rows or more; the rows are written to disk by leaf, and each leaf is
    trained from its rows. If leaves would not fit into memory, the tree gets more leaves, and
    `notes_` says so. If all rows are in the sample and gamma is a number, the model equals that of
    a fit in memory to the bit. C="loo" is decided on the sample.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import DCPredTrainedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCPredTrainedClassifier(1, n_landmarks=48, n_features=None, C=10.0, gamma=1e-3,
    ...                                 random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TrainedLeaves._parameter_constraints,
        "router": [choice("classes", "variance")],
        "target": [choice("leaf", "global", "labels")],
        "n_synthetic": [NOT_NEGATIVE],
        "C": C_CONSTRAINT,
        **usual("tol", "cache_mb", "class_weight", "probability"),
    }

    _checks_finite = False
    _ROUTERS: ClassVar[tuple[str, ...]] = ("variance", "classes")

    target: str = "leaf"
    n_synthetic: float = 0.0
    C: float | str = 1.0
    tol: float = 0.05
    cache_mb: float = 200.0

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.n_synthetic and self.target != "global":
            raise ValueError(
                f"n_synthetic={self.n_synthetic} needs target='global', got {self.target!r}"
            )

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
            X becomes a dense float32 array during the fit. It may also be `ChunkedRows`, which
            contain their labels.
        y : (n,) labels
        sample_weight : (n,), optional
            Factors of C, and of the loss of the training, for each row.
        trace : Trace, optional
            Receives the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, there are fewer than two classes, n_synthetic without
            target="global", a `target_cost` below that of the smallest model, or features whose
            squared distances leave the range of float32.
        """
        trace = Trace() if trace is None else trace
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            self.kernel_entries_ = self._fit_chunks(chunks, ClassTargets(), trace).kernel_entries
            return self
        deadline = Deadline(self.max_time, trace)
        if self.target_cost is not None:
            self._fit_within_cost(self.target_cost, X, y, sample_weight, trace)
            return self
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            require_float32_range(targets.X)
            rbf = make_kernel("rbf", targets.X, gamma=self.gamma)
            assert isinstance(rbf, RBF)
            offset = float32_offset(targets.X)
            rows = float32_rows(targets.X, offset)
        with trace.phase("cluster"):
            n_leaves = number_of_groups(self.n_leaves, len(rows), max_rows=MAX_MEAN_LEAF_ROWS)
            weight = targets.C / self.C_
            tree = self._tree(rows, targets.Y, weight, n_leaves, self.min_rows, rng)
            labels = tree.assign(rows)
        with trace.phase("exact"):
            teacher = None
            if self.target == "global":
                teacher = self._teacher(rows, targets, rbf, deadline)
        with trace.phase("train"):
            groups = group_rows(labels)
            seeds = rng.randint(np.iinfo(np.int32).max, size=len(groups))
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(_train_leaf)(
                    self,
                    rows[leaf_rows],
                    targets.Y[leaf_rows],
                    targets.C[leaf_rows],
                    rbf,
                    None if teacher is None else teacher.at_rows(leaf_rows),
                    self._n_leaf_features(rows.shape[1]),
                    seed,
                    deadline.seconds_left(),
                )
                for (_, leaf_rows), seed in zip(groups, seeds, strict=True)
            )
        machines = [result.machine for result in results]
        self.labels_ = labels
        sizes = np.bincount(labels, minlength=tree.n_leaves)
        self._set_model(tree, sizes, machines, rows.shape[1], offset, trace)
        self.kernel_entries_ = sum(result.n_entries for result in results)
        if teacher is not None:
            self.kernel_entries_ += teacher.n_entries
        teacher_in_time = teacher is None or teacher.in_time
        warn_of_time(self, (teacher_in_time and result.in_time for result in results))
        self._calibrate(targets.X, y, sample_weight, trace, deadline)
        return self

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return super().accepts_chunks and self.target != "global" and not self._wants_probabilities

    def _targets_of_sample(self, survey: Survey) -> tuple[np.ndarray, np.ndarray]:
        targets = survey.targets
        assert isinstance(targets, ClassTargets)
        self.classes_ = targets.classes
        self.C_ = penalty_of_sample(self, survey)
        index = class_labels.index_of(self.classes_, survey.sample_y)
        weight = targets.weights(self.class_weight)[index]
        return class_labels.signs(index, len(self.classes_)), weight

    def _leaf_trainer(
        self, survey: Survey, rbf: RBF, offset: np.ndarray | None, seeds: np.ndarray
    ) -> "_LeafTrainer":
        targets = survey.targets
        assert isinstance(targets, ClassTargets)
        weights = self.C_ * targets.weights(self.class_weight)
        return _LeafTrainer(clone(self), rbf, offset, weights, seeds)

    def _tree_of_targets(
        self, X: np.ndarray, Y: np.ndarray, weight: np.ndarray, n_leaves: int, min_rows: int
    ) -> AxisTree:
        classes = Y[:, 0] if Y.shape[1] == 1 else Y.argmax(axis=1)
        return class_tree(X, classes, n_leaves, min_rows, weight)

    def _teacher(
        self, X: np.ndarray, targets: BinaryProblems, rbf: RBF, deadline: Deadline
    ) -> "_Teacher":
        kernel = KernelMatrix(rbf, X)
        coef, in_time = _exact_coef(self, kernel, targets.Y, targets.C, deadline)
        support = np.flatnonzero(coef.any(axis=1))
        machine = KernelExpansion(
            kernel, support, coef[support], prediction_dtype(kernel, coef[support])
        )
        return _Teacher(machine, machine(X), coef, kernel.n_entries, in_time)

    def _regions(self, X: Any) -> np.ndarray:
        return self._machine.assign(self._rows_to_predict(X))


class _Teacher(NamedTuple):
    """An exact model, and its values and coefficients at some of the training rows."""

    machine: KernelExpansion
    values: np.ndarray  # (n, m)
    coef: np.ndarray  # (n, m)
    n_entries: int  # kernel values that its training took
    in_time: bool  # whether it was trained to its tolerance

    def at_rows(self, rows: np.ndarray) -> "_Teacher":
        return self._replace(values=self.values[rows], coef=self.coef[rows])


class _Leaf(NamedTuple):
    machine: LandmarkMachine
    n_entries: int = 0  # kernel values that its training took
    in_time: bool = True


@dataclass(frozen=True)
class _LeafTrainer:
    """Trains the leaves of rows in chunks as `fit` trains those of rows in memory."""

    model: DCPredTrainedClassifier  # not fitted
    rbf: RBF
    offset: np.ndarray | None
    weights: np.ndarray  # (n_classes,) C times the weight of each class
    seeds: np.ndarray  # (n_leaves,)

    record: ClassVar[type] = LeafRecord

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> LeafRecord:
        leaf = _train_leaf(
            self.model,
            float32_rows(X, self.offset),
            class_labels.signs(targets, len(self.weights)),
            self.weights[targets],
            self.rbf,
            None,
            self.model._n_leaf_features(X.shape[1]),
            self.seeds[cluster],
            None,
        )
        return make_record(leaf.machine, leaf.n_entries)


def _exact_coef(
    model: DCPredTrainedClassifier,
    kernel: KernelMatrix,
    Y: np.ndarray,
    C: np.ndarray,
    deadline: Deadline,
) -> tuple[np.ndarray, bool]:
    """Dual solutions y_i a_i for the signs Y : (n, m), and whether all were found in time."""
    results = solve_problems(
        kernel,
        Y,
        C,
        tol=model.tol,
        cache_mb=model.cache_mb,
        max_iter=-1,
        max_time=deadline.seconds_left(),
        shrinking=True,
    )
    in_time = all(result.stop_reason != "max_time" for result in results)
    return Y * np.column_stack([result.alpha for result in results]), in_time


def _train_leaf(
    model: DCPredTrainedClassifier,
    X: np.ndarray,
    Y: np.ndarray,
    C: np.ndarray,
    rbf: RBF,
    teacher: _Teacher | None,
    n_features: int,
    seed: int,
    max_time: float | None,
) -> _Leaf:
    """Steps 2 to 4 of `DCPredTrainedClassifier` for the rows X : (n, d) float32 of a leaf.

    Y : (n, m) signs. C : (n,), 0 for rows to leave out. rbf : the exact model's kernel.
    teacher : the model of all rows, if `model.target` is "global". n_features : kept by landmarks.
    """
    deadline = Deadline(max_time, Trace())
    has_weight = C > 0
    if not has_weight.any():
        return _Leaf(LandmarkMachine(np.zeros(Y.shape[1])))
    X, Y, C = X[has_weight], Y[has_weight], C[has_weight]
    has_two_classes = Y.min(axis=0) < Y.max(axis=0)
    if teacher is not None and len(Y) >= LANES:
        # The model of all rows may change its sign in a leaf whose rows have one class. Such a leaf
        # stays constant if it has fewer than 16 rows. The bound is set by hand.
        has_two_classes[:] = True
    constant = np.where(has_two_classes, 0.0, Y[0])
    if not has_two_classes.any():
        return _Leaf(LandmarkMachine(constant))
    rng = np.random.RandomState(seed)
    features = varying_features(X, n_features)
    targets, kmeans_weights, n_entries = Y[:, has_two_classes], np.ones(len(Y)), 0
    if teacher is not None:
        targets, coef = (
            teacher.values[has_weight][:, has_two_classes],
            teacher.coef[has_weight][:, has_two_classes],
        )
    elif model.target == "leaf":
        kernel = KernelMatrix(rbf, X)
        coef, _ = _exact_coef(model, kernel, targets, C, deadline)
        support = np.flatnonzero(coef.any(axis=1))
        targets = kernel.product(support, coef[support])
        n_entries = kernel.n_entries
    if model.target != "labels" and coef.any():
        kmeans_weights = (coef**2).sum(axis=1)
    if teacher is not None and model.n_synthetic:
        n_synthetic = int(np.ceil(model.n_synthetic * len(X)))
        source_rows = rng.randint(len(X), size=n_synthetic)
        noise = _NOISE_DEVIATION * X.std(axis=0) * rng.normal(size=(n_synthetic, X.shape[1]))
        synthetic_rows = (X[source_rows] + noise).astype(np.float32)
        X, C = np.vstack([X, synthetic_rows]), np.concatenate([C, C[source_rows]])
        targets = np.vstack([targets, teacher.machine(synthetic_rows)[:, has_two_classes]])
        kmeans_weights = np.concatenate([kmeans_weights, np.zeros(n_synthetic)])
    in_time = not deadline.passed
    training = LeafTrainingSet(
        X[:, features], np.clip(targets, -1.0, 1.0), C / C.mean(), kmeans_weights, True
    )
    landmarks, gammas, leaf_coef, constants = train_leaf(
        training, rbf.gamma, model.n_landmarks, model.epochs, deadline, rng, seed
    )
    constant[has_two_classes] = constants
    all_coef = np.zeros((len(landmarks), Y.shape[1]))
    all_coef[:, has_two_classes] = leaf_coef
    machine = LandmarkMachine(constant, landmarks, gammas, all_coef, features)
    return _Leaf(machine, n_entries, in_time)
