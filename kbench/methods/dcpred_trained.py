"""Local machines whose landmarks, widths and coefficients are trained, behind axis-aligned trees.

The idea of DC-Pred++ (Hsieh, Si and Dhillon, NIPS 2014: a leaf of a tree, a few landmarks in it),
with what costs least at prediction and what serves accuracy most instead of its ingredients: boxes
instead of k-means cells, gradients instead of Nystrom's formula.
"""

from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.clustering.axis_tree import AxisTree, class_tree, variance_tree
from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.exponential import RBF
from kbench.methods._box_svc import solve_problems
from kbench.methods._one_vs_rest import OneVsRest, Targets
from kbench.methods._trained_leaves import Task, TrainedLeaves, train_leaf, varying_features
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype
from kbench.prediction.landmarks import float32_offset, float32_rows
from kbench.prediction.packing import LandmarkMachine
from kbench.intrinsics.landmark_tiles import LANES
from kbench.trace import Trace

# A synthetic row is a row and normal noise of so many standard deviations of each feature in the
# leaf.
_NOISE = 0.5


class DCPredTrainedClassifier(OneVsRest, TrainedLeaves):
    """Squared-hinge machines on trained Gaussian landmarks in the leaves of a decision tree.

        1. grow a tree of comparisons of single features to at most `n_leaves` leaves;
        2. solve the dual of the support vector machine of each leaf (or of all rows) for a;
           targets are its values, clipped to [-1, 1];
        3. in each leaf, on its `n_features` features of largest deviation, landmarks by k-means of
           the support vectors with weights a_i^2, coefficients by ridge regression;
        4. train landmarks u_j, widths s_j, coefficients b_j and a constant c of

               f(x) = c + sum_j b_j exp(-s_j ||x - u_j||^2)

           on the squared distance to the target, nothing beyond a margin of 1
           (`kbench.solvers.landmark_training`).

    Prediction costs the tree's comparisons and `n_landmarks` kernel values on `n_features`
    features. A leaf of one class is constant. Several classes are taken one-vs-rest and share tree
    and landmarks.

    Parameters
    ----------
    n_leaves : int, default=64
    n_landmarks : int, default=16
        Of each leaf; rounded up to a multiple of 16, which costs the same.
    n_features : int or None, default=16
        Features that a leaf looks at; None is all.
    router : {"classes", "variance"}, default="variance"
        Splits that lower the entropy of the classes, or the variance of the features.
    min_rows : int, default=30
        Of each leaf.
    target : {"leaf", "global", "labels"}, default="leaf"
        What is learnt: values of the exact machine of the leaf or of all rows, or labels (nothing
        of step 2, and plain k-means).
    n_synthetic : float, default=0.0
        Rows that are added to each leaf, as a multiple of its own: its rows with normal noise of
        half the features' deviations in the leaf, and the values of the machine of all rows; so
        only with target="global".
    epochs : int, default=20
        Passes over a leaf of 400 rows or more; up to 200 over smaller ones.
    C : float, default=1.0
    gamma : float or {"scale", "auto"}, default="scale"
        Of the exact machines, and where the widths start.
    tol : float, default=0.05
        Of the exact machines, as in `KernelSVC`.
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    target_cost : float or None, default=None
        Budget for a prediction, in predictions of a linear model on this machine. n_leaves,
        n_landmarks, n_features and router are then chosen by measured cost and by validation on a
        fifth of the rows. Costs are measured: two fits may choose otherwise.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Leaves trained at once, through joblib. The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    tree_ : AxisTree
    labels_ : (n,) ints
        Leaf of each training row.
    n_leaves_, n_landmarks_ : int
    kernel_entries_ : int
        Kernel values of the exact machines.
    n_parameters_, model_bytes_ : int
    prediction_flops_ : float
        Mean cost of a training row's prediction, in units of a linear model's; an exponential
        counts as ten multiplications.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (the tree), "exact" (the machine of all rows), "train",
        and of "choose" with `target_cost`.
    sizes_, cost_, choices_
        With `target_cost`: the parameters chosen, the measured cost, and (parameters, cost, score)
        of all that were compared.
    n_features_in_ : int

    Notes
    -----
    O(n d log n log K) time for the tree, 1 / K of the exact machine's kernel values, and
    O(epochs n m f) for the training. Prediction in float32: O(depth + m f) a row.

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
        "router": [StrOptions({"classes", "variance"})],
        "target": [StrOptions({"leaf", "global", "labels"})],
        "n_synthetic": [Interval(Real, 0, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "cache_mb": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    _checks_finite = False
    _ROUTERS: ClassVar[tuple[str, ...]] = ("variance", "classes")

    def __init__(
        self,
        n_leaves: int = 64,
        *,
        n_landmarks: int = 16,
        n_features: int | None = 16,
        router: str = "variance",
        min_rows: int = 30,
        target: str = "leaf",
        n_synthetic: float = 0.0,
        epochs: int = 20,
        C: float = 1.0,
        gamma: float | str = "scale",
        tol: float = 0.05,
        cache_mb: float = 200.0,
        class_weight: dict | str | None = None,
        target_cost: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_leaves = n_leaves
        self.n_landmarks = n_landmarks
        self.n_features = n_features
        self.router = router
        self.min_rows = min_rows
        self.target = target
        self.n_synthetic = n_synthetic
        self.epochs = epochs
        self.C = C
        self.gamma = gamma
        self.tol = tol
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.target_cost = target_cost
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
            Kept as a dense float32 array during the fit.
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C, and the loss of the training, row by row.
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, fewer than two classes, n_synthetic without target="global",
            a `target_cost` that no router meets.
        """
        if self.n_synthetic and self.target != "global":
            raise ValueError(
                f"n_synthetic={self.n_synthetic} needs target='global', got {self.target!r}"
            )
        trace = Trace() if trace is None else trace
        if self.target_cost is not None:
            self._fit_within(self.target_cost, X, y, sample_weight, trace)
            return self
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            function = make_kernel("rbf", targets.X, gamma=self.gamma)
            assert isinstance(function, RBF)
            offset = float32_offset(targets.X)
            rows = float32_rows(targets.X, offset)
        with trace.phase("cluster"):
            tree = self._tree(rows, targets, rng)
            labels = tree.assign(rows)
        with trace.phase("exact"):
            teacher = self._teacher(rows, targets, function) if self.target == "global" else None
        with trace.phase("train"):
            groups = group_rows(labels)
            seeds = rng.randint(np.iinfo(np.int32).max, size=len(groups))
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(_train_leaf)(
                    self,
                    rows[own],
                    targets.Y[own],
                    targets.C[own],
                    function,
                    None if teacher is None else teacher.of(own),
                    self._width(rows.shape[1]),
                    seed,
                )
                for (_, own), seed in zip(groups, seeds, strict=True)
            )
        machines = [machine for machine, _ in results]
        self._pack(tree, labels, machines, rows.shape[1], offset, trace)
        self.kernel_entries_ = sum(entries for _, entries in results)
        if teacher is not None:
            self.kernel_entries_ += teacher.n_entries
        return self

    def _tree(self, X: np.ndarray, targets: Targets, rng: np.random.RandomState) -> AxisTree:
        if self.router == "variance":
            return variance_tree(X, self.n_leaves, self.min_rows, rng)
        classes = targets.Y[:, 0] if targets.Y.shape[1] == 1 else targets.Y.argmax(axis=1)
        weights = targets.C / self.C
        return class_tree(X, classes, self.n_leaves, self.min_rows, weights)

    def _teacher(self, X: np.ndarray, targets: Targets, function: RBF) -> "_Teacher":
        kernel = KernelMatrix(function, X)
        coef = _exact_coef(self, kernel, targets.Y, targets.C)
        support = np.flatnonzero(coef.any(axis=1))
        machine = KernelExpansion(
            kernel, support, coef[support], prediction_dtype(kernel, coef[support])
        )
        return _Teacher(machine, machine(X), coef, kernel.n_entries)

    def _decide(self, X: Any) -> np.ndarray:
        return self._machine(X)


