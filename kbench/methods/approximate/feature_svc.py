"""Linear support vector machines on explicit features: the base of linearised kernel machines."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kbench.approximation import FeatureBlocks, FeatureMachine, FeatureMap
from kbench.chunked import ChunkedRows
from kbench.errors import warn
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.limits import limit_text
from kbench.methods.base.one_vs_rest import LabelledChunk, WeightedOneVsRest
from kbench.methods.base.penalty import C_CONSTRAINT, penalty_of_sample
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.base.weights import require_weight_range
from kbench.methods.out_of_core.feature_chunks import (
    SpilledFeatures,
    feature_sample,
    with_gamma_of_all_rows,
)
from kbench.methods.out_of_core.out_of_core import working_folder
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import LinearDualResult, solve_linear_dual
from kbench.solvers.box_dual.duplicates import Duplicates
from kbench.trace import Deadline, Trace
from kbench.validated import choice, fit_context, usual


class FeatureSVC(CountedPrediction, WeightedOneVsRest):
    """Base class of the estimators; a subclass has `__init__` and `_feature_map`.

    The dual of the linear model is solved by coordinate descent on float32 features, which all
    classes share. Equal rows of one class are replaced by one row with the sum of their weights,
    which is the same problem. If the features exceed `memory_mb`, they are computed again for every
    pass, in blocks that are swept several times each. Rows in chunks are written to disk in such
    blocks; a pass reads them once, and memory holds a block and at most 26 bytes for each row and
    class: 18 in `solve_linear_dual` while it computes the objective, 8 for the targets.
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": C_CONSTRAINT,
        "loss": [choice("hinge", "squared_hinge")],
        **usual("tol", "max_iter", "max_time", "class_weight"),
        **usual("probability", "memory_mb", "random_state"),
    }

    @abstractmethod
    def _feature_map(self, seed: int) -> FeatureMap:
        """The unfitted map of the parameters; `seed` is for its random draws."""

    @fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Choose the features, compute them, and solve the linear dual.

        Parameters
        ----------
        X : (n, d) array or CSR
            X may also be `ChunkedRows`, which contain their labels: one pass draws a sample on
            which the features are chosen, and a second pass writes the rows to disk.
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. The choice of features does not depend on the weights.
        trace : Trace, optional
            Receives objective, violation, number of rows seen and the model after each pass, and
            the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, or y has fewer than two classes.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        rng = check_random_state(self.random_state)
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            return self._fit_chunks(chunks, rng, deadline, trace)
        with trace.phase("prepare"):
            problem = self._targets(X, y, sample_weight)
            rows, Y, C = problem
            copies = Duplicates.of(rows, Y.argmax(axis=1), Y[:, 0])
            if copies is not None:
                rows, Y = rows[copies.first], Y[copies.first]
                C = np.bincount(copies.kind, C)
        with trace.phase("cluster"):
            self.feature_map_ = self._feature_map(rng.randint(2**31)).fit(problem.X)
        with trace.phase("features"):
            blocks = FeatureBlocks(self.feature_map_, rows, self.memory_mb, trace)
        result = self._solve(blocks, Y, C, len(problem.Y), rng, deadline, trace)
        alpha = result.alpha if copies is None else result.alpha[copies.kind]
        self._set_solution_attributes(result, alpha, problem.Y, blocks.n_rows_computed, trace)
        self._calibrate(problem.X, y, sample_weight, trace, deadline)
        return self

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return not self._wants_probabilities

    def _fit_chunks(
        self, rows: ChunkedRows, rng: np.random.RandomState, deadline: Deadline, trace: Trace
    ) -> Self:
        if self._wants_probabilities:
            raise ValueError("probability=True needs all rows in memory, not in chunks")
        seed = rng.randint(2**31)
        feature_map = self._feature_map(seed)
        targets = ClassTargets()
        with trace.phase("survey"):
            survey = Survey(rows, targets, feature_sample(feature_map), seed)
        self.classes_, self.n_features_in_ = targets.classes, rows.n_features
        with trace.phase("cluster"):
            self.feature_map_ = with_gamma_of_all_rows(feature_map, survey).fit(survey.sample)
        weights = self._penalty_of_chunks(survey) * targets.weights(self.class_weight)
        # A block of features may take half of the memory (set by hand); the rest is for the rows
        # that are read. The files depend only on the rows and on the size of a block.
        memory_mb = min(self.memory_mb, rows.memory_mb / 2)
        identity = {"rows": survey.checksum, "memory": memory_mb, "block_rows": rows.block_rows}
        identity["n_features"] = self.feature_map_.n_features_out_
        with working_folder(rows, identity) as folder:
            with trace.phase("divide"):
                blocks = SpilledFeatures(
                    self.feature_map_, rows, survey, memory_mb, folder / "rows", trace
                )
            Y = self._signs(blocks.index)
            C = weights[blocks.index]
            result = self._solve(blocks, Y, C, survey.n, rng, deadline, trace)
        self._set_solution_attributes(result, result.alpha, Y, blocks.n_rows_computed, trace)
        return self

    def _penalty_of_chunks(self, survey: Survey) -> float:
        """C for the rows of a survey; "loo" is decided on its sample."""
        self.C_ = penalty_of_sample(self, survey)
        return self.C_

    def _solve(
        self,
        blocks: FeatureBlocks | SpilledFeatures,
        Y: np.ndarray,
        C: np.ndarray,
        n: int,
        rng: np.random.RandomState,
        deadline: Deadline,
        trace: Trace,
    ) -> LinearDualResult:
        """Solve the linear dual and set the model; n is the number of rows, with copies."""
        require_weight_range(C, "C times sample_weight")
        n_seen = 0

        def report(_: float, state: dict[str, Any]) -> None:
            nonlocal n_seen
            n_seen += n
            coef = state.pop("coef")

            def predict(rows: Any) -> np.ndarray:
                self._set_machine(coef)
                return self.predict(rows)

            trace(samples=n_seen, predict=predict, **state)

        with trace.phase("solve"):
            result = solve_linear_dual(
                blocks,
                Y,
                C,
                rng,
                loss=self.loss,
                tol=self.tol,
                max_iter=self.max_iter,
                max_time=deadline.seconds_left(),
                trace=Trace(report) if trace.active else None,
            )
        with trace.phase("prepare"):
            self._set_machine(result.coef)
        return result

    def _set_solution_attributes(
        self,
        result: LinearDualResult,
        alpha: np.ndarray,
        Y: np.ndarray,
        n_rows_computed: int,
        trace: Trace,
    ) -> None:
        """Set the attributes that describe the solution, with alpha and Y : (n, m) of all rows."""
        self.n_support_ = self._count_by_class(Y[alpha.any(axis=1)])
        self.n_iter_ = result.n_iter
        self.n_seen_ = len(Y)
        self.objective_ = float(result.objective.sum())
        self.duality_gap_ = float(result.gap.sum())
        self.violation_ = result.violation
        self.converged_ = result.converged
        if self.feature_map_.n_landmarks_:
            self.kernel_entries_ = n_rows_computed * self.feature_map_.n_landmarks_
        self.timings_ = dict(trace.timings)
        if not self.converged_:
            warn(
                f"stopped by {limit_text(self, result.stop_reason)} at a violation of "
                f"{self.violation_:.2g}, above tol={self.tol:g}; "
                "the model is no worse than a constant",
                ConvergenceWarning,
            )

    def _stream_coef(self, chunk: LabelledChunk) -> np.ndarray:
        """w : (r, m) before a chunk of a stream; the first chunk chooses the features."""
        if not hasattr(self, "coef_"):
            seed = check_random_state(self.random_state).randint(2**31)
            self.feature_map_ = self._feature_map(seed).fit(chunk.X)
            return np.zeros((self.feature_map_.n_features_out_, chunk.Y.shape[1]))
        return np.array(self.coef_.T)

    def _set_machine(self, coef: np.ndarray) -> None:
        """Set the function <w, z(x)> with coef : (n_features_out_, m)."""
        self.coef_ = np.ascontiguousarray(coef.T)
        self.n_parameters_ = self.feature_map_.n_parameters_ + self.coef_.size
        self._machine = FeatureMachine(self.feature_map_, coef)
        self.model_bytes_ = self._machine.nbytes
