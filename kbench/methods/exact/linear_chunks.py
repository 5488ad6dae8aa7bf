"""The linear kernel on rows that are read in chunks, for `KernelSVC`."""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from kbench.chunked import ChunkedRows
from kbench.clustering.shuffle_on_disk import spill
from kbench.errors import KbenchError
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.linear import Linear
from kbench.methods.base.box_svc import warn_of_limits
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.penalty import penalty_of_sample
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.exact.expansions import interior_note, pair_expansion, shared_expansion
from kbench.methods.exact.kernel_svc_fit import LastFit
from kbench.methods.exact.kernel_svc_problems import SolvesBinaryProblems
from kbench.methods.exact.svc_conventions import finite_C, warn_of_unbounded
from kbench.methods.out_of_core.out_of_core import working_folder
from kbench.solvers.interior_point.duals import InteriorResult, solve_signed
from kbench.solvers.interior_point.factor_rows import ReadRows, sums
from kbench.solvers.interior_point.problem import LowRank
from kbench.trace import Deadline, Trace

# Largest number of float64 vectors, with an entry for each row, that `solve_signed` holds.
_N_VECTORS = 16
# Rows of the sample from which C="loo" takes at most 500 distinct rows: a larger sample takes more
# memory, a smaller one may have fewer distinct rows. Set by hand.
_LOO_ROWS = 20_000


class _Plane(NamedTuple):
    """The solution of a binary problem."""

    result: InteriorResult  # `coef` has the support vectors of the problem, signed by class
    support: np.ndarray  # numbers of the rows with a coefficient
    normal: np.ndarray  # (d,)
    intercept: float


