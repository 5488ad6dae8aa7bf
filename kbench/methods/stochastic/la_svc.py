"""LaSVM: a support vector classifier trained online that visits each row once.

Bordes, Ertekin, Weston and Bottou, "Fast Kernel Classifiers with Online and Active Learning" (JMLR
6, 2005), section 3; the iteration is in `kbench.solvers.incremental.lasvm`.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench.kernels import Kernel, KernelMatrix
from kbench.methods.base.box_svc import BoxSVC, KernelProblems
from kbench.methods.base.dual_svc import DualFit, DualSVC
from kbench.methods.base.new_rows import append_rows
from kbench.methods.base.one_vs_rest import LabelledChunk, StreamClassifier
from kbench.methods.base.parts import Part
from kbench.solvers import BoxDualResult
from kbench.solvers.incremental.lasvm import solve_online, visit_chunk
from kbench.trace import Deadline, Trace
from kbench.validated import integer


class Held(NamedTuple):
    """State of a stream: the s rows that are in the expansion of a problem."""

    kernel: Kernel
    X: Any  # (s, d) array or CSR
    Y: np.ndarray  # (s, m)
    C: np.ndarray  # (s,)
    positions: np.ndarray  # (s,) positions in the stream
    alpha: np.ndarray  # (s, m)
    gradient: np.ndarray  # (s, m), nan where the row is not in the problem's expansion

    @staticmethod
    def of(
        problem: KernelProblems, positions: np.ndarray, results: Sequence[BoxDualResult]
    ) -> "Held":
        """The rows of `problem` that are in an expansion; positions : (n,), of its rows."""
        gradient = np.column_stack([result.gradient for result in results])
        alpha = np.column_stack([result.alpha for result in results])
        rows = np.flatnonzero(np.isfinite(gradient).any(axis=1))
        return Held(
            problem.kernel.kernel,
            problem.X[rows],
            problem.Y[rows],
            problem.C[rows],
            positions[rows],
            alpha[rows],
            gradient[rows],
        )


@dataclass(eq=False, repr=False)
class LaSVC(StreamClassifier, DualSVC):
    """Kernel machine that visits the rows one by one, then solves the dual on its expansion.

    Each visit is followed by a step on the most violating pair of the expansion or, without
    intercept, on its most violating coordinate. More passes come closer to the exact model, because
    a row that was removed from the expansion can only return in a later pass.

    Parameters
    ----------
    epochs : int, default=1
        Passes over the rows, each in a new random order.
    fit_intercept : bool, default=False
        Whether the decision function has an intercept, which adds the constraint y'alpha = 0.
    tol : float, default=1e-3
        KKT violation on the expansion below which no step is made, and tolerance of the final
        solve; the default is that of `KernelSVC`.
    C, kernel, gamma, degree, coef0, cache_mb, class_weight, probability, \
