"""Base of the classifiers that solve the dual, without intercept, on parts of the training rows.

The subclasses are dataclasses: a subclass lists only the parameters that it adds, and the generated
`__init__` stores the parameters, as scikit-learn requires.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from kbench.errors import warn
from kbench.kernels.constraints import KernelParameters
from kbench.methods.base.box_svc import BoxClassifier, KernelProblems
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.parts import Part
from kbench.methods.base.widths import require_one_width, with_widths
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Deadline, Trace
from kbench.validated import fit_context


class DualFit(NamedTuple):
    """Solutions of the dual on one or more parts of the rows."""

    parts: Sequence[Part]  # with the results of their solves
    n_iter: int  # steps of all solves
    # Makes the decision function, X : (u, d) -> (u, m) with `nbytes`, from alpha : (n, m). None
    # stands for the kernel expansion.
    make_machine: Callable[[np.ndarray], Any] | None = None
    intercept: Sequence[float] | float = 0.0  # (m,), or one number for all problems


@dataclass(eq=False, repr=False, kw_only=True)
class DualSVC(KernelParameters, BoxClassifier):
    """Parameters of the model, `fit`, and the attributes that describe the solution.

    A subclass implements `_train`.
    """

    cache_mb: float = 200.0

    _parameter_constraints: ClassVar[dict] = with_widths(BoxClassifier._parameter_constraints)

    @abstractmethod
    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        """Solve the dual of the method's parts of the rows."""

    # Subclasses have no nested estimators whose `fit` would check parameters of its own.
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Train the model or models.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
            X may also be `ChunkedRows`, which contain their labels, if the class accepts them.
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. The weights do not influence how the rows are divided, except
            that rows of weight 0 are left out before the division.
        trace : Trace, optional
            Receives the phases and the intermediate states that the class documents.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range or contradicts another one, or y has fewer than two classes.
        """
        trace = Trace() if trace is None else trace
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            require_one_width(self)
            return self._fit_chunks(chunks, trace)
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
        solution = self._train(problem, deadline, trace)
        with trace.phase("prepare"):
            alpha = np.zeros_like(problem.Y)
            for part in solution.parts:
                alpha[part.rows] += part.alpha
            results = [result for part in solution.parts for result in part.results]
            self._finish(problem, alpha, results, solution.intercept)
            self.n_iter_ = solution.n_iter
            make_machine = (
                self._expansion(problem) if solution.make_machine is None else solution.make_machine
            )
            self._machine = make_machine(alpha)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        self._calibrate(problem.unscaled_X, y, sample_weight, trace, deadline)
        return self

    def _expansion(self, problem: KernelProblems) -> Callable[[np.ndarray], KernelExpansion]:
        """Return the map from alpha : (n, m) to the functions sum_i y_i alpha_i k(x_i, x)."""

        def build(alpha: np.ndarray) -> KernelExpansion:
            rows = np.flatnonzero(alpha.any(axis=1))
            coef = (alpha * problem.Y)[rows]
            return KernelExpansion(
                problem.kernel, rows, coef, prediction_dtype(problem.kernel, coef)
            )

        return build


def n_steps(parts: Sequence[Part]) -> int:
    """Steps of the solves of all parts."""
    return sum(result.n_iter for part in parts for result in part.results)


def clipped_count(name: str, value: int, n: int, reduced: int) -> int:
    """The parameter's value; if it exceeds the n training points, `reduced` with a warning."""
    if value <= n:
        return value
    warn(f"{name}={value} is more than the {n} training points; it is reduced to {reduced}")
    return reduced