class LinearInChunks(SolvesBinaryProblems):
    """Fits `KernelSVC(kernel="linear")` to rows in chunks, by `kbench.solvers.interior_point`.

    One pass counts the classes, a second writes the rows to a folder, from which each iteration
    reads them about ten times. Memory holds 16 float64 numbers a row. The model consists of the
    normals and intercepts of the hyperplanes, without support vectors.
    """

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        is_linear = isinstance(self.kernel, str) and self.kernel == "linear"
        return is_linear and not self._wants_probabilities

    def _fit_chunks(self, rows: ChunkedRows, trace: Trace) -> Self:
        if not self.accepts_chunks:
            raise ValueError(
                "KernelSVC takes rows in chunks with kernel='linear' and probability=False only; "
                f"kernel is {self.kernel!r} and probability {self.probability!r}"
            )
        deadline, targets = Deadline(self.max_time, trace), ClassTargets()
        with trace.phase("survey"):
            survey = Survey(rows, targets, _LOO_ROWS if self.C == "loo" else 1, 0, variance=False)
        # 4/3 is the inverse of `_ROWS_FRACTION` (kbench/run/execution/chunked.py): in a run, the
        # vectors may take `limits.memory_mb`. Set by hand.
        size_mb = 8.0 * _N_VECTORS * survey.n / 2**20
        if size_mb > rows.memory_mb * 4.0 / 3.0:
            raise KbenchError(
                f"the solver's vectors for {survey.n} rows take {size_mb:,.0f} MiB, "
                f"{8 * _N_VECTORS} bytes a row; memory_mb={rows.memory_mb:g} is too little"
            )
        self.classes_, self.n_features_in_ = targets.classes, rows.n_features
        self.class_weight_ = targets.weights(self.class_weight)
        self.C_ = penalty_of_sample(self, survey) if self.C == "loo" else float(self.C)
        class_bounds = finite_C(self.C_ * self.class_weight_)
        identity = {"rows": survey.checksum, "block_rows": rows.block_rows, "form": "one cluster"}
        with working_folder(rows, identity) as folder:
            with trace.phase("divide"):
                spilled = spill(
                    rows,
                    lambda X, _: np.zeros(X.shape[0], np.intp),
                    1,
                    folder / "rows",
                    encode=targets.encode,
                    nbytes=survey.nbytes + 4 * survey.n,
                )
                blocks = spilled.run_blocks(0)
                index = np.concatenate([y for _, y in blocks]).astype(np.int32)
            with trace.phase("solve"):
                planes = self._planes([X for X, _ in blocks], index, class_bounds, deadline, trace)
        self._set_solution_of_planes(planes, index)
        self.timings_ = dict(trace.timings)
        return self

    def _planes(
        self,
        blocks: list[Any],
        index: np.ndarray,
        class_bounds: np.ndarray,
        deadline: Deadline,
        trace: Trace,
    ) -> list[_Plane]:
        """The separating planes of all pairs of classes, or of each class against the rest.

        blocks : the rows on disk. index : (n,) class numbers. class_bounds : (q,) upper bounds.
        """
        sizes = np.array([X.shape[0] for X in blocks])
        d = self.n_features_in_
        q = len(self.classes_)
        problems = self._pairs if self._takes_pairs else range(1 if q == 2 else q)

        def read(block_number: int) -> Any:
            return blocks[block_number]

        planes = []
        for problem in problems:
            if isinstance(problem, tuple):
                signs = (index == problem[0]).astype(np.int8) - (index == problem[1])
            else:
                signs = np.where(index == (1 if q == 2 else problem), 1, -1).astype(np.int8)
            all_rows = ReadRows(sizes, read, signs, d)
            row_numbers = None if signs.all() else np.flatnonzero(signs)
            problem_rows = all_rows if row_numbers is None else all_rows.take(row_numbers)
            planes.append(
                self._plane(problem_rows, row_numbers, class_bounds, index, deadline, trace)
            )
        return planes

    def _plane(
        self,
        rows: ReadRows,
        row_numbers: np.ndarray | None,
        class_bounds: np.ndarray,
        index: np.ndarray,
        deadline: Deadline,
        trace: Trace,
    ) -> _Plane:
        """Solve one problem; row_numbers : (s,) the rows that it has, None for all rows."""
        mean = np.zeros(self.n_features_in_)
        if self.fit_intercept:
            mean = rows.mean()
            rows = rows.centred(mean)
        if (class_bounds == class_bounds[0]).all():
            upper = np.broadcast_to(class_bounds[0], len(rows.signs))
        else:
            upper = class_bounds[index if row_numbers is None else index[row_numbers]]
        result = solve_signed(
            LowRank(rows),
            rows.signs,
            upper,
            coupled=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            stopped=lambda: deadline.passed,
        )
        if trace.active:
            trace(
                objective=result.objective,
                violation=result.violation,
                n_support=int(np.count_nonzero(result.coef)),
                solver="interior_point",
                n_iter=result.n_iter,
            )
        normal = sums(rows, result.coef * rows.signs)
        support = np.flatnonzero(result.coef)
        return _Plane(
            replace(result, coef=result.coef[support]),
            support if row_numbers is None else row_numbers[support],
            normal,
            result.intercept - float(matmul(normal, mean)),
        )

    def _set_solution_of_planes(self, planes: list[_Plane], index: np.ndarray) -> None:
        """Set the attributes of the solution, as `KernelSVC._set_solution` does, and the model."""
        results, q = [plane.result for plane in planes], len(self.classes_)
        support = np.unique(np.concatenate([plane.support for plane in planes]))
        support = support[np.argsort(index[support], kind="stable")]
        labels = index[support]
        order = np.argsort(support)
        coef = np.zeros((q - 1 if self._takes_pairs else len(planes), len(support)))
        for p, plane in enumerate(planes):
            positions = order[np.searchsorted(support, plane.support, sorter=order)]
            coef_row: Any = p
            if self._takes_pairs:
                a, b = self._pairs[p]
                coef_row = np.where(labels[positions] == a, b - 1, a)
            coef[coef_row, positions] = plane.result.coef
        self.support_, self.dual_coef_ = support, coef
        self.n_support_ = np.bincount(labels, minlength=q)
        self.intercept_ = np.array([plane.intercept for plane in planes])
        self._normals = np.array([plane.normal for plane in planes])
        require_finite(self, dual_coef_=coef, intercept_=self.intercept_)
        self.n_iter_ = np.array([result.n_iter for result in results])
        self.objective_ = float(sum(result.objective for result in results))
        self.duality_gap_ = float(sum(result.duality_gap for result in results))
        self.violation_ = max(result.violation for result in results)
        reasons = {result.stop_reason for result in results} - {"tol"}
        self.converged_, self.fit_status_ = not reasons, int(bool(reasons))
        self.notes_: tuple[str, ...] = (
            interior_note(len(planes), len(planes), int(self.n_iter_.sum())),
        )
        self.shape_fit_: tuple[int, ...] = (len(index), self.n_features_in_)
        self.kernel_entries_ = 0
        self._gamma = 0.0
        self._last: LastFit | None = None
        # Each normal becomes a support vector with coefficient 1, of the first class of a pair.
        kernel, centres = Linear(), np.arange(len(planes))
        matrix = KernelMatrix(kernel, self._normals, np.float64)
        if self._takes_pairs:
            first_classes = np.array([a for a, _ in self._pairs])
            ones = np.zeros((q - 1, len(planes)))
            ones[[b - 1 for _, b in self._pairs], centres] = 1.0
            counts = np.bincount(first_classes, minlength=q)
            self._machine = pair_expansion(kernel, self._normals, centres, ones, counts, matrix)
        else:
            ones = np.eye(len(planes))
            self._machine = shared_expansion(kernel, self._normals, centres, ones, matrix)
        self.model_bytes_ = self._machine.nbytes
        warn_of_limits(reasons, self, self.tol, self.max_iter)
        warn_of_unbounded(self.C, coef)