max_iter, max_time, dtype
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits the steps of each binary problem.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    intercept_ : (1,) or (n_classes,)
    n_support_ : (n_classes,) ints
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the rows of the expansion.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_seen_ : int
        Rows that were learned, by `fit` and `partial_fit`.
    n_features_in_ : int

    Notes
    -----
    O(n n_sv d) time for each pass; `cache_mb` and O(n d) memory. Several classes are one-vs-rest
    problems, each with its own order and expansion. `fit` reports n_support and n_visited to the
    trace as rows are visited.

    `partial_fit` visits the rows of a chunk once, in order, without the final solve, in O(b n_sv d)
    time for b rows. It continues from the coefficients and gradients of the expansion, also after
    `fit`; only the rows of the expansion take part in later steps. The first chunk determines
    gamma="scale" and "auto". `epochs`, `max_iter` and `max_time` do not apply, and there is no
    ConvergenceWarning; `violation_` is the violation on the expansion.

    References
    ----------
    A. Bordes, S. Ertekin, J. Weston, L. Bottou, "Fast Kernel Classifiers with Online and Active
    Learning", JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import LaSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LaSVC(C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    solves_all_rows: ClassVar[bool] = False

    read_by_every_chunk: ClassVar[set[str]] = {
        *StreamClassifier.read_by_every_chunk,
        "cache_mb",
        "dtype",
        "epochs",
        "max_iter",
        "tol",
    }

    epochs: int = 1
    _: KW_ONLY
    fit_intercept: bool = False

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "gamma": BoxSVC._parameter_constraints["gamma"],  # rows of a stream stay unscaled
        "epochs": [integer(1)],
        "fit_intercept": ["boolean"],
    }

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        rng = check_random_state(self.random_state)
        with trace.phase("solve"):
            results = [
                solve_online(
                    problem.kernel,
                    labels,
                    problem.C,
                    rng,
                    intercept=self.fit_intercept,
                    epochs=self.epochs,
                    tol=self._tolerance,
                    cache_mb=self.cache_mb,
                    max_iter=self.max_iter,
                    max_time=deadline.seconds_left(),
                    trace=trace,
                )
                for labels in problem.Y.T
            ]
        alpha = np.column_stack([result.alpha for result in results])
        self._held, self.n_seen_ = Held.of(problem, np.arange(len(alpha)), results), len(alpha)
        return DualFit(
            [Part(np.arange(len(alpha)), alpha, results)],
            sum(result.n_iter for result in results),
            intercept=[result.intercept for result in results],
        )

    @property
    def support_vectors_(self) -> Any:
        """The rows with a coefficient; (n_sv, d) array or CSR."""
        check_is_fitted(self, "_held")
        return self._held.X[self._held.alpha.any(axis=1)]

    def _checked_chunk(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LabelledChunk:
        if self.kernel == "precomputed":
            raise ValueError("partial_fit needs rows, not kernel='precomputed'")
        if isinstance(self.C, str):
            raise ValueError(f"C={self.C!r} needs all rows, which a stream does not have")
        return super()._checked_chunk(X, y, classes, sample_weight)

    def _learn(self, chunk: LabelledChunk) -> None:
        b, m = chunk.Y.shape
        assert not isinstance(self.C, str)
        C = self.C * chunk.weight
        if hasattr(self, "_held"):
            state, n_before, n_iter = self._held, self.n_seen_, self.n_iter_
            n_entries = self.kernel_entries_
            X, Y = append_rows(state.X, chunk.X), np.vstack([state.Y, chunk.Y])
            C = np.r_[state.C, C]
        else:
            empty = np.empty((0, m))
            kernel = self._kernel(chunk.X)
            state = Held(kernel, chunk.X[:0], empty, C[:0], np.empty(0, int), empty, empty)
            X, Y, n_before, n_iter, n_entries = chunk.X, chunk.Y, 0, 0, 0
        index = (Y[:, 0] > 0).astype(np.intp) if m == 1 else Y.argmax(axis=1)
        problem = KernelProblems(X, KernelMatrix(state.kernel, X, self.dtype), Y, C, index)
        new_rows = len(state.C) + np.arange(b)
        results = [
            visit_chunk(
                problem.kernel,
                Y[:, j],
                C,
                new_rows,
                np.r_[state.alpha[:, j], np.zeros(b)],
                np.r_[state.gradient[:, j], np.full(b, np.nan)],
                intercept=self.fit_intercept,
                tol=self._tolerance,
                cache_mb=self.cache_mb,
            )
            for j in range(m)
        ]
        alpha = np.column_stack([result.alpha for result in results])
        self._set_solution_attributes(
            problem, alpha, results, [result.intercept for result in results]
        )
        self.n_iter_ += n_iter
        self._machine = self._expansion(problem)(alpha)
        # Support vectors have the row numbers of the whole stream.
        positions = np.r_[state.positions, n_before + np.arange(b)]
        self.support_ = positions[self.support_]
        self._held, self.n_seen_ = Held.of(problem, positions, results), n_before + b
        self.kernel_entries_ = n_entries + problem.kernel.n_entries
        self.model_bytes_ = self._machine.nbytes
