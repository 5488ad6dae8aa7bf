"""Probabilities of classes, from decision values of rows that the model was not fitted to.

J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons to Regularized
Likelihood Methods" (Advances in Large Margin Classifiers, 1999): the probability is a
non-decreasing sigmoid of the decision value, fitted to the values of held-out rows. Each of several
classes has a sigmoid against the rest, and the values of the sigmoids are divided by their sum;
models for pairs of classes have a sigmoid for each pair, and the probabilities of the pairs are
coupled (`kbench.class_labels.coupled_probabilities`).

The decision values of local models, as in early DC-SVM, may have another scale in each region, so a
region whose rows show this has its own sigmoids.
"""

import itertools
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.errors import warn, without_warnings
from kbench.intrinsics.products import matmul
from kbench.methods.base.finished_fit import replace_if_worse_than_constant, require_finite
from kbench.prediction import group_rows
from kbench.trace import Deadline, Trace
from kbench.validated import checked_arrays

TOO_FEW_ROWS = "probability=True needs at least 2 rows of each class"
_FOLDS = 5  # parts of the rows that are held out in turn; 5 as in LIBSVM
# A region has its own sigmoid for a class if at least `_MIN_REGION_ROWS` of its rows are in the
# class and as many are not, and if the log-likelihood rises by more than `_MIN_GAIN` nats, Akaike's
# penalty for two parameters. Higher values let fewer regions differ from the common
# sigmoid, lower values fit noise. Log loss of held-out rows (in brackets with one sigmoid for all
# regions) on covtype, ijcnn1 and letter: early DC-SVM, 16 clusters of 6,000 rows, .4635 (.4938),
# .0788 (.0793), .4619 (.4402); DC-Pred++, 16 leaves, .6201 (.6890), .1046 (.1025), 2.41 (3.10);
# no script records these values. `_MIN_REGION_ROWS` is set by hand.
_MIN_REGION_ROWS = 10
_MIN_GAIN = 2.0


