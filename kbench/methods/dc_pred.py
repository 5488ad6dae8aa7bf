"""DC-Pred++: divide-and-conquer kernel machines whose prediction costs a few dot products."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kbench.kernels import KernelMatrix
from kbench.methods._box_svc import solve_problems
from kbench.methods._landmark_leaves import LandmarkLeaves, LeafResult, approximation, expansion
from kbench.methods._new_rows import checked_rows
from kbench.methods._one_vs_rest import OneVsRest
from kbench.prediction.packing import LandmarkMachine
from kbench.solvers import solve_linear_dual
from kbench.trace import Trace


class DCPredClassifier(OneVsRest, LandmarkLeaves):
    """Support vector machine by leaves of a k-means tree, on few landmarks each (DC-Pred++).

    Algorithm 2 of the paper, for the Gaussian kernel:

        1. split the rows by hierarchical k-means into `n_leaves` leaves;
        2. solve each leaf's dual for its exact a (no intercept);
        3. landmarks: weighted k-means of the leaf's rows, with weights a_i^2;
        4. columns cb(x) of landmarks and pseudo landmarks, features phi(x) = cb(x) R with the
           best R (Algorithm 1, `kbench.approximation.pseudo_landmarks`); train a linear machine
           on them by dual coordinate descent.

    A new row goes down the tree and is judged by its leaf, at the price of the tree's distances,
    `n_landmarks` kernel values and the pseudo landmarks. A leaf of one class is constant; one with
    no more support vectors than landmarks keeps its exact machine. Several classes are taken
    one-vs-rest and share tree, landmarks and columns.

    Parameters
    ----------
    n_leaves : int, default=64
        K
    n_landmarks : int, default=16
        m, of each leaf. Multiples of 16 make the best use of the processor.
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}, default="monomials"
        Columns beside the kernel values: none; products c_i c_j; or the kernel at the lower, upper
        or both bounds of the triangle inequality for random rows of the leaf.
    n_pseudo : int or None, default=None
        p: how many products or rows. None is all m (m + 1) / 2 products, or m rows.
    landmarks : {"weighted", "kmeans", "support"}, default="weighted"
        "kmeans" leaves the weights out; "support" keeps the exact machine of the leaf.
    C : float, default=1.0
    gamma : float or {"scale", "auto"}, default="scale"
    branching : int, default=4
        Of the tree.
    n_samples : int, default=1000
        Rows of a leaf on which the kernel is approximated best; at least four for each column.
    error_rows : int, default=0
        Rows of a leaf on which the error of the approximation is measured, for `kernel_error_`.
    tol : float, default=1e-3
        Of the exact machines, as in `KernelSVC`.
    linear_tol : float, default=0.1
        Of the linear machines, as in `LLSVM`.
    max_iter : int, default=1000
        Passes of the linear machines.
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    target_cost : float or None, default=None
        Budget for a prediction, in predictions of a linear model on this machine. n_leaves,
        n_landmarks and whether there are pseudo landmarks are then chosen by measured cost and by
        validation on a fifth of the rows. Costs are measured: two fits may choose otherwise.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None
        Leaves trained at once, through joblib. The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    tree_ : KMeansTree
    labels_ : (n,) ints
        Leaf of each training row.
    n_leaves_, n_landmarks_ : int
        Leaves, and landmarks of all of them.
    n_iter_ : int
        Coordinate steps of the exact machines and passes of the linear ones.
    converged_ : bool
    kernel_entries_ : int
    kernel_error_ : float
        Relative Frobenius error of the approximate kernel within leaves; with one leaf, that of
        the kernel matrix. Absent where error_rows is 0 or nothing is approximated.
    n_parameters_, model_bytes_ : int
        Numbers that describe the machine; bytes that prediction keeps.
    prediction_flops_ : float
        Mean cost of a training row's prediction, in units of a linear model's; an exponential
        counts as ten multiplications.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster", "train", and of "choose" with `target_cost`.
    sizes_, cost_, choices_
        With `target_cost`: the parameters chosen, the measured cost, and (parameters, cost, score)
        of all that were compared.
    n_features_in_ : int

    Notes
    -----
    Training takes about 1 / K of the kernel values of the exact machine, and O(n (m + p) (m + p))
    for the factors. Prediction in float32: O(d b log_b K + m d + p) a row.

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
        "C": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "linear_tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "cache_mb": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        n_leaves: int = 64,
        *,
        n_landmarks: int = 16,
        pseudo: str = "monomials",
        n_pseudo: int | None = None,
        landmarks: str = "weighted",
        C: float = 1.0,
        gamma: float | str = "scale",
        branching: int = 4,
        n_samples: int = 1000,
        error_rows: int = 0,
        tol: float = 1e-3,
        linear_tol: float = 0.1,
        max_iter: int = 1000,
        cache_mb: float = 200.0,
        class_weight: dict | str | None = None,
        target_cost: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_leaves = n_leaves
        self.n_landmarks = n_landmarks
        self.pseudo = pseudo
        self.n_pseudo = n_pseudo
        self.landmarks = landmarks
        self.C = C
        self.gamma = gamma
        self.branching = branching
        self.n_samples = n_samples
        self.error_rows = error_rows
        self.tol = tol
        self.linear_tol = linear_tol
        self.max_iter = max_iter
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
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. The tree is grown without it.
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More leaves or landmarks than points, fewer than two classes, a `target_cost` that no
            router meets.
        """
        trace = Trace() if trace is None else trace
        if self.target_cost is not None:
            self._fit_within(self.target_cost, X, y, sample_weight, trace)
            return self
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            self._check_sizes(targets.X.shape[0])
        rng = check_random_state(self.random_state)
        self._fit_leaves(targets.X, (targets.Y, targets.C), targets.Y.shape[1], rng, trace)
        if not self.converged_:
            warnings.warn(
                f"linear machines of leaves stopped by max_iter={self.max_iter} before "
                f"linear_tol={self.linear_tol:g}; the model is usable",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _train_leaf(
        self,
        X: np.ndarray,
        kernel: KernelMatrix,
        rng: np.random.RandomState,
        targets: tuple[np.ndarray, ...],
    ) -> LeafResult:
        Y, C = targets
        if not np.any(C > 0):
            return LeafResult(LandmarkMachine(np.zeros(Y.shape[1])), 0, True, 0)
        low, high = Y[C > 0].min(axis=0), Y[C > 0].max(axis=0)
        constant = np.where(low == high, low, 0.0)
        open_ = low < high
        if not open_.any():
            return LeafResult(LandmarkMachine(constant), 0, True, 0)
        exact = solve_problems(
            kernel,
            Y[:, open_],
            C,
            tol=self.tol,
            cache_mb=self.cache_mb,
            max_iter=-1,
            shrinking=True,
        )
        coef = np.zeros(Y.shape)
        coef[:, open_] = Y[:, open_] * np.column_stack([result.alpha for result in exact])
        n_iter = sum(result.n_iter for result in exact)
        n_support = int(coef.any(axis=1).sum())
        if self.landmarks == "support" or n_support <= self.n_landmarks:
            machine = expansion(X, self.gamma_, coef, constant)
            return LeafResult(machine, n_iter, True, kernel.n_entries)
        columns = self._columns(X, coef, rng)
        values = columns(X)
        factor = self._factor(values, kernel, rng)
        features = np.ascontiguousarray(values @ factor)
        linear = solve_linear_dual(
            features,
            Y[:, open_],
            C,
            rng,
            tol=self.linear_tol,
            max_iter=self.max_iter,
        )
        beta = np.zeros((columns.n_columns, Y.shape[1]))
        beta[:, open_] = factor @ linear.coef
        entries = kernel.n_entries + len(X) * len(columns.landmarks)
        machine = approximation(columns, beta, constant)
        squares = self._squares(features, kernel, rng)
        return LeafResult(machine, n_iter + linear.n_iter, linear.converged, entries, *squares)

    def _decide(self, X: Any) -> np.ndarray:
        return self._machine(X)


class DCPredRegressor(RegressorMixin, LandmarkLeaves):
    """Kernel ridge regression by leaves of a k-means tree, on few landmarks each (DC-Pred++).

    As `DCPredClassifier`, with exact ridge regression a = (K + alpha I)^-1 y in each leaf and, on
    the features phi, w = (Phi'Phi + alpha I)^-1 Phi'y.

    Parameters
    ----------
    n_leaves : int, default=64
    n_landmarks : int, default=16
    pseudo : {"none", "monomials", "lower", "upper", "triangle"}, default="monomials"
    n_pseudo : int or None, default=None
    landmarks : {"weighted", "kmeans", "support"}, default="weighted"
        From `n_leaves` on as in `DCPredClassifier`; "support" keeps all rows.
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix.
    gamma : float or {"scale", "auto"}, default="scale"
    branching : int, default=4
    n_samples : int, default=1000
    error_rows : int, default=0
        As in `DCPredClassifier`.
    memory_mb : float, default=2048.0
        MiB that a leaf's kernel matrix may take; a larger leaf is refused.
    target_cost : float or None, default=None
        As in `DCPredClassifier`.
    random_state : int, RandomState or None, default=None
    n_jobs : int or None, default=None

    Attributes
    ----------
    tree_, labels_, n_leaves_, n_landmarks_, kernel_entries_, kernel_error_, n_parameters_, \
model_bytes_, prediction_flops_, timings_, sizes_, cost_, choices_
        As in `DCPredClassifier`.
    n_features_in_ : int

    Notes
    -----
    O(n_leaf^3) time and 8 n_leaf^2 bytes for the exact machine of a leaf; prediction as in
    `DCPredClassifier`.

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
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "memory_mb": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_leaves: int = 64,
        *,
        n_landmarks: int = 16,
        pseudo: str = "monomials",
        n_pseudo: int | None = None,
        landmarks: str = "weighted",
        alpha: float = 1.0,
        gamma: float | str = "scale",
        branching: int = 4,
        n_samples: int = 1000,
        error_rows: int = 0,
        memory_mb: float = 2048.0,
        target_cost: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_leaves = n_leaves
        self.n_landmarks = n_landmarks
        self.pseudo = pseudo
        self.n_pseudo = n_pseudo
        self.landmarks = landmarks
        self.alpha = alpha
        self.gamma = gamma
        self.branching = branching
        self.n_samples = n_samples
        self.error_rows = error_rows
        self.memory_mb = memory_mb
        self.target_cost = target_cost
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Grow the tree and train its leaves.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,)
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More leaves or landmarks than points, a leaf whose kernel matrix exceeds `memory_mb`, a
            `target_cost` that no router meets.
        """
        trace = Trace() if trace is None else trace
        if self.target_cost is not None:
            self._fit_within(self.target_cost, X, y, None, trace)
            return self
        with trace.phase("prepare"):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True
            )
            self._check_sizes(X.shape[0])
        rng = check_random_state(self.random_state)
        self._fit_leaves(X, (np.asarray(y, np.float64),), 1, rng, trace)
        return self

    def _train_leaf(
        self,
        X: np.ndarray,
        kernel: KernelMatrix,
        rng: np.random.RandomState,
        targets: tuple[np.ndarray, ...],
    ) -> LeafResult:
        (y,) = targets
        mebibytes = 8.0 * len(y) ** 2 / 2**20
        if mebibytes > self.memory_mb:
            raise ValueError(
                f"a leaf has {len(y)} rows, whose kernel matrix takes {mebibytes:.0f} MiB, more "
                f"than memory_mb={self.memory_mb:g}; use more leaves than n_leaves="
                f"{self.n_leaves}"
            )
        exact = kernel.astype(np.float64)
        gram = exact.block(np.arange(len(y)))
        gram[np.diag_indices_from(gram)] += self.alpha
        coef = scipy.linalg.solve(gram, y, assume_a="pos", overwrite_a=True)[:, None]
        constant = np.zeros(1)
        n_support = np.count_nonzero(coef)
        if self.landmarks == "support" or n_support <= self.n_landmarks:
            return LeafResult(expansion(X, self.gamma_, coef, constant), 0, True, exact.n_entries)
        columns = self._columns(X, coef, rng)
        values = columns(X)
        factor = self._factor(values, kernel, rng)
        features = values @ factor
        normal = features.T @ features
        normal[np.diag_indices_from(normal)] += self.alpha
        beta = factor @ scipy.linalg.solve(normal, features.T @ y, assume_a="pos")
        entries = exact.n_entries + len(X) * len(columns.landmarks)
        machine = approximation(columns, beta[:, None], constant)
        return LeafResult(machine, 0, True, entries, *self._squares(features, kernel, rng))

    def predict(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) array or CSR; (u,) float64."""
        X = checked_rows(self, X)
        return self._machine(X)[:, 0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
