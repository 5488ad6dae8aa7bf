"""Support vector regression with the epsilon-insensitive loss, solved exactly."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from kbench.methods.exact.dual_regression import DualRegression
from kbench.methods.exact.interior import Dual
from kbench.methods.exact.svc_conventions import SVC_C_CONSTRAINT
from kbench.methods.exact.to_sklearn import ConvertsToSklearn
from kbench.validated import NOT_NEGATIVE


@dataclass(eq=False, repr=False)
class KernelSVR(ConvertsToSklearn, DualRegression):
    """Epsilon-support vector regression.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon), the problem of
    `sklearn.svm.SVR`, whose parameters have the same meaning here, through its dual

        min_beta  1/2 beta'K beta - y'beta + epsilon |beta|_1,   |beta_i| <= C_i,

    with sum beta = 0 if there is an intercept b.

    Parameters
    ----------
    C : float, default=1.0
        Upper bound of the dual variables, multiplied by the weight of the row; inf as in
        `KernelSVC`.
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    tol : float, default=1e-3
        Violation at which to stop, in units of y.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing. The default is scikit-learn's.
    shrinking : bool, default=True
    cache_size : float, default=1000.0
    verbose : bool, default=False
    max_iter : int, default=-1
    fit_intercept : bool, default=True
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        All parameters from `kernel` on have the same meaning as in `KernelSVC`, unless stated here.

    Attributes
    ----------
    support_ : (n_sv,) ints
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (1, n_sv) array, CSR if the rows were
        beta.
    intercept_ : (1,)
    coef_ : (1, d)
        Weights of the features, only with kernel="linear".
    n_support_ : (1,) ints
    n_iter_ : int
    fit_status_ : int
        0 if the problem was solved to `tol`, else 1 (and a ConvergenceWarning).
    shape_fit_ : tuple
    objective_, violation_, duality_gap_ : float
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`.
    notes_ : tuple of str
        Whether the interior-point method was used.
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    Solvers are those of `KernelSVC`, but with an intercept the small-problem solver takes up to
    3,000 rows (500 if most columns have two values). Memory is `cache_size` and O(n d).

    The defaults of C and epsilon, those of `SVR`, do not follow the scale of y or of the features,
    so that the model can be worse than a linear model (wine: RMSE 0.80 against 0.72);
    `TunedKernelSVR` chooses both, and standardises.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelSVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    _sklearn_class: ClassVar[str] = "SVR"
    sees_unweighted_rows: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **DualRegression._parameter_constraints,
        "C": SVC_C_CONSTRAINT,
        "epsilon": [NOT_NEGATIVE],
        "fit_intercept": ["boolean"],
    }

    C: float = 1.0
    _: KW_ONLY
    epsilon: float = 0.1
    fit_intercept: bool = True

    def _duals(self, y: np.ndarray, C: np.ndarray) -> list[Dual]:
        return [Dual(np.arange(len(y)), y, -C, C, self.epsilon)]
