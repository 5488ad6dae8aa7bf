"""Base class of the diagnostics of the two-class dual without intercept; the dual's objective."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags

from kbench.intrinsics.products import matmul
from kbench.kernels.constraints import KernelParameters
from kbench.methods.base.box_svc import BoxClassifier, BoxSVC, KernelProblems
from kbench.methods.exact.kernel_svc import KernelSVC
from kbench.solvers.box_dual.split import independent_groups
from kbench.trace import Trace
from kbench.validated import POSITIVE, fit_context

# Kernel values between groups of support vectors are left out if that changes the objective by less
# than this multiple of sum a: a larger multiple saves more kernel values and loses digits. This one
# is far below every tolerance of the solvers. Set by hand.
_NEGLECTED_CHANGE = 1e-9
# Parameters that a diagnostic passes on to the models that it compares.
_MODEL_PARAMETERS = ("C", "kernel", "gamma", "degree", "coef0", "tol", "cache_mb")


@dataclass(eq=False, repr=False, kw_only=True)
class TwoClassDiagnostic(KernelParameters, BoxSVC):
    """Base class of the diagnostics, which predict with a fitted model."""

    _parameter_constraints: ClassVar[dict] = {
        name: BoxClassifier._parameter_constraints[name] for name in _MODEL_PARAMETERS
    } | {"C": [POSITIVE]}
    C: float = 1.0
    cache_mb: float = 200.0
    random_state: Any = None
    class_weight = None
    dtype = "float64"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit the model and take the measurements of the class.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels of two classes
        trace : Trace, optional
            Receives the phases and the values that the class documents.

        Returns
        -------
        self
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            problem = self._problem(X, y, None)
            if len(self.classes_) > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass: y has {len(self.classes_)} classes."
                )
        self._measure(problem, y, trace)
        self.timings_ = dict(trace.timings)
        return self

    @abstractmethod
    def _measure(self, problem: KernelProblems, y: Any, trace: Trace) -> None:
        """Set the fitted attributes of the class."""

    def _model_parameters(self) -> dict[str, Any]:
        """Parameters with which every compared model is fitted."""
        return {"dtype": self.dtype, **{name: getattr(self, name) for name in _MODEL_PARAMETERS}}

    def _copy_fitted_attributes(self, model: BoxSVC) -> None:
        """Copy the fitted attributes of a model, so that this estimator predicts with it."""
        fitted_attributes = {
            name: value
            for name, value in vars(model).items()
            if name.endswith("_") or name == "_machine"
        }
        self.__dict__.update(fitted_attributes)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def exact_svc(*, cache_mb: float, **parameters: Any) -> KernelSVC:
    """The exact model without intercept; `cache_mb` is `cache_size` of `KernelSVC`."""
    return KernelSVC(fit_intercept=False, cache_size=cache_mb, **parameters)


def true_objective(problem: KernelProblems, alpha: np.ndarray) -> float:
    """f(a) = 1/2 a'Qa - e'a for the kernel itself, alpha : (n,).

    O(s^2 d) for s nonzero entries of a; less if they fall into groups with negligible kernel values
    between them, which costs an error below 1e-9 sum a.
    """
    rows = np.flatnonzero(alpha)
    if not len(rows):
        return 0.0
    coef = alpha[rows] * problem.Y[rows, 0]
    alpha_sum = float(alpha.sum())
    kernel = problem.kernel.take(rows)
    quadratic_form = 0.0
    for group in independent_groups(kernel, alpha_sum, _NEGLECTED_CHANGE) or [np.arange(len(rows))]:
        products = kernel.take(group).product(np.arange(len(group)), coef[group])
        quadratic_form += float(matmul(coef[group], products))
    return 0.5 * quadratic_form - alpha_sum
