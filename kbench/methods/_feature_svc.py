"""Linear support vector machines on explicit features: the base of linearised kernel machines."""

import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.approximation import FeatureBlocks, FeatureMachine, FeatureMap
from kbench.methods._limits import MAX_TIME, limit
from kbench.methods._one_vs_rest import Chunk, OneVsRest
from kbench.methods._penalty import PENALTY
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import solve_linear_dual
from kbench.solvers.duplicates import Duplicates
from kbench.trace import Deadline, Trace


class FeatureSVC(CountedPrediction, OneVsRest):
    """Base class of the estimators; a subclass has `__init__` and `_feature_map`.

    The dual of the linear machine is solved by coordinate descent on float32 features, which all
    classes share. Equal rows of one class are replaced by one row with the sum of their weights,
    which is the same problem. If the features exceed `memory_mb`, they are computed again for every
    pass, in blocks that are swept several times each.
    """

    _parameter_constraints: ClassVar[dict] = {
        "C": PENALTY,
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": MAX_TIME,
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "probability": ["boolean"],
        "memory_mb": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _feature_map(self, seed: int) -> FeatureMap:
        """The unfitted map that the parameters describe; `seed` is for what it draws."""

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the features, compute them, and solve the linear dual.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. It has no influence on the choice of features.
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
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
            rows, Y, C = targets
            copies = Duplicates.of(rows, Y.argmax(axis=1), Y[:, 0])
            if copies is not None:
                rows, Y = rows[copies.first], Y[copies.first]
                C = np.bincount(copies.kind, C)
        with trace.phase("cluster"):
            self.feature_map_ = self._feature_map(rng.randint(2**31)).fit(targets.X)
        with trace.phase("features"):
            blocks = FeatureBlocks(self.feature_map_, rows, self.memory_mb, trace)
        n_seen = 0

        def show(_: float, state: dict[str, Any]) -> None:
            nonlocal n_seen
            n_seen += len(targets.Y)
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
                trace=Trace(show) if trace.active else None,
            )
        with trace.phase("prepare"):
            self._set_machine(result.coef)
        alpha = result.alpha if copies is None else result.alpha[copies.kind]
        self.n_support_ = self._count_by_class(targets.Y[alpha.any(axis=1)])
        self.n_iter_ = result.n_iter
        self.n_seen_ = len(targets.Y)
        self.objective_ = float(result.objective.sum())
        self.duality_gap_ = float(result.gap.sum())
        self.violation_ = result.violation
        self.converged_ = result.converged
        if self.feature_map_.n_landmarks_:
            self.kernel_entries_ = blocks.n_rows_computed * self.feature_map_.n_landmarks_
        self.timings_ = dict(trace.timings)
        if not self.converged_:
            warnings.warn(
                f"stopped by {limit(self, result.stop_reason)} at a violation of "
                f"{self.violation_:.2g}, above tol={self.tol:g}; the model is usable",
                ConvergenceWarning,
                stacklevel=2,
            )
        self._calibrate(targets.X, y, sample_weight, trace, deadline)
        return self

    def _begin_or_go_on(self, chunk: Chunk) -> np.ndarray:
        """w at the start of a chunk of a stream, (r, m); the first chunk chooses the features."""
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

    def _decide(self, X: Any) -> np.ndarray:
        return self._machine(X)
