"""nu-support vector regression, solved exactly; it replaces `sklearn.svm.NuSVR`."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels import Kernel, KernelMatrix
from kbench.methods.exact.dual_regression import DualRegression
from kbench.methods.exact.exact_dual import DualSolution
from kbench.methods.exact.interior import Dual
from kbench.methods.exact.svc_conventions import SVC_C_CONSTRAINT
from kbench.methods.exact.to_sklearn import ConvertsToSklearn
from kbench.solvers.nu_dual.nu_descent import solve_nu_dual
from kbench.trace import Deadline, Trace
from kbench.validated import real


@dataclass(eq=False, repr=False)
class KernelNuSVR(ConvertsToSklearn, DualRegression):
    """nu-support vector regression.

    Minimises 1/2 ||f||^2 + sum_i C_i (nu epsilon + max(0, |y_i - f(x_i) - b| - epsilon)) over f, b
    and epsilon >= 0, the problem of `sklearn.svm.NuSVR`, whose parameters have the same meaning
    here, through its dual

        min_b  1/2 b'Kb - y'b,   |b_i| <= C_i,   sum b = 0,   sum |b| <= nu sum C.

    At most a fraction nu of the training rows (by weight) is then outside the tube of half-width
    epsilon, and at least a fraction nu are support vectors, unless epsilon is 0. The model is that
    of `KernelSVR` with this epsilon.

    Parameters
    ----------
    nu : float, default=0.5
        In (0, 1]. The default is scikit-learn's.
    C : float, default=1.0
        Upper bound of |b_i|, multiplied by the weight of the row.
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    shrinking : bool, default=True
        No effect; `NuSVR` has this parameter.
    tol : float, default=1e-3
        Violation at which to stop, in units of y.
    cache_size : float, default=1000.0
    verbose : bool, default=False
    max_iter : int, default=-1
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        Parameters from `kernel` on have the same meaning as in `KernelNuSVC`, unless stated here.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube.
    support_, support_vectors_, dual_coef_, intercept_, coef_, n_support_, n_iter_, fit_status_
        As in `KernelSVR`.
    shape_fit_, objective_, violation_, duality_gap_, converged_, kernel_entries_, notes_
        As in `KernelSVR`.
    timings_, model_bytes_, n_features_in_
        As in `KernelSVR`.

    Notes
    -----
    The solver and its cost are those of `KernelNuSVC`; it starts from b = 0.

    References: B. Schoelkopf, A. Smola, R. Williamson, P. Bartlett, "New support vector
    algorithms", Neural Computation 2000.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelNuSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> KernelNuSVR(nu=0.5, C=100.0).fit(X, y).score(X, y) > 0.5
    True
    """

    _sklearn_class: ClassVar[str] = "NuSVR"
    sees_unweighted_rows: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **DualRegression._parameter_constraints,
        "C": SVC_C_CONSTRAINT,
        "nu": [real(0.0, 1.0, closed="right")],
    }
    fit_intercept = True  # fixed, as in `NuSVR`

    _: KW_ONLY
    nu: float = 0.5
    C: float = 1.0

    def _duals(self, y: np.ndarray, C: np.ndarray) -> list[Dual]:
        return [Dual(np.arange(len(y)), y, -C, C)]

    def _solve(
        self,
        X: Any,
        kernel: Kernel,
        duals: Sequence[Dual],
        trace: Trace,
        coupled: bool,
        start: np.ndarray | None,
        tol: float,
    ) -> tuple[list[DualSolution], KernelMatrix | None]:
        (dual,), matrix = duals, KernelMatrix(kernel, X, self.dtype)
        result = solve_nu_dual(
            matrix,
            dual.z,
            dual.lower,
            dual.upper,
            self.nu * float(dual.upper.sum()),
            tol=tol,
            cache_mb=self.cache_size,
            max_iter=self.max_iter,
            max_time=Deadline(self.max_time, trace).seconds_left(),
            trace=trace,
        )
        self.epsilon_ = result.epsilon
        self.kernel_entries_ = matrix.n_entries
        return [DualSolution.of(result)], matrix