class Probabilities:
    """Mixin with the parameter `probability`, `predict_proba` and `predict_log_proba`.

    `fit` calls `_calibrate` last. A class without the parameter has no probabilities.
    """

    classes_: np.ndarray
    timings_: dict[str, float]
    _sigmoids: np.ndarray  # (regions, m, 2)
    # Whether `converged_` is about the problem of all rows, not only of a chosen subset.
    solves_all_rows: ClassVar[bool] = True

    def _regions(self, X: Any) -> np.ndarray | None:
        """Number of the local model that decides each validated row; None for a single model."""
        return None

    @property
    def _takes_pairs(self) -> bool:
        """Whether each pair of several classes has its own sigmoid."""
        return False

    def _values_by_class(self, X: Any) -> np.ndarray:
        """Decision values (u, 1) for two classes, else (u, n_classes)."""
        values: np.ndarray = self.decision_function(X)  # type: ignore[attr-defined]
        return values.reshape(len(values), -1)

    def _calibrated_values(self, X: Any) -> np.ndarray:
        """The decision values that sigmoids map, by class or by pair of classes."""
        return self._values_by_class(X)

    def _calibrate(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        trace: Trace,
        deadline: Deadline | None = None,
        **parameters: Any,
    ) -> None:
        """Finish a fit: check its numbers, keep a stopped model only if it beats the most frequent
        class, and fit the sigmoids by five further fits if `probability` is set.

        X : (n, d) array or CSR, checked; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,) or None
        trace : Receives the phase "calibrate"
        deadline : Its remaining seconds are the `max_time` of the further fits
        **parameters : Parameters in which the further fits differ from this fit
        """
        require_finite(self, X)
        replace_if_worse_than_constant(self, X, y, sample_weight, deadline)
        if not self._wants_probabilities:
            return
        with trace.phase("calibrate"), checked_arrays(self):
            index = class_labels.index_of(self.classes_, np.asarray(y).ravel())
            weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
            rows = np.arange(len(index)) if weight is None else np.flatnonzero(weight > 0.0)
            values = self._held_out_values(X, index, weight, rows, deadline, parameters)
            weight = None if weight is None else weight[rows]
            n_classes = len(self.classes_)
            if self._takes_pairs:
                self._sigmoids = fitted_pair_sigmoids(values[rows], index[rows], n_classes, weight)
            else:
                regions = self._regions(X)
                if regions is not None:
                    regions = regions[rows]
                self._sigmoids = fitted_sigmoids(
                    values[rows], index[rows], n_classes, weight, regions
                )
        self.timings_ = dict(trace.timings)

    def _held_out_values(
        self,
        X: Any,
        index: np.ndarray,
        weight: np.ndarray | None,
        rows: np.ndarray,
        deadline: Deadline | None,
        parameters: dict[str, Any],
    ) -> np.ndarray:
        """Decision values of `rows` by models of other rows; (n, m), 0 elsewhere."""
        from sklearn.model_selection import StratifiedKFold  # takes 40 ms to import

        sizes = np.bincount(index[rows], minlength=len(self.classes_))
        n_folds = min(_FOLDS, int(sizes.min()))
        if n_folds < 2:
            warn(
                f"class {self.classes_[sizes.argmin()]} has one row, so that none of it can be "
                "held out; the sigmoids of probability=True are fitted to decision values of "
                "training rows, which are farther from zero than those of new rows"
            )
            return self._calibrated_values(X)
        if n_folds < _FOLDS:
            warn(
                f"class {self.classes_[sizes.argmin()]} has {n_folds} rows, which are too few for "
                f"the {_FOLDS} folds of probability=True; {n_folds} folds are used"
            )
        fold_model = clone(self).set_params(probability=False, **parameters)
        pairwise = fold_model.__sklearn_tags__().input_tags.pairwise
        seed = getattr(self, "random_state", None)
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        values: np.ndarray | None = None
        for training, held_out in folds.split(index[rows, None], index[rows]):
            training, held_out = rows[training], rows[held_out]
            fit_X, held_out_X = _safe_indexing(X, training), _safe_indexing(X, held_out)
            if pairwise:
                fit_X, held_out_X = fit_X[:, training], held_out_X[:, training]
            if deadline is not None:
                seconds = deadline.seconds_left()
                seconds = seconds if seconds is None else max(seconds, 1e-6)  # 0 is no valid limit
                fold_model.set_params(max_time=seconds)
            weights = {} if weight is None else {"sample_weight": weight[training]}
            with without_warnings():  # the fit to all rows says the same
                fold_model.fit(fit_X, self.classes_[index[training]], **weights)
            decision_values = fold_model._calibrated_values(held_out_X)
            if values is None:
                values = np.zeros((len(index), decision_values.shape[1]))
            values[held_out] = decision_values
        assert values is not None
        return values

    @property
    def _wants_probabilities(self) -> bool:
        """Whether `probability` is set; SVC's default "deprecated" counts as False."""
        return getattr(self, "probability", False) not in (False, "deprecated")

    def _has_probabilities(self) -> bool:
        if not self._wants_probabilities:
            raise AttributeError("predict_proba is not available when probability=False")
        return True

    @available_if(lambda self: self._has_probabilities())
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes at rows X : (u, d); (u, n_classes).

        They are sigmoids of the decision values, which are divided by their sum if there are
        several classes, or coupled if the model has a decision function for each pair of classes.
        """
        return self._probabilities(X)

    def _probabilities(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if not hasattr(self, "_sigmoids"):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        values = self._calibrated_values(X)
        if self._takes_pairs:
            n_classes = len(self.classes_)
            return class_labels.coupled_probabilities(values, self._sigmoids[0], n_classes)
        regions = self._regions(X) if len(self._sigmoids) > 1 else None
        sigmoids = self._sigmoids[0] if regions is None else self._sigmoids[regions]
        return class_labels.probabilities(values, sigmoids)

    @available_if(lambda self: self._has_probabilities())
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; (u, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def fitted_sigmoids(
    values: np.ndarray,
    index: np.ndarray,
    n_classes: int,
    weight: np.ndarray | None = None,
    regions: np.ndarray | None = None,
) -> np.ndarray:
    """Platt's a and b of 1 / (1 + exp(a f + b)) for decision values f of held-out rows.

    Parameters
    ----------
    values : (n, m), m is 1 for two classes, else n_classes
    index : (n,) class numbers
    weight : (n,), optional
    regions : (n,) ints, optional. Region of each row, for sigmoids by region.

    Returns
    -------
    (r, m, 2), r is 1 without regions. A region without its own sigmoids gets those of all rows.

    Warns
    -----
    UserWarning
        The values of held-out rows fall where they should rise, which may happen with few rows;
        then the sigmoid is the constant of highest likelihood.
    """
    from sklearn.calibration import _sigmoid_calibration  # takes 40 ms to import

    positive = class_labels.indicators(index, n_classes).astype(np.float64)
    weight = np.ones(len(index)) if weight is None else weight

    def fit_sigmoid(rows: Any, q: int) -> np.ndarray:
        a, b = _sigmoid_calibration(values[rows, q], positive[rows, q], weight[rows])
        return np.array([a, b]) if a <= 0.0 else _constant_sigmoid(positive[rows, q], weight[rows])

    def log_likelihood(sigmoid: np.ndarray, rows: np.ndarray, q: int) -> float:
        z = (sigmoid[0] * values[rows, q] + sigmoid[1]) * (2.0 * positive[rows, q] - 1.0)
        return float(matmul(-weight[rows], np.logaddexp(0.0, z)))

    m = values.shape[1]
    common = np.array([fit_sigmoid(slice(None), q) for q in range(m)])
    if not common[:, 0].all():
        warn(
            f"the decision values of {len(index)} held-out rows do not rise with the class, so "
            "that its probability is the same for all rows; more rows would show how it rises"
        )
    if regions is None:
        return common[None]
    sigmoids = np.tile(common, (int(regions.max()) + 1, 1, 1))
    for region, rows in group_rows(regions):
        counts = positive[rows].sum(axis=0)
        for q in np.flatnonzero(
            np.minimum(counts, len(rows) - counts) >= _MIN_REGION_ROWS
        ).tolist():
            region_sigmoid = fit_sigmoid(rows, q)
            gain = log_likelihood(region_sigmoid, rows, q) - log_likelihood(common[q], rows, q)
            if gain > _MIN_GAIN:
                sigmoids[region, q] = region_sigmoid
    return sigmoids


def _constant_sigmoid(positive: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The constant sigmoid: a = 0 and the b of highest likelihood for Platt's smoothed targets.

    positive, weight : (n,). Returns (2,).
    """
    n_positive, n = matmul(weight, positive), weight.sum()
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n - n_positive + 2.0)
    p = (n_positive * high + (n - n_positive) * low) / n
    return np.array([0.0, np.log((1.0 - p) / p)])


def fitted_pair_sigmoids(
    values: np.ndarray, index: np.ndarray, n_classes: int, weight: np.ndarray | None
) -> np.ndarray:
    """As `fitted_sigmoids` for the values (n, m) of all m pairs of classes; (1, m, 2).

    The sigmoid of a pair is fitted to the rows of its two classes.
    """
    sigmoids = []
    for p, (a, b) in enumerate(itertools.combinations(range(n_classes), 2)):
        rows = np.flatnonzero((index == a) | (index == b))
        row_weight = None if weight is None else weight[rows]
        is_first = (index[rows] == a).astype(np.intp)
        sigmoids.append(fitted_sigmoids(values[rows, p, None], is_first, 2, row_weight)[0])
    return np.stack(sigmoids, axis=1)
