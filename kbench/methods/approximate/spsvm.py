"""Support vector machine with a reduced number of basis functions, trained in the primal: SpSVM.

Keerthi, Chapelle and DeCoste, "Building Support Vector Machines with Reduced Classifier Complexity"
(JMLR 7, 2006), section 3, basis selection method 2.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kbench.errors import warn
from kbench.kernels import KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.methods.base.limits import limit_text
from kbench.methods.base.one_vs_rest import BinaryProblems, WeightedOneVsRest
from kbench.methods.base.penalty import C_CONSTRAINT
from kbench.methods.base.weights import require_weight_range
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import solve_sparse_primal
from kbench.trace import Deadline, Trace
from kbench.validated import integer, usual


@dataclass(eq=False, repr=False)
class SparsePrimalSVC(KernelParameters, CountedPrediction, WeightedOneVsRest):
    """Squared-hinge kernel machine on a greedily grown basis, without intercept.

    Minimises 1/2 ||f||^2 + 1/2 sum_i C_i max(0, 1 - y_i f(x_i))^2 over

        f = sum_{j in J} b_j k(., x_j),   |J| = `n_components`.

    J grows by the best of `n_candidates` random points at a time; weights are trained by Newton's
    method whenever |J| has grown by a factor 2^(1/4), and at the end (see
    `kbench.solvers.incremental.sparse_primal`). Several classes are one-vs-rest problems, each with
    its own J.

    Parameters
    ----------
    n_components : int, default=200
        Number of basis functions of each binary problem; d_max in the paper. Set by hand.
    n_candidates : int, default=59
        Random points that are compared for each addition: with probability 0.95, one of 59 is among
        the best 5 % of all points.
    C : float or "loo", default=1.0
        1 / lambda of the paper, multiplied by the weights of row and class.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    class_weight, probability
        As in `KernelSVC`.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between additions and between Newton steps.
    dtype : {"float32", "float64"}, default="float32"
        As in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Seed of the candidates.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows that are in at least one basis.
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
        Coefficients b of each problem, 0 for rows that are not in its basis.
    n_support_ : (n_classes,) ints
        Basis rows of each class.
    objective_ : float
        Value of the primal, summed over problems.
    gradient_norm_ : float
        Largest entry of the primal's gradient in b.
    n_iter_ : int
        Newton steps.
    converged_ : bool
    kernel_entries_ : int
    n_parameters_, model_bytes_ : int
        Number of entries of the basis rows and of b, and bytes of the model.
    timings_ : dict of str to float
        Seconds of "prepare", "select", "newton".
    n_features_in_ : int

    Notes
    -----
    O(n d_max^2) time and O(n_candidates n d_max) kernel values at most; n d_max kernel values of
    memory. Prediction costs O(d_max d) a row. `fit` reports objective and n_support to the trace
    after each addition.

    References
    ----------
    S. S. Keerthi, O. Chapelle, D. DeCoste, "Building Support Vector Machines with Reduced
    Classifier Complexity", JMLR 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import SparsePrimalSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SparsePrimalSVC(40, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_candidates": [integer(1)],
        "C": C_CONSTRAINT,
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        **usual("n_components", "class_weight", "probability", "max_time", "dtype", "random_state"),
    }

    n_components: int = 200
    _: KW_ONLY
    n_candidates: int = 59
    C: float | str = 1.0
    dtype: str = "float32"

    def _train(self, problem: BinaryProblems, deadline: Deadline, trace: Trace) -> None:
        rng = check_random_state(self.random_state)
        require_weight_range(problem.C, "C times sample_weight")
        with trace.phase("prepare"):
            kernel_function = self._make_kernel(problem.X)
            kernel = KernelMatrix(kernel_function, problem.X, self.dtype)
        results = [
            solve_sparse_primal(
                kernel,
                labels,
                problem.C,
                self.n_components,
                rng,
                n_candidates=self.n_candidates,
                max_time=deadline.seconds_left(),
                trace=trace,
            )
            for labels in problem.Y.T
        ]
        with trace.phase("prepare"):
            self.support_ = np.unique(np.concatenate([result.basis for result in results]))
            coef = np.zeros((len(self.support_), len(results)))
            for j, result in enumerate(results):
                coef[np.searchsorted(self.support_, result.basis), j] = result.coef
            dtype = prediction_dtype(kernel, coef)
            self._machine = KernelExpansion(kernel, self.support_, coef, dtype)
        self.dual_coef_ = coef.T
        self.n_support_ = self._count_by_class(problem.Y[self.support_])
        self.objective_ = sum(result.objective for result in results)
        self.gradient_norm_ = max(result.gradient_norm for result in results)
        self.n_iter_ = sum(result.n_iter for result in results)
        self.converged_ = all(result.converged for result in results)
        self.kernel_entries_ = kernel.n_entries
        self.n_parameters_ = len(self.support_) * problem.X.shape[1] + coef.size
        if not self.converged_:
            in_time = all(result.in_time for result in results)
            prefix = (
                "Newton's method stopped"
                if in_time
                else f"stopped by {limit_text(self, 'max_time')}"
            )
            warn(
                f"{prefix} at a gradient of {self.gradient_norm_:.2g}; "
                "the model is no worse than a constant",
                ConvergenceWarning,
            )
