"""nu-support vector classifier, solved exactly; it replaces `sklearn.svm.NuSVC`."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kbench.errors import warn
from kbench.kernels import KernelMatrix
from kbench.methods.base.weights import relative_weights
from kbench.methods.exact.exact_svc import ExactSVC
from kbench.methods.exact.kernel_svc_fit import Solution, TrainingSet
from kbench.solvers.nu_dual.pairs import solve_nu_pairs
from kbench.trace import Deadline, Trace
from kbench.validated import real

# Guard: nu may exceed the largest feasible value by this fraction of it, because the sums of the
# weights have rounding errors.
_NU_SLACK = 1e-12


@dataclass(eq=False, repr=False)
class KernelNuSVC(ExactSVC):
    """nu-support vector classifier.

    Minimises 1/2 ||f||^2 + sum_i w_i max(0, rho - y_i (f(x_i) + b)) - nu W rho over f, b and rho.
    Here w_i is the weight of row i, by default 1, and W the sum of the weights. This is the problem
    of `sklearn.svm.NuSVC`, and parameters have the same meaning as there. The dual is solved:

        min_a  1/2 a'Qa,   0 <= a_i <= w_i,   y'a = 0,   sum a = nu W,   Q_ij = y_i y_j k(x_i, x_j).

    At most a fraction nu of the training rows (by weight) then has a margin y (f + b) below rho,
    and at least a fraction nu are support vectors. The solution f and b is divided by rho, so that
    the margin is 1 and the model is that of `KernelSVC` with C = 1 / rho.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1], and at most twice the smaller class's fraction of the rows of each pair.
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    shrinking : bool, default=True
        Whether the solver starts from the solutions of random subsets of the rows.
    probability : bool, default=False
    tol : float, default=1e-3
        Violation at which to stop, in units of f before it is divided by rho, as in `NuSVC`, for
        weights of mean 1. If rho is then at most half of the violation, the solver continues with
        smaller tolerances, down to tol / 100, for at most as many further steps as before (10,000
        if that is more). It does not continue if equal rows of both classes make rho 0.
    cache_size : float, default=1000.0
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows; `NuSVC` ignores this parameter. "balanced" makes every nu
        feasible.
    verbose : bool, default=False
    max_iter : int, default=-1
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
    break_ties : bool, default=False
    random_state : int, RandomState or None, default=None
        Seed of the folds for `probability`.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        Problems of at most 1,024 rows are solved in float64. This parameter and all others from
        `kernel` on have the same meaning as in `KernelSVC`, unless stated here.

    Attributes
    ----------
    margin_ : (n_pairs,)
        rho of each pair of classes, by which `dual_coef_` and `intercept_` are divided:
        `KernelSVC` with C = 1 / rho has this solution.
    objective_, duality_gap_, violation_ : float
        As in `KernelSVC`, but of the dual above for weights of mean 1, before the division.
    classes_, class_weight_, support_, support_vectors_, dual_coef_, intercept_, coef_, n_support_
        As in `KernelSVC`.
    n_iter_, fit_status_, shape_fit_, converged_, kernel_entries_, notes_, timings_, model_bytes_
        As in `KernelSVC`.
    n_features_in_ : int

    Notes
    -----
    `kbench.solvers.nu_dual` solves each pair of classes. A working set of q rows takes n q kernel
    values, and O(q) time for each step. If n_free of n rows are free, working sets grow to 2 n_free
    rows, as far as their matrix of 4 n_free^2 values fits into half of `cache_size`. If the steps
    among at most 1,024 rows take longer than the interior-point method, that method solves the
    problem, and the steps continue from its optimum.

    A model whose margin rho is at most half of its violation is divided by half of the violation
    instead, and a ConvergenceWarning says so. `NuSVC` divides by a negative rho, too, which
    reverses its predictions. That happens with kernels that are not positive semidefinite
    ("sigmoid"), whose dual has several local minima: `NuSVC` and this class may return different
    ones.

    References: B. Schoelkopf, A. Smola, R. Williamson, P. Bartlett, "New support vector
    algorithms", Neural Computation 2000; C.-C. Chang, C.-J. Lin, "Training nu-support vector
    classifiers", Neural Computation 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kbench.methods import KernelNuSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> KernelNuSVC(nu=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    _sklearn_class: ClassVar[str] = "NuSVC"
    _parameter_constraints: ClassVar[dict] = {
        **ExactSVC._parameter_constraints,
        "nu": [real(0.0, 1.0, closed="right")],
    }
    # The problem has no C: the upper bound of a coefficient is the weight of its row.
    C: ClassVar[float] = 1.0

    _: KW_ONLY
    nu: float = 0.5
    probability: bool = False
    class_weight: dict | str | None = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None

    def _solve(
        self, data: TrainingSet, deadline: Deadline, trace: Trace
    ) -> tuple[Solution, KernelMatrix | None]:
        matrix = data.matrix(self.dtype)
        # `tol` is in units of the function for weights of mean 1.
        bounds = relative_weights(data.C)
        mean_weight = float(data.C.max() / bounds.max())
        pairs = np.array(self._pairs if self._takes_pairs else [(1, 0)])
        result = solve_nu_pairs(
            matrix,
            data.labels,
            bounds,
            self._coef_norms(bounds, data.labels, pairs),
            pairs,
            deadline=deadline,
            trace=trace,
            tol=self.tol,
            cache_mb=self.cache_size,
            max_iter=self.max_iter,
            shrinking=self.shrinking,
        )
        # The solver's epsilon is minus the margin.
        rho = np.maximum(-result.epsilon, 0.5 * result.violation)
        # Margin and violation are 0 if all rows are equal, for example; any rho is then optimal.
        rho[rho == 0.0] = 1.0
        self.margin_ = mean_weight * rho
        # As in `dual_coef_` of `SVC`, a row of class a has one coefficient for each pair of a with
        # another class, in the order of these classes.
        rho_of_coef, (a, b) = np.ones((len(result.coef), len(self.classes_))), pairs.T
        rho_of_coef[b - (b > a), a] = rho_of_coef[a - (a > b), b] = rho
        solution = Solution(len(pairs), result.coef / rho_of_coef[:, data.labels])
        solution.record(np.arange(len(pairs)), replace(result, intercept=result.intercept / rho))
        solution.reasons = result.stop_reason
        return solution, matrix

    def _coef_norms(self, bounds: np.ndarray, labels: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """nu W of pairs of classes: the 1-norm of their coefficients, half of it for each class."""
        # NumPy's sums have smaller rounding errors than `np.bincount`, which adds in order.
        class_sums = np.array([bounds[labels == c].sum() for c in range(len(self.classes_))])
        total, max_norms = class_sums[pairs].sum(axis=1), 2.0 * class_sums[pairs].min(axis=1)
        infeasible = np.flatnonzero(self.nu * total > (1.0 + _NU_SLACK) * max_norms)
        if len(infeasible):
            p = infeasible[0]
            a, b = self.classes_[pairs[p]]
            raise ValueError(
                f"specified nu is infeasible: nu={self.nu:g} is above "
                f"{max_norms[p] / total[p]:.6g}, twice the smaller class's fraction (by weight) of "
                f"the rows of classes {a} and {b}; "
                "class_weight='balanced' makes every nu feasible"
            )
        norms: np.ndarray = np.minimum(self.nu * total, max_norms)
        return norms

    def _warn(self, reasons: set[str]) -> None:
        if "margin" in reasons:
            warn(
                f"nu={self.nu:g} leaves no margin above half of a violation of "
                f"{self.violation_:.2g}: with this kernel more rows must be on the wrong side of "
                "a margin; use a larger nu or another kernel",
                ConvergenceWarning,
            )
        super()._warn(reasons - {"margin"})