class _Teacher(NamedTuple):
    """An exact machine, with its values and coefficients at some of the training rows."""

    machine: KernelExpansion
    values: np.ndarray  # (n, m)
    coef: np.ndarray  # (n, m)
    n_entries: int  # kernel values that it took

    def of(self, rows: np.ndarray) -> "_Teacher":
        return self._replace(values=self.values[rows], coef=self.coef[rows])


def _exact_coef(
    model: DCPredTrainedClassifier, kernel: KernelMatrix, Y: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """y_i a_i of the duals of Y : (n, m); (n, m)."""
    results = solve_problems(
        kernel, Y, C, tol=model.tol, cache_mb=model.cache_mb, max_iter=-1, shrinking=True
    )
    return Y * np.column_stack([result.alpha for result in results])


def _train_leaf(
    model: DCPredTrainedClassifier,
    X: np.ndarray,
    Y: np.ndarray,
    C: np.ndarray,
    function: RBF,
    teacher: _Teacher | None,
    n_features: int,
    seed: int,
) -> tuple[LandmarkMachine, int]:
    """The machine of a leaf, and the kernel values that it took; X : (n, d) float32."""
    kept = C > 0
    if not kept.any():
        return LandmarkMachine(np.zeros(Y.shape[1])), 0
    X, Y, C = X[kept], Y[kept], C[kept]
    split = Y.min(axis=0) < Y.max(axis=0)
    if teacher is not None and len(Y) >= LANES:
        # The machine of all rows may cross zero where the leaf's own rows do not show it.
        split[:] = True
    constant = np.where(split, 0.0, Y[0])
    if not split.any():
        return LandmarkMachine(constant), 0
    rng = np.random.RandomState(seed)
    features = varying_features(X, n_features)
    targets, weights, n_entries = Y[:, split], np.ones(len(Y)), 0
    if teacher is not None:
        targets, coef = teacher.values[kept][:, split], teacher.coef[kept][:, split]
    elif model.target == "leaf":
        kernel = KernelMatrix(function, X)
        coef = _exact_coef(model, kernel, targets, C)
        support = np.flatnonzero(coef.any(axis=1))
        targets = kernel.product(support, coef[support])
        n_entries = kernel.n_entries
    if model.target != "labels" and coef.any():
        weights = (coef**2).sum(axis=1)
    if teacher is not None and model.n_synthetic:
        size = int(np.ceil(model.n_synthetic * len(X)))
        chosen = rng.randint(len(X), size=size)
        noise = _NOISE * X.std(axis=0) * rng.normal(size=(size, X.shape[1]))
        added = (X[chosen] + noise).astype(np.float32)
        X, C = np.vstack([X, added]), np.concatenate([C, C[chosen]])
        targets = np.vstack([targets, teacher.machine(added)[:, split]])
        weights = np.concatenate([weights, np.zeros(size)])
    task = Task(X[:, features], np.clip(targets, -1.0, 1.0), C / C.mean(), weights, True)
    landmarks, gammas, trained, constants = train_leaf(
        task, function.gamma, model.n_landmarks, model.epochs, rng, seed
    )
    constant[split] = constants
    all_coef = np.zeros((len(landmarks), Y.shape[1]))
    all_coef[:, split] = trained
    return LandmarkMachine(constant, landmarks, gammas, all_coef, features), n_entries
