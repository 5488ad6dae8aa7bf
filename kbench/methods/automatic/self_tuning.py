"""What estimators that choose their parameters themselves have in common."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.clustering.copies import without_copies
from kbench.kernels.constraints import KernelName
from kbench.methods.base.standardised import standardised_rows
from kbench.methods.base.weights import checked_weights, relative_weights
from kbench.metric import LearnedMetric
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, TakesSparseRows, choice, validate_data
from kbench.width_search import constants
from kbench.width_search.gram import PreparedRows
from kbench.width_search.search import FirstRung, WidthSearchResult, search
from kbench.width_search.tasks import Classification, Regression

# Coverage of the interval of the estimated error. Set by hand.
_CONFIDENCE = 0.95


@dataclass(eq=False, repr=False)
class SelfTuning(TakesSparseRows, BaseEstimator):
    """Base of the self-tuning estimators: choice of metric, scaler and kernel, and the search."""

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [KernelName(["exponential"]), choice("auto")],
        "time_budget": [POSITIVE, None],
        "metric": [choice("auto", "small"), None],
        "scaler": [choice("auto"), None],
        "random_state": ["random_state"],
    }

    kernel: str = "auto"
    _: KW_ONLY
    time_budget: float | None = None
    metric: str | None = "small"
    scaler: str | None = "auto"
    random_state: Any = None

    def _task(
        self, targets: np.ndarray, factor: np.ndarray | None = None
    ) -> Classification | Regression:
        """What the search minimises, for class numbers or targets (m,) of some rows.

        factor : (m,) or None
            Weights of the rows and of their classes.
        """
        return Regression(targets, constants.GRID_TUBE, factor)

    def _regression_data(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Rows and targets of a regression; a ValueError for fewer than two."""
        X, y = validate_data(self, X, y, y_numeric=True, ensure_min_samples=2)
        return X, np.asarray(y, np.float64)

    def _searched_rows(
        self, X: Any, y: np.ndarray, sample_weight: Any = None
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """The rows, each once, with their weights; None if all weights are equal.

        Weights of rows have mean 1, because C, which is chosen, determines their scale. Copies of a
        row are one row with the sum of their weights; otherwise models would be validated on rows
        that they have seen.
        """
        self.n_copies_ = 0
        weight = None
        if sample_weight is not None:
            weight = relative_weights(checked_weights(sample_weight, len(y)))
        distinct = without_copies(X, y)
        if distinct is None:
            return X, y, weight
        rows, group = distinct
        self.n_copies_ = len(y) - len(rows)
        weight = np.bincount(group, weight) * (len(rows) / len(y))
        is_uniform = np.all(weight == weight[0])
        return X[rows], y[rows], None if is_uniform and sample_weight is None else weight

    def _generator(self) -> np.random.Generator:
        if isinstance(self.random_state, np.random.RandomState):
            return np.random.default_rng(self.random_state.randint(2**31 - 1))
        return np.random.default_rng(self.random_state)

    def _search(
        self,
        X: Any,
        targets: np.ndarray,
        rng: np.random.Generator,
        deadline: Deadline,
        trace: Trace,
        factor: np.ndarray | None,
        compared_entries: float = np.inf,
    ) -> tuple[Any, WidthSearchResult, Any, PreparedRows]:
        """The rows in the metric that was kept, and the result of the search on them.

        `factor` is as in `_task`, `compared_entries` as in `search`.
        """
        X, rows, first = self._map_rows(X, targets, rng, deadline, trace, factor)
        task = self._task(targets, factor) if first is None else first.task
        result = search(rows, task, rng, deadline, trace, first, compared_entries)
        return X, result, task, rows

    def _search_deadline(self, trace: Trace) -> Deadline:
        """The deadline of the search, a fraction of `time_budget`."""
        if self.time_budget is None:
            return Deadline(None, trace)
        return Deadline(constants.SEARCH_BUDGET * self.time_budget, trace)

    def _set_search_attributes(self, result: WidthSearchResult, trace: Trace) -> None:
        """Set the attributes that describe the search."""
        self.search_results_ = {name: np.array(column) for name, column in result.columns.items()}
        self.gamma_, self.C_ = result.gamma, result.C
        trace(chosen_gamma=self.gamma_, chosen_C=self.C_)

    def _map_rows(
        self,
        X: Any,
        targets: np.ndarray,
        rng: np.random.Generator,
        deadline: Deadline,
        trace: Trace,
        factor: np.ndarray | None = None,
    ) -> tuple[Any, PreparedRows, FirstRung | None]:
        """The rows in the learned metric or standardised, where that helps; sets maps and kernel.

        Also returns the rows as the search takes them, and its first rung if that was measured.
        """
        # A metric of few rows and columns costs a few seconds.
        (n, d), is_csr = X.shape, sp.issparse(X)
        is_small = n <= constants.SMALL_ROWS and d <= constants.SMALL_COLUMNS
        if is_small:
            X = X.toarray() if is_csr else X
        compares_kernels = self.kernel == "auto" and is_small
        self.kernel_ = "rbf" if self.kernel == "auto" else self.kernel
        self.metric_: LearnedMetric | None = None
        self.scaler_: StandardScaler | None = None
        if self.metric == "auto" or (self.metric == "small" and is_small):
            self.metric_ = self._useful_metric(X, targets, rng, deadline)
            if self.metric_ is not None:
                X = self.metric_.mapped(X)
        weight_metric = None
        # Learning a weight of each column makes CSR rows dense, so that fewer columns are allowed.
        max_columns = constants.SMALL_COLUMNS if is_csr else constants.WEIGHTS_COLUMNS
        if self.metric == "small" and n > constants.SMALL_ROWS and d <= max_columns:
            # The generator is spawned, so that the search draws the same numbers without weights.
            weight_metric = self._promising_weights(X, targets, rng.spawn(1)[0], deadline)
        scaler = None
        if self.scaler is not None and self.metric_ is None:
            scaler = _scaler_of(X)
        rows = PreparedRows(X, self.kernel_, rng)
        if scaler is None and weight_metric is None and not compares_kernels:
            return X, rows, None
        order = self._task(targets, factor).order(rng)

        def measure_first_rung(rows: PreparedRows, divisor: int) -> FirstRung:
            task, rung_deadline = self._task(targets, factor), deadline.fraction(divisor)
            return FirstRung(rows, task, order, rung_deadline, trace)

        # Time is divided equally between these first rungs and the rest of the search.
        has_later_rung, rows_before_scaling = compares_kernels or weight_metric is not None, X
        first = measure_first_rung(rows, 2 + (scaler is not None) + has_later_rung)
        if scaler is not None:
            standardised = standardised_rows(scaler, X)
            other_rows = PreparedRows(standardised, self.kernel_, rng)
            other_first = measure_first_rung(other_rows, 2 + has_later_rung)
            if other_first.is_lower_than(first, constants.SCALER_GAIN):
                self.scaler_, X, rows, first = scaler, standardised, other_rows, other_first
        if compares_kernels:
            other_rows = PreparedRows(X, "laplacian", rng)
            other_first = measure_first_rung(other_rows, 2)
            if other_first.is_lower_than(first):
                self.kernel_, rows, first = "laplacian", other_rows, other_first
        if weight_metric is not None:
            mapped = weight_metric.mapped(rows_before_scaling)
            other_rows = PreparedRows(mapped, self.kernel_, rng)
            other_first = measure_first_rung(other_rows, 2)
            if other_first.is_lower_than(first, constants.WEIGHTS_GAIN):
                self.metric_, self.scaler_ = weight_metric, None
                X, rows, first = mapped, other_rows, other_first
        return X, rows, first

    def _promising_weights(
        self, X: Any, targets: np.ndarray, rng: np.random.Generator, deadline: Deadline
    ) -> LearnedMetric | None:
        """Weights of the columns, learned on a sample; None if a trial on fewer rows gains little.

        Classes are learned as targets -1 and +1, whose squared errors vary less than error rates.
        """
        if _is_too_late(deadline):
            return None
        sample = self._task(targets).order(rng)[: constants.SMALL_ROWS]
        X, y = X[sample], targets[sample]
        if self._kind == "classification":
            classes, index = np.unique(y, return_inverse=True)
            y = class_labels.signs(index, len(classes))
        trial_rows = slice(2 * constants.WEIGHTS_ROWS)
        if np.all(y[trial_rows] == y[0]):
            return None
        metric = LearnedMetric(
            "diagonal",
            kernel="laplacian" if self.kernel_ == "laplacian" else "rbf",
            task="regression",
            search_rows=constants.WEIGHTS_SEARCH,
            random_state=int(rng.integers(2**31)),
        )
        trials = (
            clone(metric).set_params(n_rounds=n_rounds, validation_fraction=0.5)
            for n_rounds in (0, 1)
        )
        before, after = (
            min(each["error"] for each in trial.fit(X[trial_rows], y[trial_rows]).scores_)
            for trial in trials
        )
        is_promising = after < (1.0 - constants.WEIGHTS_TRIAL) * before
        return metric.fit(X, y) if is_promising else None

    def _useful_metric(
        self, X: Any, targets: np.ndarray, rng: np.random.Generator, deadline: Deadline
    ) -> LearnedMetric | None:
        """A metric learned from all rows, if one learned from two thirds of a sample lowers the
        error of a self-tuning model on the other third; else None."""
        sample = self._task(targets).order(rng)[: constants.METRIC_ROWS]
        held_out, training = np.split(np.arange(len(sample)), [len(sample) // constants.FOLDS[1]])
        y = targets[sample]
        if _is_too_late(deadline) or len(np.unique(y[training])) < 2 or len(held_out) < 2:
            return None
        options: dict[str, Any] = {
            "task": self._kind,
            "kernel": "auto" if self.kernel in ("rbf", "auto") else self.kernel,
            "scaling": "auto",
            "random_state": int(rng.integers(2**31)),
        }
        metric = LearnedMetric(**options).fit(X[sample[training]], y[training])
        task, losses = self._task(targets), []
        as_given, mapped = X[sample], metric.mapped(X[sample])
        for Z, scaler in ((as_given, self.scaler), (mapped, None)):
            model = self._model_without_metric(scaler, deadline.seconds_left())
            predicted = model.fit(Z[training], y[training]).predict(Z[held_out])
            losses.append(task.losses_of(predicted, sample[held_out]))
        if _is_too_late(deadline) or not improves(*losses):
            return None
        return LearnedMetric(**options).fit(X, targets)

    def _model_without_metric(self, scaler: str | None, seconds: float | None) -> Any:
        """An unfitted model of this kind that chooses its parameters on rows as they are."""
        options = {
            "metric": None,
            "scaler": scaler,
            "time_budget": None if seconds is None else max(seconds, 1e-3),  # 0 is not valid
            "random_state": 0,
            "class_weight": None,
            "probability": False,
        }
        parameters = self.get_params(deep=False)
        return clone(self).set_params(**{k: v for k, v in options.items() if k in parameters})

    @property
    @abstractmethod
    def _kind(self) -> str:
        """The kind of targets, "classification" or "regression"."""

    def _rows_to_predict(self, X: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        X = validate_data(self, X, reset=False)
        if self.scaler_ is not None:
            # A scaler with means was chosen on dense rows, so CSR rows are made dense for it.
            dense = sp.issparse(X) and self.scaler_.with_mean
            return standardised_rows(self.scaler_, X.toarray() if dense else X)
        return X if self.metric_ is None else self.metric_.mapped(X)

    @property
    def prediction_flops_(self) -> float:
        """Cost of predicting one row with the final model, in units of a linear model's."""
        return float(self.best_estimator_.prediction_flops_)

    @property
    def model_bytes_(self) -> int:
        """Bytes that prediction keeps."""
        check_is_fitted(self, "best_estimator_")
        metric_bytes = 0 if self.metric_ is None else self.metric_.nbytes_
        return int(self.best_estimator_.model_bytes_) + metric_bytes


def _is_too_late(deadline: Deadline) -> bool:
    """Whether too little time is left to learn a metric."""
    seconds_left = deadline.seconds_left()
    return seconds_left is not None and seconds_left < constants.METRIC_SECONDS


def improves(before: np.ndarray, after: np.ndarray) -> bool:
    """Whether the losses `after` (v,) are lower than `before`, of another model on the same rows.

    The mean of the paired differences must exceed 2 % of the mean loss and 1.5 standard errors. A
    few rows with large errors, which decide a comparison of two means, raise that standard error.
    """
    differences = before - after
    standard_error = differences.std(ddof=1) / np.sqrt(len(differences))
    min_gain = max(
        constants.METRIC_GAIN * before.mean(), constants.STANDARD_ERRORS * standard_error
    )
    return bool(differences.mean() > min_gain)


def _scaler_of(X: Any) -> StandardScaler | None:
    """A scaler of dense or CSR rows, if some columns hold measurements and their sizes differ.

    The size of a measurement is its deviation. Columns of two values, and columns that are mostly
    zero, as those of words are, hold no measurements: divided by their deviations, the rarest
    keywords of a text would count most. Their size is the distance of the two values, or the root
    mean square of the entries that are not zero.
    """
    n, is_csr = X.shape[0], sp.issparse(X)
    low, high = (_dense_vector(extreme) for extreme in (X.min(axis=0), X.max(axis=0)))
    if is_csr:
        is_inner = (X.data > low[X.indices]) & (X.data < high[X.indices]) & (X.data != 0.0)
        n_inner = np.bincount(X.indices[is_inner], minlength=X.shape[1])
        n_entries, squares = X.count_nonzero(axis=0), _dense_vector(X.multiply(X).sum(axis=0))
        n_inner += (n_entries < n) & (low < 0.0) & (high > 0.0)
    else:
        n_inner = np.count_nonzero((low < X) & (high > X), axis=0)
        n_entries, squares = np.count_nonzero(X, axis=0), np.einsum("ij,ij->j", X, X)
    is_mostly_zero = 2 * n_entries <= n
    if not np.any((n_inner > 0) & ~is_mostly_zero):
        return None
    # Without means, CSR rows stay sparse; distances are the same.
    scaler = StandardScaler(with_mean=not is_csr).fit(X)
    root_mean_square = np.sqrt(squares / np.maximum(n_entries, 1))
    sizes = np.where(
        is_mostly_zero, root_mean_square, np.where(n_inner > 0, scaler.scale_, high - low)
    )
    scaler.scale_ = np.where(sizes > 0.0, sizes, 1.0)
    return scaler if _have_different_scales(sizes[sizes > 0.0]) else None


def _dense_vector(values: Any) -> np.ndarray:
    """Dense numbers (d,) of a reduction of dense or CSR rows."""
    dense: np.ndarray = np.asarray(values.toarray() if sp.issparse(values) else values).ravel()
    return dense


def _have_different_scales(sizes: np.ndarray) -> bool:
    return len(sizes) > 1 and bool(sizes.max() > constants.MIN_SCALE_RATIO * sizes.min())


def normal_interval(error: float, relative_deviation: float) -> np.ndarray:
    """Normal interval of a mean squared error at 95 %; (2,). An error of nan gives [0, inf]."""
    if np.isnan(error):
        return np.array([0.0, np.inf])
    half_width = ndtri(0.5 + 0.5 * _CONFIDENCE) * relative_deviation * error
    return np.array([max(error - half_width, 0.0), error + half_width])


def wilson_interval(rate: float, n: int) -> np.ndarray:
    """Wilson's interval of an error rate measured on n rows, at 95 %; (2,). n = 0 gives [0, 1]."""
    if n == 0:
        return np.array([0.0, 1.0])
    z = ndtri(0.5 + 0.5 * _CONFIDENCE)
    centre = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half_width = z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    low = centre - half_width if rate > 0.0 else 0.0
    return np.array([low, min(centre + half_width, 1.0)])
