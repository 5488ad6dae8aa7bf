"""Parameters, fit and prediction of the models by doubly stochastic gradients.

Dai, Xie, He, Liang, Raj, Balcan and Song, "Scalable Kernel Methods via Doubly Stochastic Gradients"
(NIPS 2014); the descent is `kbench.solvers.stochastic.doubly_stochastic`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.approximation.seeded.named_blocks import median_gamma, seeded_features, seeded_kernels
from kbench.chunked import ChunkedRows, batches
from kbench.kernels import KERNELS, make_kernel
from kbench.kernels.functions.rbf import RBF
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.new_rows import first_non_finite
from kbench.methods.base.survey import Survey
from kbench.methods.base.weights import checked_weights, relative_weights
from kbench.methods.out_of_core.checkpoint import Checkpoint, fingerprint
from kbench.methods.out_of_core.workers import results_in_order
from kbench.methods.stochastic.mean_loss import PASS_CONSTRAINTS
from kbench.methods.stochastic.row_map import RowMap
from kbench.methods.stochastic.virtual_examples import KINDS, VirtualExamples
from kbench.solvers.stochastic.doubly_stochastic import DoublyStochastic, Memory
from kbench.solvers.stochastic.losses import LOSSES
from kbench.trace import Deadline, Trace
from kbench.validated import (
    NOT_NEGATIVE,
    POSITIVE,
    TakesSparseRows,
    choice,
    fit_context,
    integer,
    real,
    usual,
    validate_data,
)

RowWeights = Callable[[np.ndarray], np.ndarray]  # targets (b,) -> weights of the rows (b,)

# Rows mapped at a time in prediction: more take more memory, fewer cost more calls. Set by hand.
_PREDICTED_ROWS = 8192
# Number of passes with the released code's step sizes, which suit short fits; later passes take
# Newton's steps, which converge. Set by hand.
_FIRST_ORDER_PASSES = 5
# Rows from which the bandwidth is computed: more are more precise and take longer. Set by hand.
SAMPLE_ROWS = 10_000
# Parameters that may differ between a checkpoint and the fit that continues it.
_CHANGEABLE = ("cache_mb", "checkpoint", "checkpoint_s", "max_time", "n_jobs", "predict_votes")


@dataclass(kw_only=True, eq=False, repr=False)
class DoublySGD(TakesSparseRows, BaseEstimator):
    """Base of classifier and regressor, with their parameters as fields of a dataclass.

    A subclass has `_learn_targets`, `_targets` and `_loss_name`, and may add fields.
    """

    _parameter_constraints: ClassVar[dict] = {
        "block_size": [integer(1)],
        **PASS_CONSTRAINTS,
        "max_blocks": [integer(1), None],
        "kernel": [choice(*seeded_kernels())],
        "gamma": [choice("median", "scale", "auto"), POSITIVE],
        "smoothness": [POSITIVE],
        "degree": [integer(1)],
        "coef0": [NOT_NEGATIVE],
        "nu": [NOT_NEGATIVE],
        "step_size": [POSITIVE],
        "step_decay": [NOT_NEGATIVE],
        "preconditioned": ["boolean"],
        "ridge": [POSITIVE],
        "average": [real(0, 1, closed="left")],
        "unit_norm": ["boolean"],
        "pca_components": [integer(1), None],
        "virtual": [choice(*KINDS), None],
        "virtual_size": [POSITIVE],
        "n_copies": [integer(1)],
        "predict_votes": [integer(1)],
        "n_shards": [integer(1)],
        "checkpoint": [str, None],
        "checkpoint_s": [NOT_NEGATIVE],
        **usual("n_jobs", "cache_mb", "random_state"),
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        *("average", "batch_size", "checkpoint", "checkpoint_s", "class_weight", "max_time"),
        *("n_epochs", "n_jobs", "n_shards", "predict_votes", "probability"),
    }

    block_size: int = 2048
    batch_size: int = 4096
    n_epochs: int = 1
    max_blocks: int | None = None
    kernel: str = "rbf"
    gamma: float | str = "median"
    smoothness: float = 1.5
    degree: int = 3
    coef0: float = 0.0
    nu: float = 0.0
    step_size: float = 1.0
    step_decay: float = 1e-4
    preconditioned: bool = True
    ridge: float = 1e-4
    average: float = 0.0
    unit_norm: bool = False
    pca_components: int | None = None
    virtual: str | None = None
    virtual_size: float = 1.0
    n_copies: int = 1
    predict_votes: int = 1
    max_time: float | None = None
    n_shards: int = 1
    n_jobs: int | None = None
    cache_mb: float = 64.0
    checkpoint: str | None = None
    checkpoint_s: float = 60.0
    random_state: Any = None

    @abstractmethod
    def _learn_targets(self, y: np.ndarray, weight: np.ndarray | None) -> None:
        """Learn the classes, or the mean of regression targets; sets `n_outputs_`."""

    @abstractmethod
    def _targets(self, y: np.ndarray) -> np.ndarray:
        """Targets of the loss, (b, q) float64."""

    @property
    @abstractmethod
    def _loss_name(self) -> str: ...

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.virtual is None and max(self.n_copies, self.predict_votes) > 1:
            raise ValueError(
                f"n_copies is {self.n_copies} and predict_votes {self.predict_votes}, should be 1 "
                "if virtual is None, because all copies would be the same"
            )

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Descend on batches of these rows, in `n_epochs` passes over all of them.

        Parameters
        ----------
        X : (n, d) array (also memory-mapped) or CSR
            X may also be `ChunkedRows`, which contain targets: one pass draws a sample that
            determines the bandwidth and the map of the rows, and every pass takes batches in the
            order of the rows, which should therefore not be sorted by label.
        y : (n,) labels; for regression (n,) or (n, q) targets
        sample_weight : (n,), optional
            Weights of the rows in the loss, divided by their mean. The bandwidth and the map of
            the rows do not depend on them.
        trace : Trace, optional
            Receives the mean loss of the batch, the number of rows seen and the model after
            each step, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, the descent fails with this step size or ridge, or the
            checkpoint belongs to another fit.

        Notes
        -----
        Batches are drawn once, from all copies of the rows; each pass takes them in another order.
        With several passes, the function values at all rows are kept (8 q bytes each), so that a
        pass evaluates only the blocks that were added since the last one.

        With nu > 0, preconditioner and loss "log" or "squared", passes from the sixth on take steps
        of Newton's method with step sizes 1, 1/2, 1/3, ..., which approach the minimum, instead of
        `step_size` and `step_decay`. Larger blocks and batches bring the fit nearer to the minimum:
        on 300 rows of moons with nu=0.01 the root mean square distance of the function values from
        those at the minimum is .005 after 64 passes with the defaults, and .036 with batches of 100
        rows and blocks of 512 features; after 4 passes the distances are .46 and .56. In other
        cases use preconditioned=False, step_decay=1 and step_size between 1/nu and 2/nu to converge
        (Theorem 6 of the paper).
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            return self._fit_chunks(chunks, deadline, trace)

        def predict(rows: Any) -> np.ndarray:
            self._function = descent.averaged()
            return self.predict(rows)

        with trace.phase("prepare"):
            X, y = self._checked(X, y, reset=True)
            weight = self._weights(X, sample_weight)
            weight = None if weight is None else relative_weights(weight)
            self._learn_targets(y, weight)
            weight = self._with_class_weights(y, weight)
            weight = None if weight is None else relative_weights(weight)
            self._start_descent(X)
            n_rows = X.shape[0]
            n = n_rows * self.n_copies
            order = np.random.RandomState(self.seed_).permutation(n)
            batch_indices = np.array_split(order, -(-n // self.batch_size))
            n_steps = self.n_epochs * len(batch_indices)
            descent = self._configured_descent([len(rows) for rows in batch_indices])
            data = fingerprint(X, y, *([] if weight is None else [weight]))
            checkpoint = self._open_checkpoint(data)
        with trace.phase("step"):
            while descent.n_steps < n_steps:
                epoch, position = divmod(descent.n_steps, len(batch_indices))
                epoch_rng = np.random.RandomState((self.seed_ + 1 + epoch) % 2**32)
                batch_number = epoch_rng.permutation(len(batch_indices))[position]
                # Rows are read in the order of the file, which is faster for memory maps.
                copies, rows = np.divmod(np.sort(batch_indices[batch_number]), n_rows)
                memory = descent.memories[batch_number] if descent.memories else None
                prepared = self._prepare_rows(X[rows], rows, copies)
                loss = descent.step(
                    prepared,
                    self._targets(y[rows]),
                    memory,
                    weight=None if weight is None else weight[rows],
                    n_shards=self.n_shards,
                    compute=self._run_tasks,
                )
                trace(loss=loss, samples=descent.n_rows, predict=predict)
                if checkpoint is not None and (checkpoint.is_due() or deadline.passed):
                    checkpoint.write(descent.state())
                if deadline.passed:
                    break
        if checkpoint is not None and descent.n_steps == n_steps:
            checkpoint.remove()
        self._finish(trace)
        return self

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return True

    @abstractmethod
    def _learn_chunks(self, rows: ChunkedRows, seed: int) -> tuple[Survey, RowWeights | None]:
        """Survey rows in chunks and learn their targets.

        Returns the survey, and the function that gives the weights of rows, or None if all are 1.
        """

    def _fit_chunks(self, rows: ChunkedRows, deadline: Deadline, trace: Trace) -> Self:
        with trace.phase("survey"):
            seed = check_random_state(self.random_state).randint(2**31)
            survey, row_weights = self._learn_chunks(rows, seed)
        with trace.phase("prepare"):
            self.n_features_in_ = rows.n_features
            self._start_descent(survey.sample)
            b, n = self.batch_size, survey.n
            batch_sizes = [min(b, n - first_row) for first_row in range(0, n, b)] * self.n_copies
            n_steps = self.n_epochs * len(batch_sizes)
            descent = self._configured_descent(batch_sizes)
            checkpoint = self._open_checkpoint(survey.checksum)
        with trace.phase("step"):
            for step, (copy, first_row, X, y) in enumerate(self._batches(rows)):
                if step < descent.n_steps:  # the fit that wrote the checkpoint has done this step
                    continue
                self.row_map_.require_moderate(X)
                targets = self._targets(y)
                row_numbers = np.arange(first_row, first_row + len(y))
                loss = descent.step(
                    self._prepare_rows(X, row_numbers, np.full(len(y), copy)),
                    targets,
                    descent.memories[step % len(batch_sizes)] if descent.memories else None,
                    weight=None if row_weights is None else row_weights(y),
                    n_shards=self.n_shards,
                    compute=self._run_tasks,
                )
                trace(loss=loss, samples=descent.n_rows)
                if checkpoint is not None and (checkpoint.is_due() or deadline.passed):
                    checkpoint.write(descent.state())
                if deadline.passed:
                    break
        if checkpoint is not None and descent.n_steps == n_steps:
            checkpoint.remove()
        self._finish(trace)
        return self

    def _batches(self, rows: ChunkedRows) -> Iterator[tuple[int, int, Any, np.ndarray]]:
        """Yield copy, number of the first row, X and y of each batch of consecutive rows."""
        for k in range(self.n_epochs * self.n_copies):
            for i, block in enumerate(batches(rows, self.batch_size)):
                assert block.y is not None  # the survey has refused rows without targets
                yield k % self.n_copies, i * self.batch_size, block.X, block.y

    def _configured_descent(self, batch_sizes: list[int]) -> DoublyStochastic:
        """The descent, with its memory for `n_epochs` passes over batches of these sizes."""
        n_steps = self.n_epochs * len(batch_sizes)
        if self.average:
            self._descent.average_from = n_steps - max(1, round(self.average * n_steps))
        if self.preconditioned and self.nu and LOSSES[self._loss_name].curvature is not None:
            self._descent.newton_from = _FIRST_ORDER_PASSES * len(batch_sizes)
        if self.n_epochs > 1:
            self._descent.memories = [Memory(size, self.n_outputs_) for size in batch_sizes]
        return self._descent

    def _is_first_chunk(self) -> bool:
        return not hasattr(self, "_descent")

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        is_first = self._is_first_chunk()
        if self.average:
            raise ValueError(
                f"average is {self.average:g}, but a stream has no last step: "
                "partial_fit needs average=0"
            )
        chunk = 1 if is_first else int(self.n_chunks_) + 1
        try:
            X, y = self._checked(X, y, reset=is_first)
        except ValueError as error:
            row = first_non_finite(X, y)
            if row is None:
                raise
            raise ValueError(f"chunk {chunk}, row {row + 1}: {error}") from None
        weight = self._weights(X, sample_weight)
        if is_first:
            if classes is None:
                self._learn_targets(y, weight)
            else:
                self._learn_targets(np.asarray(classes), None)
        elif classes is not None:
            class_labels.require_same_classes(self, classes)
        targets = self._targets(y)
        weight = self._with_class_weights(y, weight)
        if is_first:
            self._start_descent(X)
        trace = Trace()
        with trace.phase("step"):
            n_rows, rows_before = X.shape[0], self._descent.n_rows // self.n_copies
            n = n_rows * self.n_copies
            for batch in np.array_split(np.arange(n), -(-n // self.batch_size)):
                copies, rows = np.divmod(batch, n_rows)
                prepared = self._prepare_rows(X[rows], rows_before + rows, copies)
                self._descent.step(
                    prepared,
                    targets[rows],
                    weight=None if weight is None else weight[rows],
                    n_shards=self.n_shards,
                    compute=self._run_tasks,
                )
        self.n_chunks_: int = chunk
        self._finish(trace)
        return self

    def _run_tasks(
        self, function: Callable[..., Any], tasks: list[tuple[Any, ...]]
    ) -> Iterator[Any]:
        return results_in_order(function, tasks, self.n_jobs)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        multi_output = self.__sklearn_tags__().target_tags.multi_output
        X, y = validate_data(
            self,
            X,
            y,
            dtype=[np.float32, np.float64],
            multi_output=multi_output,
            y_numeric=multi_output,
            reset=reset,
        )
        if not reset:
            self.row_map_.require_moderate(X)
        return X, y

    def _weights(self, X: Any, sample_weight: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        return checked_weights(sample_weight, X.shape[0])

    def _with_class_weights(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Weights of rows times those of their classes; None if all are 1."""
        return weight

    def _start_descent(self, X: Any) -> None:
        """Learn the seed, the map of the rows and the bandwidth from the first rows."""
        rng = check_random_state(self.random_state)
        self.seed_ = int(rng.randint(2**31 - 1))
        self.virtual_ = None
        if self.virtual is not None:
            self.virtual_ = VirtualExamples(self.virtual, self.virtual_size, X.shape[1], self.seed_)
        self.row_map_ = RowMap(
            self.unit_norm, self.pca_components, centred=self.kernel not in ("poly", "convolution")
        )
        self.row_map_.fit(X)
        rng = np.random.RandomState(self.seed_)
        # The kernel of x with gamma equals the kernel of scale * x with gamma / scale^power.
        family = KERNELS.get(self.kernel, RBF)
        gamma_unit = self.row_map_.scale**family.gamma_power
        if self.row_map_.transforms_rows or gamma_unit != 1.0:
            sample = rng.choice(X.shape[0], min(SAMPLE_ROWS, X.shape[0]), replace=False)
            X = self.row_map_(X[np.sort(sample)])
        if self.gamma == "median":
            scaled_gamma = family.default_gamma(median_gamma(X, rng))
        elif self.gamma == "scale":
            scaled_gamma = make_kernel(family.name, X).gamma  # type: ignore[attr-defined]
        elif self.gamma == "auto":
            scaled_gamma = family.default_gamma(1.0 / X.shape[1]) / gamma_unit
        else:
            scaled_gamma = float(self.gamma) / gamma_unit
        self.gamma_ = scaled_gamma * gamma_unit
        self.features_ = seeded_features(
            self.kernel,
            X.shape[1],
            self.block_size,
            self.seed_,
            scaled_gamma,
            smoothness=self.smoothness,
            degree=self.degree,
            coef0=self.coef0,
            cache_mb=self.cache_mb,
        )
        self._descent = DoublyStochastic(
            self.features_,
            self._loss_name,
            self.n_outputs_,
            nu=self.nu,
            step_size=self.step_size,
            step_decay=self.step_decay,
            ridge=self.ridge,
            preconditioned=self.preconditioned,
            max_blocks=self.max_blocks,
        )
        self.n_chunks_ = 0

    def _prepare_rows(self, X: Any, rows: np.ndarray, copies: np.ndarray) -> Any:
        """Map copies of rows X : (b, d), given the numbers of rows and copies : (b,)."""
        if self.virtual_ is not None:
            X = X.toarray() if sp.issparse(X) else X
            X = self.virtual_(X.astype(np.float32, copy=False), rows, copies)
        return self.row_map_(X)

    def _finish(self, trace: Trace) -> None:
        self._descent.memories = []
        self._function = self._descent.averaged()
        require_finite(self, coef_=[A.sum() for A in self._function.coef])
        self.n_iter_, self.n_seen_ = self._descent.n_steps, self._descent.n_rows
        self.n_parameters_ = sum(A.size for A in self._function.coef)
        self.model_bytes_ = 4 * self.n_parameters_ + self.row_map_.nbytes
        n_axis_entries = 0 if self.row_map_.axes is None else self.row_map_.axes.size
        multiplications = sum(self.features_.multiplications + A.size for A in self._function.coef)
        self.prediction_flops_ = (
            self.predict_votes * (n_axis_entries + multiplications) / self.n_features_in_
        )
        self.timings_ = dict(trace.timings)

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features of each block, (blocks, block_size, q) float32."""
        return np.float32(self._function.scale) * np.array(self._function.coef)

    def _open_checkpoint(self, data: str) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        if not isinstance(self.random_state, Integral):
            raise ValueError(
                f"random_state is {self.random_state!r}, should be a whole number with a "
                "checkpoint, because a continuation needs the same batches"
            )
        parameters = {k: v for k, v in self.get_params().items() if k not in _CHANGEABLE}
        checkpoint = Checkpoint(self.checkpoint, self.checkpoint_s, {**parameters, "data": data})
        state = checkpoint.read()
        if state is not None:
            self._descent.restore(state)
        return checkpoint

    def _values(self, X: Any) -> np.ndarray:
        """f at rows X : (u, d); (u, q) float64."""
        check_is_fitted(self)
        if (chunks := rows_in_chunks(X)) is not None:
            return np.concatenate([self._values(block.X) for block in chunks.blocks()])
        X = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        self.row_map_.require_moderate(X)
        values = np.zeros((X.shape[0], self.n_outputs_))
        for start in range(0, len(values), _PREDICTED_ROWS):
            batch = slice(start, start + _PREDICTED_ROWS)
            # All rows get the same deformations, so that a value does not depend on other rows.
            rows = np.zeros(len(values[batch]), np.intp)
            for copy in range(self.predict_votes):
                prepared = self._prepare_rows(X[batch], rows, np.full(len(rows), copy))
                values[batch] += self._function.values(prepared)
        return values / self.predict_votes
