"""Base of classifiers that consist of binary models: checks, labels, weights, decisions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite

from kbench import class_labels
from kbench.methods.base.chunk_scores import ChunkScores, rows_in_chunks
from kbench.methods.base.new_rows import checked_rows
from kbench.methods.base.penalty import chosen_c
from kbench.methods.base.probability import Probabilities
from kbench.methods.base.quick_checks import QuickChecks
from kbench.methods.base.weights import checked_weights, class_weights, require_weighted_classes
from kbench.trace import Deadline, Trace
from kbench.validated import TakesSparseRows, fit_context, validate_data


class BinaryProblems(NamedTuple):
    """A training set as one or several binary problems."""

    X: Any  # (n, d) array or CSR, checked
    Y: np.ndarray  # (n, m) of -1, +1; m = 1 for two classes, else one-vs-rest
    C: np.ndarray  # (n,) C times the weights of row and class; (n, p) for p values of C


class LabelledChunk(NamedTuple):
    """Some rows of a stream."""

    X: Any  # (b, d) array or CSR, checked
    Y: np.ndarray  # (b, m) of -1, +1
    weight: np.ndarray  # (b,) weights of row and class


class OneVsRest(TakesSparseRows, ChunkScores, Probabilities, ClassifierMixin, QuickChecks, ABC):
    """Base of the classifiers; a subclass has `_decide`, and `_train` or its own `fit`."""

    # Whether to refuse entries that are not finite before `_decide`; False if `_decide` does so.
    _checks_finite: ClassVar[bool] = True
    # True for classes that replace `SVC`: `fit` sees rows of weight 0; negative weights count as 0.
    sees_unweighted_rows: ClassVar[bool] = False

    # The parameters of a nested part are checked by its own `fit`.
    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Train on rows in memory.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Weights of the rows in the loss: they multiply C row by row.
        trace : Trace, optional
            Receives the phases and the states of the training that the class documents.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range or contradicts another one, or y has fewer than two classes.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
        self._train(problem, deadline, trace)
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        self._calibrate(problem.X, y, sample_weight, trace, deadline)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The training set as `_train` takes it, checked; its field X holds the rows."""
        return self._targets(X, y, sample_weight)

    def _train(self, problem: Any, deadline: Deadline, trace: Trace) -> Any:
        """Train, and set `_machine` and the attributes that describe the solution."""
        raise NotImplementedError(f"{type(self).__name__} has a `fit` of its own")

    def _decide(self, X: Any) -> np.ndarray:
        """Values for checked rows X : (u, d); (u, 1) for two classes, else (u, n_classes)."""
        values: np.ndarray = self._machine(X)
        return values

    def _rows_to_predict(self, X: Any) -> Any:
        """X : (u, d) array or CSR of floats, checked."""
        X = checked_rows(self, X)
        if self._checks_finite:
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        return X

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed values of the decision functions.

        Parameters
        ----------
        X : (u, d) array or CSR, or rows in chunks; with kernel="precomputed" (u, n_train)

        Returns
        -------
        (u,) float64 for two classes, positive for `classes_[1]`; else (u, n_classes)
        """
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self.decision_function(block.X) for block in chunks.blocks()])
        values = self._decide(self._rows_to_predict(X))
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        return class_labels.decode(self.classes_, values)

    def _targets(self, X: Any, y: Any, sample_weight: Any) -> BinaryProblems:
        """Check the input, learn the classes and set up the binary problems."""
        X, index, C = self._checked(X, y, sample_weight)
        return BinaryProblems(X=X, Y=self._signs(index), C=C)

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Check the input and learn the classes.

        Returns
        -------
        X : (n, d) array or CSR
        index : (n,) number of each row's class in `classes_`
        C : (n,) C times the weights of row and class; (n, p) for p values of C
        """
        X, y = self._checked_rows_and_targets(X, y)
        classes, index = class_labels.encode(y)
        weight = checked_weights(
            sample_weight, len(index), negative_is_zero=self.sees_unweighted_rows
        )
        class_labels.require_two(len(classes))
        if sample_weight is not None:
            require_weighted_classes(classes, index, weight)
        self.classes_ = classes
        if self.class_weight is not None:
            weight *= class_weights(self.class_weight, classes, y)[index]
        C = chosen_c(self, X, index, len(classes), weight)
        if "C" in vars(self):
            self.C_ = C
        return X, index, np.multiply.outer(weight, C)

    def _signs(self, index: np.ndarray) -> np.ndarray:
        """Y of the binary problems for classes index : (n,); (n, m)."""
        return class_labels.signs(index, len(self.classes_))

    def _count_by_class(self, Y: np.ndarray) -> np.ndarray:
        """Rows of each class among rows of targets Y : (s, m); (n_classes,)."""
        positive = Y > 0
        if len(self.classes_) == 2:
            positive = np.hstack([~positive, positive])
        return positive.sum(axis=0)


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedOneVsRest(OneVsRest):
    """Base of the classifiers with weights of classes, probabilities, a time limit and a seed."""

    class_weight: dict | str | None = None
    probability: bool = False
    max_time: float | None = None
    random_state: Any = None


class StreamClassifier(WeightedOneVsRest):
    """Base of the classifiers that also learn from a stream; a subclass has `_learn`."""

    read_by_every_chunk: ClassVar[set[str]] = {"class_weight", "probability", "max_time"}

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one chunk of a stream, once over its rows, in order.

        The class says what the first chunk determines for the whole stream.

        Parameters
        ----------
        X : (b, d) array or CSR
        y : (b,) labels
        classes : (n_classes,)
            All classes of the stream; needed with the first chunk.
        sample_weight : (b,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As in `fit`; or the first chunk has no classes, a later one has other classes,
            features or parameters of the model, or a parameter needs all rows.
        """
        self._learn(self._checked_chunk(X, y, classes, sample_weight))
        return self

    def _is_first_chunk(self) -> bool:
        return not hasattr(self, "classes_")

    @abstractmethod
    def _learn(self, chunk: LabelledChunk) -> None:
        """Update the model with the rows of a chunk."""

    def _checked_chunk(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LabelledChunk:
        """Check a chunk of a stream; the first one sets the classes and the number of features.

        Raises ValueError: the first chunk has no classes, a later one has other classes or
        features, or class_weight="balanced", which needs all rows. The model is not changed.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows, which a stream does not have; pass a dict "
                "of class weights, or sample_weight"
            )
        is_first = self._is_first_chunk()
        X, y = validate_data(self, X, y, reset=is_first)
        weight = checked_weights(sample_weight, X.shape[0])
        index = class_labels.index_in_stream(self, y, classes, first=is_first)
        if self.class_weight is not None:
            weight *= class_weights(self.class_weight, self.classes_, y)[index]
        return LabelledChunk(X, self._signs(index), weight)
