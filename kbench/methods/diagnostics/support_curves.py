"""Diagnostic: how the support vectors of a solver converge to those of the exact model.

Figures 2 and 3 of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
Machines" (ICML 2014).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from kbench.methods.base.box_svc import BoxSVC, KernelProblems, Start
from kbench.methods.diagnostics.diagnostic import TwoClassDiagnostic, exact_svc, true_objective
from kbench.methods.divide.cascade_svc import CascadeSVC
from kbench.methods.divide.dc_svc import DCSVC
from kbench.methods.exact.kernel_svc import KernelSVC
from kbench.solvers.box_dual.shrinking import shrinking_descent
from kbench.trace import Trace
from kbench.validated import choice


def _dcsvm(random_state: Any, **options: Any) -> BoxSVC:
    """`DCSVC` with four levels of 256, 64, 16 and 4 clusters, then the whole problem."""
    return DCSVC(
        4,
        combine="exact",
        partition="kernel_kmeans",
        n_levels=4,
        level_tol=options["tol"],
        random_state=random_state,
        **options,
    )


def _cascade(random_state: Any, **options: Any) -> BoxSVC:
    """`CascadeSVC` with 256 subsets, merged in pairs."""
    return CascadeSVC(256, random_state=random_state, **options)


def _exact(random_state: Any, **options: Any) -> BoxSVC:
    return exact_svc(**options)


class _ShrinkingSVC(KernelSVC):
    """The exact model by single-coordinate descent with LIBSVM's shrinking."""

    # The interior-point method on the map would replace the descent whose curve is measured.
    _may_use_map: ClassVar[bool] = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        self._trace = trace
        return super().fit(X, y, sample_weight)

    def _start(self, problem: KernelProblems, last: Any, key: str) -> Start:
        alpha = shrinking_descent(
            problem.kernel,
            problem.Y[:, 0],
            problem.C,
            tol=self.tol,
            cache_mb=self.cache_size,
            trace=self._trace,
        )
        # The trace does not belong to the model and cannot be stored in a model file.
        del self._trace
        return Start(alpha[:, None])


def _shrinking(random_state: Any, *, cache_mb: float, **options: Any) -> BoxSVC:
    options["dtype"] = "float32"
    return _ShrinkingSVC(fit_intercept=False, cache_size=cache_mb, **options)


_SOLVERS = {"dcsvm": _dcsvm, "cascade_svm": _cascade, "kernel_svc": _exact, "shrinking": _shrinking}


@dataclass(eq=False, repr=False)
class SupportCurves(TwoClassDiagnostic):
    """A solver's model, and the precision and recall of its support vectors after each step.

    With S the support vectors of the current solution (with shrinking: the rows that have not been
    removed at zero) and S* the support vectors of a reference solved to `reference_tol`, the trace
    receives

        precision |S and S*| / |S|,    recall |S and S*| / |S*|,

    the relative error of the objective and the seconds of the solver.

    Parameters
    ----------
    solver : {"dcsvm", "cascade_svm", "kernel_svc", "shrinking"}, default="dcsvm"
        The levels of `DCSVC` (256, 64, 16, 4, 1 clusters), the layers of `CascadeSVC` (256 parts),
        the iterates of `KernelSVC`, or descent by single coordinates with LIBSVM's shrinking.
    reference_tol : float, default=1e-8
        Tolerance of the reference. Set by hand.
    C : float, default=1.0
    kernel : str or callable, default="rbf"
        A positive semidefinite kernel of `kbench.kernels.KERNELS`, or "precomputed".
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    cache_mb : float, default=200.0
        `C` to `cache_mb` have the same meaning as in `KernelSVC`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    solver_ : estimator
        The fitted solver; this estimator has its attributes too.
    reference_ : KernelSVC
    n_features_in_ : int

    Notes
    -----
    `fit` costs as much as both models, and O(n_sv^2 d) for the objective after each step, unless
    the solver reports it. It takes two classes only. It reports precision, recall, objective,
    objective_error, n_support, solver_s and, if the solver divides the rows, n_parts to the trace.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import SupportCurves
    >>> from kbench.trace import Trace
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> recall = []
    >>> trace = Trace(lambda seconds, state: recall.append(state["recall"]))
    >>> model = SupportCurves("kernel_svc", C=10.0).fit(X, y, trace=trace)
    >>> recall[-1] > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TwoClassDiagnostic._parameter_constraints,
        "solver": [choice(*_SOLVERS)],
        "reference_tol": BoxSVC._parameter_constraints["tol"],
        "random_state": ["random_state"],
    }

    solver: str = "dcsvm"
    _: KW_ONLY
    reference_tol: float = 1e-8
    tol: float = 1e-3

    def _measure(self, problem: KernelProblems, y: Any, trace: Trace) -> None:
        parameters = self._model_parameters()
        with trace.phase("reference"):
            # A first solve at `tol` decomposes into more independent groups than a solve at
            # `reference_tol`. Steps in float32 with the residual in float64 are as exact as steps
            # in float64 and take two thirds of their time.
            options = parameters | {"dtype": "float32"}
            reference = exact_svc(warm_start=True, **options).fit(problem.X, y)
            reference.set_params(tol=self.reference_tol).fit(problem.X, y)
            self.reference_ = reference
        solver = _SOLVERS[self.solver](self.random_state, **parameters)
        with trace.phase("solve"):
            solver.fit(
                problem.X,
                y,
                trace=Trace(lambda seconds, state: self._compare(problem, trace, seconds, state)),
            )
        self._copy_fitted_attributes(solver)
        self.solver_ = solver

    def _compare(
        self, problem: KernelProblems, trace: Trace, seconds: float, state: dict[str, Any]
    ) -> None:
        """Report to the trace how a state of the solver compares with the reference."""
        alpha = state["alpha"].reshape(-1)
        support = np.flatnonzero(state.get("candidates", alpha))
        n_common = len(np.intersect1d(support, self.reference_.support_, assume_unique=True))
        reference_objective = self.reference_.objective_
        objective = state.get("objective")
        if objective is None:
            objective = true_objective(problem, alpha)
        n_parts = state.get("n_clusters", state.get("n_parts"))
        trace(
            solver_s=seconds,
            n_support=len(support),
            precision=n_common / len(support) if len(support) else float("nan"),
            recall=n_common / len(self.reference_.support_),
            objective=objective,
            objective_error=(objective - reference_objective) / abs(reference_objective),
            **({} if n_parts is None else {"n_parts": n_parts}),
        )
