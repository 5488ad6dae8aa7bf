"""DC-Pred++: divide-and-conquer kernel machines whose prediction costs a few inner products.

Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel Machines" (NIPS 2014), Algorithm 2.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods.base.box_svc import solve_problems
from kbench.methods.base.limits import limit_text
from kbench.methods.base.new_rows import checked_rows
from kbench.methods.base.one_vs_rest import WeightedOneVsRest
from kbench.methods.base.penalty import ALPHA_CONSTRAINT, C_CONSTRAINT, chosen_alpha
from kbench.methods.fast_prediction.landmark_leaves import (
    LandmarkLeaves,
    LeafResult,
    approximate_machine,
    exact_machine,
)
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.solvers import solve_linear_dual
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, TakesSparseRows, fit_context, usual, validate_data


@dataclass(kw_only=True, eq=False, repr=False)
class DCPredClassifier(WeightedOneVsRest, LandmarkLeaves):
    """Support vector machine by leaves of a k-means tree, on few landmarks each (DC-Pred++).

    Algorithm 2 of the paper, for the Gaussian kernel:

        1. split the rows by hierarchical k-means into `n_leaves` leaves;
        2. solve each leaf's dual for its exact a (no intercept);
        3. landmarks: weighted k-means of the leaf's rows, with weights a_i^2;
        4. compute columns cb(x) of landmarks and pseudo landmarks, features phi(x) = cb(x) R with
           the best R (Algorithm 1, `kbench.approximation.landmarks.pseudo_landmarks`); train a
           linear model on phi by dual coordinate descent.

    A new row goes down the tree and is evaluated by the model of its leaf, at the cost of the
    distances in the tree, `n_landmarks` kernel values and the pseudo landmarks. A leaf with one
    class is constant; a leaf with at most `n_landmarks` support vectors keeps its exact model.
    More than two classes are one-vs-rest and share tree, landmarks and columns.

    Parameters
    ----------
    n_leaves : int or None, default=None
        Number of leaves K; fewer if rows coincide. None: one for each 500 rows, at most 64, but one
        for each 8,000 of more than 512,000 rows.
    n_landmarks : int, default=16
        Landmarks m of each leaf. Multiples of 16 use the vector registers best. Set by hand.
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}, default="monomials"
        Columns besides the kernel values: none, products c_i c_j, or kernel values at the lower,
        the upper or both bounds of the triangle inequality for distances to random rows.
    n_pseudo : int or None, default=None
        Number p of products or rows. None is m rows, or at most m (m + 1) / 2 random products, as
        many as leave the leaf 4 training rows for each column: with fewer rows they overfit. The
        paper samples p products and does not say how many.
    landmarks : {"weighted", "kmeans", "support"}, default="weighted"
        "kmeans" omits the weights; "support" keeps the exact model of each leaf.
    C : float or "loo", default=1.0
    gamma : float or {"scale", "auto"}, default="scale"
        As in `KernelSVC`.
    branching : int, default=4
        Children of a node of the tree. Set by hand.
    n_samples : int, default=1000
        Rows of a leaf from which R is computed, at least four for each column. Set by hand.
    error_rows : int, default=0
        Rows of a leaf on which the error of the approximation is measured, for `kernel_error_`.
    tol : float, default=1e-3
        Tolerance of the exact models, as in `KernelSVC`.
    linear_tol : float, default=0.1
        Tolerance of the linear models, as in `LLSVM`.
    max_iter : int, default=1000
        Largest number of passes of the linear models, as in scikit-learn's `LinearSVC`.
    max_time : float or None, default=None
        As in `KernelSVC`, for the exact and the linear models of all leaves together.
    cache_mb : float, default=200.0
        As `cache_size` of `KernelSVC`.
    class_weight, probability
        As in `KernelSVC`.
    target_cost : float or None, default=None
        Largest cost of a prediction, in predictions of a linear model on this computer. n_leaves,
        n_landmarks and whether there are pseudo landmarks are then chosen by measured cost and by
        validation on a fifth of the rows. Measured costs vary, so two fits may differ.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Leaves trained at the same time, by joblib; the result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    tree_ : KMeansTree
        Of the rows, minus their mean if this is more than 16 standard deviations from 0.
    labels_ : (n,) ints
        Leaf of each training row.
    n_leaves_, n_landmarks_ : int
        Number of leaves, and of the landmarks of all leaves.
    n_iter_ : int
        Coordinate steps of the exact models and passes of the linear models.
    converged_ : bool
    kernel_entries_ : int
    kernel_error_ : float
        Relative Frobenius error of the approximate kernel within leaves. Absent if error_rows is
        0 or no leaf is approximated.
    n_parameters_, model_bytes_ : int
        Numbers that describe the model, and bytes that prediction keeps.
    prediction_flops_ : float
        Mean cost of predicting a training row, in units of a linear model's prediction; an
        exponential counts as ten multiplications.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster", "train", and of "choose" with `target_cost`.
    sizes_, cost_, choices_
        With `target_cost`: the chosen parameters, their measured cost, and (parameters, cost,
        score) of all candidates.
    n_features_in_ : int

    Notes
    -----
    Training takes about 1 / K of the kernel values of the exact model, and O(n (m + p)^2) time
    for the factors R. Prediction takes O(d b log_b K + m d + p) time a row for branching b, in
    float32.

    A leaf sees n / K rows through a small number of landmarks. With leaves of 500 rows of many
    features, accuracy can be one percentage point below that of a linear model of all rows (a9a:
    4,000 rows, 82.4 % against 83.5 %).

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "Fast Prediction for Large-Scale Kernel Machines", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import DCPredClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCPredClassifier(4, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    _checks_finite = False
    _parameter_constraints: ClassVar[dict] = {
        **LandmarkLeaves._parameter_constraints,
        "C": C_CONSTRAINT,
        "linear_tol": [POSITIVE],
        **usual("tol", "max_iter", "max_time", "cache_mb", "class_weight", "probability"),
    }

    C: float | str = 1.0
    tol: float = 1e-3
    linear_tol: float = 0.1
    max_iter: int = 1000
    cache_mb: float = 200.0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Factors of C for each row. The tree does not depend on them.
        trace : Trace, optional
            Receives the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Fewer than two classes, a `target_cost` below that of the smallest model, or features
            whose squared distances leave the range of float32.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        if self.target_cost is not None:
            self._fit_within_cost(self.target_cost, X, y, sample_weight, trace)
            return self
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            self._warn_of_sizes(targets.X.shape[0])
        rng = check_random_state(self.random_state)
        in_time = self._fit_leaves(
            targets.X, (targets.Y, targets.C), targets.Y.shape[1], rng, trace, deadline
        )
        if not self.converged_:
            reason = "max_iter" if in_time else "max_time"
            models = "linear models" if in_time else "models"
            warn(
                f"{models} of leaves stopped by {limit_text(self, reason)} before "
                f"linear_tol={self.linear_tol:g}; "
                "the model is no worse than a constant",
                ConvergenceWarning,
            )
        self._calibrate(targets.X, y, sample_weight, trace, deadline)
        return self

    def _train_leaf(
        self,
        X: np.ndarray,
        kernel: KernelMatrix,
        rng: np.random.RandomState,
        targets: tuple[np.ndarray, ...],
        max_time: float | None,
    ) -> LeafResult:
        deadline = Deadline(max_time, Trace())
        Y, C = targets
        if not np.any(C > 0):
            return LeafResult(LandmarkMachine(np.zeros(Y.shape[1])), 0, True, 0)
        low, high = Y[C > 0].min(axis=0), Y[C > 0].max(axis=0)
        constant = np.where(low == high, low, 0.0)
        has_two_classes = low < high
        if not has_two_classes.any():
            return LeafResult(LandmarkMachine(constant), 0, True, 0)
        exact_results = solve_problems(
            kernel,
            Y[:, has_two_classes],
            C,
            tol=self.tol,
            cache_mb=self.cache_mb,
            max_iter=-1,
            max_time=deadline.seconds_left(),
            shrinking=True,
        )
        in_time = all(result.stop_reason != "max_time" for result in exact_results)
        coef = np.zeros(Y.shape)
        coef[:, has_two_classes] = Y[:, has_two_classes] * np.column_stack(
            [result.alpha for result in exact_results]
        )
        n_iter = sum(result.n_iter for result in exact_results)
        n_support = int(coef.any(axis=1).sum())
        if self.landmarks == "support" or n_support <= self.n_landmarks:
            machine = exact_machine(X, self.gamma_, coef, constant)
            return LeafResult(machine, n_iter, in_time, kernel.n_entries, in_time=in_time)
        columns = self._columns(X, coef, rng)
        values = columns(X)
        factor = self._factor(values, kernel, rng)
        features = np.ascontiguousarray(matmul(values, factor))
        linear = solve_linear_dual(
            features,
            Y[:, has_two_classes],
            C,
            rng,
            tol=self.linear_tol,
            max_iter=self.max_iter,
            max_time=deadline.seconds_left(),
        )
        beta = np.zeros((columns.n_columns, Y.shape[1]))
        beta[:, has_two_classes] = matmul(factor, linear.coef)
        entries = kernel.n_entries + len(X) * len(columns.landmarks)
        machine = approximate_machine(columns, beta, constant)
        error_and_norm = self._squared_error_and_norm(features, kernel, rng)
        in_time &= linear.stop_reason != "max_time"
        converged = in_time and linear.converged
        n_iter += linear.n_iter
        return LeafResult(machine, n_iter, converged, entries, *error_and_norm, in_time)

    def _regions(self, X: Any) -> np.ndarray:
        return self._machine.assign(self._rows_to_predict(X))


@dataclass(kw_only=True, eq=False, repr=False)
class DCPredRegressor(TakesSparseRows, RegressorMixin, LandmarkLeaves):
    """Kernel ridge regression by leaves of a k-means tree, on few landmarks each (DC-Pred++).

    `DCPredClassifier` with exact ridge regression a = (K + alpha I)^-1 y in each leaf, and
    w = (Phi'Phi + alpha I)^-1 Phi'y on its features phi.

    Parameters
    ----------
    n_leaves, n_landmarks, pseudo, n_pseudo, landmarks, gamma, branching, n_samples, error_rows, \
target_cost, random_state, n_jobs
        As in `DCPredClassifier`; landmarks="support" keeps all rows.
    alpha : float or "loo", default="loo"
        Added to the diagonal of the kernel matrix.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    memory_mb : float, default=2048.0
        Largest kernel matrix of a leaf, in MiB; larger leaves are refused. Set by hand.
    fit_intercept : bool, default=False
        As in `KernelRidge`.

    Attributes
    ----------
    tree_, labels_, n_leaves_, n_landmarks_, kernel_entries_, kernel_error_, n_parameters_, \
model_bytes_, prediction_flops_, timings_, sizes_, cost_, choices_
        As in `DCPredClassifier`.
    n_features_in_ : int

    Notes
    -----
    O(n_leaf^3) time and 8 n_leaf^2 bytes for the exact model of a leaf. Prediction costs as much
    as that of `DCPredClassifier`.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "Fast Prediction for Large-Scale Kernel Machines", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import DCPredRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DCPredRegressor(2, alpha=0.1, gamma=1.0, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **LandmarkLeaves._parameter_constraints,
        "alpha": ALPHA_CONSTRAINT,
        "fit_intercept": ["boolean", None],
        "memory_mb": [POSITIVE],
    }

    alpha: float | str = "loo"
    memory_mb: float = 2048.0
    fit_intercept: bool = False

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,)
        trace : Trace, optional
            Receives the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A leaf whose kernel matrix exceeds `memory_mb`, a `target_cost` below that of the
            smallest model, or features whose squared distances leave the range of float32.
        """
        trace = Trace() if trace is None else trace
        if self.target_cost is not None:
            self._fit_within_cost(self.target_cost, X, y, None, trace)
            return self
        with trace.phase("prepare"):
            X, y = validate_data(self, X, y, y_numeric=True)
            self._warn_of_sizes(X.shape[0])
        rng = check_random_state(self.random_state)
        y = np.asarray(y, np.float64)
        if self.fit_intercept:
            self.intercept_ = float(y.mean())
            y = y - self.intercept_
        with trace.phase("prepare"):
            self.alpha_ = chosen_alpha(
                self.alpha, lambda: make_kernel("rbf", X, gamma=self.gamma), X, y[:, None]
            )
        self._fit_leaves(X, (y,), 1, rng, trace)
        return self

    def _train_leaf(
        self,
        X: np.ndarray,
        kernel: KernelMatrix,
        rng: np.random.RandomState,
        targets: tuple[np.ndarray, ...],
        max_time: float | None,
    ) -> LeafResult:
        (y,) = targets
        mebibytes = 8.0 * len(y) ** 2 / 2**20
        if mebibytes > self.memory_mb:
            raise ValueError(
                f"a leaf has {len(y)} rows, whose kernel matrix takes {mebibytes:.0f} MiB, more "
                f"than memory_mb={self.memory_mb:g}; increase n_leaves"
            )
        float64_kernel = kernel.astype(np.float64)
        gram = float64_kernel.block(np.arange(len(y)))
        gram[np.diag_indices_from(gram)] += self.alpha_
        coef = scipy.linalg.solve(gram, y, assume_a="pos", overwrite_a=True)[:, None]
        constant = np.zeros(1)
        n_support = np.count_nonzero(coef)
        if self.landmarks == "support" or n_support <= self.n_landmarks:
            return LeafResult(
                exact_machine(X, self.gamma_, coef, constant), 0, True, float64_kernel.n_entries
            )
        columns = self._columns(X, coef, rng)
        values = columns(X)
        factor = self._factor(values, kernel, rng)
        features = matmul(values, factor)
        normal_matrix = matmul(features.T, features)
        normal_matrix[np.diag_indices_from(normal_matrix)] += self.alpha_
        beta = matmul(
            factor, scipy.linalg.solve(normal_matrix, matmul(features.T, y), assume_a="pos")
        )
        entries = float64_kernel.n_entries + len(X) * len(columns.landmarks)
        machine = approximate_machine(columns, beta[:, None], constant)
        return LeafResult(
            machine, 0, True, entries, *self._squared_error_and_norm(features, kernel, rng)
        )

    def predict(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u,) float64."""
        X = checked_rows(self, X)
        return self._machine(X)[:, 0] + getattr(self, "intercept_", 0.0)
