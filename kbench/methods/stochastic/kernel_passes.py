"""Common part of NORMA and kernel SDCA: passes over the rows with one coefficient for each row."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kbench.kernels import KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.methods.base.new_rows import append_rows
from kbench.methods.base.one_vs_rest import BinaryProblems, LabelledChunk
from kbench.methods.stochastic.mean_loss import (
    PASS_CONSTRAINTS,
    MeanLoss,
    pass_count,
    random_batches,
)
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import CountedPrediction
from kbench.trace import Deadline, Trace
from kbench.validated import usual


class KernelPasses(KernelParameters, CountedPrediction, MeanLoss):
    """Base of the models f = sum_i coef_i k(x_i, .); a subclass implements `_step`."""

    _parameter_constraints: ClassVar[dict] = {
        **MeanLoss._parameter_constraints,
        **PASS_CONSTRAINTS,
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        **usual("class_weight", "probability", "random_state"),
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        *MeanLoss.read_by_every_chunk,
        "batch_size",
        "n_epochs",
    }

    support_: np.ndarray
    dual_coef_: np.ndarray

    @abstractmethod
    def _step(
        self,
        t: int,  # number of earlier steps
        batch: np.ndarray,  # (b,) indices
        F: np.ndarray,  # (b, m), values of sum_i coef_i k(x_i, .)
        coef: np.ndarray,  # (n, m), changed in place
        targets: BinaryProblems,
        matrix: KernelMatrix,
        n: int,  # rows in the mean loss
    ) -> None:
        """Take the step of one batch."""

    def _train(self, targets: BinaryProblems, deadline: Deadline, trace: Trace) -> None:
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            kernel = self._make_kernel(targets.X)
            self._kernel, matrix = kernel, KernelMatrix(kernel, targets.X)
            n, m = targets.Y.shape
            coef = np.zeros((n, m))
        t = n_seen = 0
        n_epochs = pass_count(n, self.batch_size, self.n_epochs, 1)

        def predict(rows: Any) -> np.ndarray:
            self._set_machine(matrix, coef)
            return self.predict(rows)

        with trace.phase("step"):
            for batch in random_batches(n, self.batch_size, n_epochs, rng):
                centres = np.flatnonzero(coef.any(axis=1))
                F = matrix.product(centres, coef[centres], batch)
                self._step(t, batch, F, coef, targets, matrix, n)
                t += 1
                n_seen += len(batch)
                trace(samples=n_seen, predict=predict)
                if deadline.passed:
                    break
        with trace.phase("prepare"):
            self._set_machine(matrix, coef)
        self.n_support_ = self._count_by_class(targets.Y[self.support_])
        self.n_iter_ = t
        self.kernel_entries_ = matrix.n_entries
        self.support_vectors_, self.n_seen_ = targets.X[self.support_], n

    def _learn(self, chunk: LabelledChunk) -> None:
        b, m = chunk.Y.shape
        if hasattr(self, "dual_coef_"):
            kernel, t, n_before = self._kernel, self.n_iter_, self.n_seen_
            stream_coef, stream_rows = self.dual_coef_.T, self.support_
            X = append_rows(self.support_vectors_, chunk.X)
        else:
            kernel = self._make_kernel(chunk.X)
            t = n_before = 0
            X, stream_coef, stream_rows = chunk.X, np.zeros((0, m)), np.zeros(0, np.intp)
        s, n = len(stream_coef), n_before + b
        self._kernel, matrix = kernel, KernelMatrix(kernel, X)
        coef = np.vstack([self._scaled_stream_coef(stream_coef, n_before, n), np.zeros((b, m))])
        Y = np.vstack([np.where(stream_coef >= 0.0, 1.0, -1.0), chunk.Y])
        weight = np.concatenate([np.zeros(s), chunk.weight])
        targets = BinaryProblems(X=X, Y=Y, C=weight / (self.nu * n))
        for batch in np.array_split(s + np.arange(b), -(-b // self.batch_size)):
            centres = np.flatnonzero(coef.any(axis=1))
            F = matrix.product(centres, coef[centres], batch)
            self._step(t, batch, F, coef, targets, matrix, n)
            t += 1
        self._set_machine(matrix, coef)
        self.support_vectors_ = X[self.support_]
        # Support vectors have the row numbers of the whole stream.
        self.support_ = np.concatenate([stream_rows, n_before + np.arange(b)])[self.support_]
        self.n_iter_, self.n_seen_ = t, n
        self.model_bytes_ = self._machine.nbytes

    def _scaled_stream_coef(self, coef: np.ndarray, n_before: int, n: int) -> np.ndarray:
        """Coefficients of `n_before` rows when a stream has grown to n rows."""
        return coef

    def _set_machine(self, matrix: KernelMatrix, coef: np.ndarray) -> None:
        """Set the model with the coefficients coef : (n, m)."""
        self.support_ = np.flatnonzero(coef.any(axis=1))
        self.dual_coef_ = np.ascontiguousarray(coef[self.support_].T)
        dtype = prediction_dtype(matrix, coef[self.support_])
        self._machine = KernelExpansion(matrix, self.support_, coef[self.support_], dtype)
