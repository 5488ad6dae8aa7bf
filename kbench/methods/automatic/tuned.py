"""Support vector machines that choose their parameters themselves.

`fit` searches kernel width and C on the training rows alone (`kbench.width_search`), then fits the
exact model to all rows, or early DC-SVM (Hsieh, Si and Dhillon, ICML 2014, equation 11) where the
exact one would take too long. The search follows the ideas of liquidSVM (Steinwart and Thomann,
arXiv:1702.06899, 2017): one kernel matrix for all C, warm starts, and for large data neighbourhoods
of random rows, in place of their Voronoi cells. A Gaussian process replaces their grid.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning

from kbench import class_labels
from kbench.errors import without_warnings
from kbench.methods.automatic.final_fit import FinalFit
from kbench.methods.automatic.self_tuning import SelfTuning, normal_interval, wilson_interval
from kbench.methods.automatic.smoother_models import smooth_by_larger_models
from kbench.methods.base.probability import TOO_FEW_ROWS, Probabilities, fitted_sigmoids
from kbench.methods.base.weights import checked_weights, class_weights, require_weighted_classes
from kbench.methods.divide.dc_svc import DCSVC
from kbench.methods.exact.kernel_svc import KernelSVC
from kbench.methods.exact.kernel_svr import KernelSVR
from kbench.trace import Deadline, Trace
from kbench.validated import choice, fit_context, usual, validate_data
from kbench.width_search import constants
from kbench.width_search.c_path import OutOfTime
from kbench.width_search.gram import PreparedRows
from kbench.width_search.rungs import folds_or_samples
from kbench.width_search.search import FEW_ROWS, WidthSearchResult
from kbench.width_search.tasks import Classification, Regression


@dataclass(eq=False, repr=False, kw_only=True)
class TunedKernelSVC(Probabilities, ClassifierMixin, SelfTuning):
    """Support vector classifier that chooses kernel width and C on the training rows.

    Parameters
    ----------
    kernel : str, default="auto"
        A kernel of `kbench.kernels.KERNELS` that is exponential in a distance. "auto" is "rbf",
        but, with at most 2,000 rows of at most 100 columns, "laplacian" if that has a clearly lower
        error in the first rung of the search.
    time_budget : float or None, default=None
        Wall seconds that `fit` should take. The search ends after half of it (the
        comparison of larger models may take more), and early DC-SVM replaces the exact model if
        that is expected to take longer than the rest.
    scoring : {"accuracy", "balanced_accuracy"} or None, default=None
        What the search maximises; None is "accuracy".
    metric : {"small", "auto"} or None, default="small"
        "auto" learns a linear map of the features (`kbench.metric.LearnedMetric`) and keeps it if
        it lowers the error of held-out training rows. "small" does so for at most 2,000 rows of at
        most 100 columns, where that takes a few seconds. For more rows of at most 250 columns (100
        for CSR), it learns a weight of each column if a trial on 1,000 rows gains by that.
    scaler : {"auto"} or None, default="auto"
        "auto" divides columns of different scales by their deviations if that lowers the first
        rung's error; columns of two values by the distance of these, and columns that are mostly
        zero by the root mean square of their other entries.
    class_weight : dict, "balanced" or None, default=None
        Factors of C, in the search and of the final model; errors are counted without them.
    probability : bool, default=False
        Whether to fit the sigmoids of `predict_proba` to decision values of held-out rows. This
        takes two further fits to half of the rows, or one if there are more than 16,000 rows.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    kernel_ : str
    C_, gamma_ : float
    search_results_ : dict of str to arrays
        One entry for each model of the search: rung, rows ("fold", "sample", "cell"), n_rows,
        gamma, C, error, n_validation, solved. `pandas.DataFrame(search_results_)` is a table.
    cv_error_ : float
        Held-out error of the chosen parameters. It is too high because its models have fewer rows,
        and too low, by less than the width of its interval, as the lowest of a few tens of errors.
    cv_error_interval_ : (2,)
        Wilson interval of `cv_error_` at 95 %.
    best_estimator_ : KernelSVC or DCSVC
        It is fitted to fewer rows where the time allows no more: `reason_` says so.
    reason_ : str
        Which model was fitted in the end, and why.
    metric_ : LearnedMetric or None
        The map that was kept.
    n_copies_ : int
        Rows left out because they are copies of others, with the same target: they only add to
        the weight of those. Rows whose columns have few values never count as copies.
    scaler_ : StandardScaler or None
        The scaler of the columns that was kept.
    timings_ : dict of str to float
        Seconds of "search", "fit" and, with `probability`, "calibrate".
    n_features_in_ : int

    Notes
    -----
    The search takes 100 to 200 small models; its time grows with n only up to 16,000 rows, and
    with O(n d) beyond. Classes are taken by pairs, which share C and gamma. With more than 600
    pairs (35 classes) the search solves the pairs within groups of similar classes, 600 at each
    point or 6.5 for each class; a fifth of the rows then gives `cv_error_` for all classes.
    Features should have comparable scales.

    References
    ----------
    I. Steinwart, P. Thomann, "liquidSVM: A Fast and Versatile SVM Package", arXiv:1702.06899, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import TunedKernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = TunedKernelSVC(random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfTuning._parameter_constraints,
        "scoring": [choice("accuracy", "balanced_accuracy"), None],
        **usual("class_weight", "probability"),
    }

    _kind = "classification"

    scoring: str | None = None
    class_weight: dict | str | None = None
    probability: bool = False

    def _task(self, targets: np.ndarray, factor: np.ndarray | None = None) -> Classification:
        classes, index = np.unique(targets, return_inverse=True)
        balanced = self.scoring == "balanced_accuracy"
        return Classification(index, len(classes), balanced=balanced, factor=factor)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the parameters and fit the model.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Factors of C, which count relative to their mean. Errors are counted without them, and
            rows of weight 0 are left out.
        trace : Trace, optional
            Receives the phases, the validation error of every point, and what the final model
            reports.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, or fewer than two classes.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.time_budget, trace)
        X, y = validate_data(self, X, y)
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        class_factors = class_weights(self.class_weight, self.classes_, y)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, len(index))
            require_weighted_classes(self.classes_, index, sample_weight)
        X, y, weight = self._searched_rows(X, y, sample_weight)
        index = class_labels.index_of(self.classes_, y)
        factor = None
        if self.class_weight is not None or sample_weight is not None:
            factor = class_factors[index] * (1.0 if weight is None else weight)
        rng = self._generator()
        with trace.phase("search"):
            search_deadline = self._search_deadline(trace)
            Z, result, task, _ = self._search(
                X, index, rng, search_deadline, trace, factor, constants.CHEAP_VALUES
            )
            smooth_by_larger_models(
                Z, task, index, self.kernel_, result, rng, search_deadline, trace
            )
            if task.is_grouped and not search_deadline.passed:
                self._set_error_of_all_classes(result, Z, index, task, rng, search_deadline)
            self._set_search_attributes(result, trace)
            self.cv_error_ = result.error
            self.cv_error_interval_ = wilson_interval(result.error, result.n_validation)
        with trace.phase("fit"):
            final = FinalFit(
                make_model=partial(self._unfitted_model, result, rng),
                make_exact_model=partial(self._exact_model, result),
                losses=lambda model, rows: task.losses_of(
                    class_labels.index_of(self.classes_, model.predict(Z[rows])), rows
                ),
                X=Z,
                y=y,
                weight=weight,
                result=result,
                task=task,
                # Fits to halves of the rows for probabilities take about half as long as this fit,
                # so this one gets 1 / 1.5 of the time. Set by hand.
                deadline=deadline.fraction(1.5) if self._wants_probabilities else deadline,
                rng=rng,
                trace=trace,
            )
            self.best_estimator_, self.reason_ = final.run()
        if self._wants_probabilities:
            with trace.phase("calibrate"):
                self._sigmoids = self._calibrated(Z, index, weight, rng, deadline)
        self.timings_ = dict(trace.timings)
        return self

    def _set_error_of_all_classes(
        self,
        result: WidthSearchResult,
        Z: Any,
        index: np.ndarray,
        task: Classification,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> None:
        """Set the error of all classes; the search has only compared classes within groups."""
        held_out, training = np.split(task.order(rng), [len(index) // constants.FOLDS[0]])
        limits = {"tol": constants.TOL, "max_iter": task.steps_per_row * len(training)}
        model = self._exact_model(result, **limits, max_time=deadline.seconds_left())
        # The error of a model that the limit on steps has stopped counts, as in the search.
        with without_warnings(ConvergenceWarning):
            model.set_params(class_weight=None)
            model.fit(Z[training], index[training], task.weights_of(training))
        result.error = task.error(model.predict(Z[held_out]) != index[held_out], held_out)
        result.n_validation = len(held_out)

    def _exact_model(self, result: WidthSearchResult, **limits: Any) -> KernelSVC:
        """The exact model of the chosen parameters, not fitted."""
        options = {"C": result.C, "gamma": result.gamma, "class_weight": self.class_weight}
        return KernelSVC(kernel=self.kernel_, **(options | limits))

    def _unfitted_model(
        self,
        result: WidthSearchResult,
        rng: np.random.Generator,
        n: int,
        seconds_left: float | None,
    ) -> tuple[KernelSVC | DCSVC, str]:
        """The unfitted model for n rows, and the reason for its choice."""
        n_values = n * max(result.support_fraction * n, 1.0)
        # Early DC-SVM takes a fraction of these seconds, which are those of an exact model.
        exact_seconds = result.seconds_per_square * n * n
        in_time = seconds_left is None or exact_seconds <= seconds_left
        n_clusters = max(1, round(n / constants.CLUSTER_ROWS))
        if n_clusters == 1 or (n_values <= constants.MAX_VALUES and in_time):
            model = self._exact_model(result, max_time=seconds_left)
            return model, f"exact model: about {n_values:.2g} kernel values"
        options = self._exact_model(result, max_time=seconds_left).get_params(deep=False)
        shared = ("C", "gamma", "kernel", "class_weight", "max_time")
        chosen = {name: options[name] for name in shared}
        reason = (
            f"early DC-SVM of {n_clusters} clusters: the exact model of {n} rows with about "
            f"{result.support_fraction:.0%} support vectors would take too long"
        )
        return DCSVC(n_clusters, **chosen, random_state=int(rng.integers(2**31))), reason

    def _calibrated(
        self,
        Z: Any,
        index: np.ndarray,
        weight: np.ndarray | None,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> np.ndarray:
        """Sigmoids (1, m, 2) of the decision values of held-out rows."""
        k, n = len(self.classes_), len(index)
        order = Classification(index, k, balanced=False).order(rng)
        decision_values, held_out = [], []
        for half in range(2):
            first, second = np.array_split(order, 2)
            training, validation = (first, second) if half == 0 else (second, first)
            validation = validation[: constants.CALIBRATION_ROWS]
            if len(np.unique(index[training])) < k:
                raise ValueError(TOO_FEW_ROWS)
            seconds_left = deadline.fraction(2 - half).seconds_left()
            model = clone(self.best_estimator_).set_params(max_time=seconds_left)
            training_weight = None if weight is None else weight[training]
            model.fit(Z[training], self.classes_[index[training]], training_weight)
            decision_values.append(
                model.decision_function(Z[validation]).reshape(len(validation), -1)
            )
            held_out.append(validation)
            if n > FEW_ROWS:
                break
        rows, decisions = np.concatenate(held_out), np.concatenate(decision_values)
        weights = None if weight is None else weight[rows]
        return fitted_sigmoids(decisions, index[rows], k, weights)

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of rows X : (u, d); (u,) for two classes, else (u, n_classes)."""
        X = self._rows_to_predict(X)
        return self.best_estimator_.decision_function(X)

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        X = self._rows_to_predict(X)
        return self.best_estimator_.predict(X)


class TunedKernelSVR(RegressorMixin, SelfTuning):
    """Support vector regression that chooses kernel width, C and epsilon on the training rows.

    Parameters
    ----------
    kernel, time_budget, metric, scaler, random_state
        As in `TunedKernelSVC`.

    Attributes
    ----------
    kernel_ : str
    C_, gamma_, epsilon_ : float
    cv_error_ : float
        Held-out mean squared error of the chosen parameters. If targets or errors are heavy-tailed
        (their deviation is above twice the robust one), errors above three robust deviations of
        the errors count as three.
    cv_error_interval_ : (2,)
        Normal interval of `cv_error_` at 95 %.
    best_estimator_ : KernelSVR
        Fitted to targets of mean 0 and deviation 1, (y - target_mean_) / target_scale_, so that
        nothing depends on their mean and scale; its C and epsilon are in units of the deviation.
        For heavy-tailed targets the median and the interquartile range / 1.349 take the places of
        mean and deviation.
    target_mean_, target_scale_ : float
    search_results_, reason_, metric_, n_copies_, timings_, n_features_in_
        As in `TunedKernelSVC`; the errors are squared and in units of the variance of y.

    Notes
    -----
    During the search epsilon is 0.3 of the first rung's RMSE, but at least 0.05 deviations of y.
    Then several values of epsilon, in units of the held-out RMSE, are compared at the chosen point.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import TunedKernelSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> TunedKernelSVR(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.4
    True
    """

    _kind = "regression"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the parameters and fit the model.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) targets
        sample_weight : (n,), optional
            Factors of C, which count relative to their mean. Errors are counted without them, and
            rows of weight 0 are left out.
        trace : Trace, optional
            As in `TunedKernelSVC`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, or fewer than two rows.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.time_budget, trace)
        X, y = self._regression_data(X, y)
        X, y, weight = self._searched_rows(X, y, sample_weight)
        if len(y) < 2:
            raise ValueError(f"{len(y)} distinct rows have a positive weight, but 2 are needed")
        rng = self._generator()
        with trace.phase("search"):
            search_deadline = self._search_deadline(trace)
            factor = None if sample_weight is None else weight
            Z, result, task, rows = self._search(X, y, rng, search_deadline, trace, factor)
            self.cv_error_ = task.scale_of_c**2 * result.error
            deviation = float(np.sqrt(np.nan_to_num(result.error, nan=1.0))) * task.scale_of_c
            ratio = self._chosen_tube(rows, result, task, rng, search_deadline)
            self.epsilon_ = ratio * deviation
            self._set_search_attributes(result, trace)
            trace(chosen_epsilon=self.epsilon_)
            self.cv_error_interval_ = normal_interval(self.cv_error_, result.relative_deviation)
        with trace.phase("fit"):
            options = {
                "C": self.C_ / task.scale_of_c,
                "epsilon": self.epsilon_ / task.scale_of_c,
                "gamma": self.gamma_,
                "kernel": self.kernel_,
                # 1e-3, the default of `KernelSVR`, stands in if no held-out row has an error.
                "tol": constants.TOL * deviation / task.scale_of_c or 1e-3,
            }
            final = FinalFit(
                make_model=partial(_unfitted_regression, options, result.support_fraction),
                make_exact_model=lambda **limits: KernelSVR(**(options | limits)),
                losses=lambda model, rows: task.losses_of(
                    task.mean + task.scale_of_c * model.predict(Z[rows]), rows
                ),
                X=Z,
                y=task.z,
                weight=weight,
                result=result,
                task=task,
                deadline=deadline,
                rng=rng,
                trace=trace,
            )
            self.best_estimator_, self.reason_ = final.run()
            self.target_mean_, self.target_scale_ = task.mean, task.scale_of_c
        self.timings_ = dict(trace.timings)
        return self

    def _chosen_tube(
        self,
        rows: PreparedRows,
        result: WidthSearchResult,
        task: Regression,
        rng: np.random.Generator,
        deadline: Deadline,
    ) -> float:
        """epsilon in units of the held-out RMSE: narrower tubes while the held-out error falls.

        The narrowest tube is left out where the limit on steps stops models: there it gains
        little and the final fit takes 2.5 times as many steps (bike, 4,000 rows: RMSE 0.1 per cent
        lower; kin40k, whose models are solved: 2.5 per cent lower). An error is lower if the
        difference exceeds its sampling error. If there is no time to compare, the tube that is best
        for Gaussian noise is returned.
        """
        tubes = constants.TUBES if result.solved else constants.TUBES[:-1]
        if not np.isfinite(result.error):
            return tubes[1]
        deviation = float(np.sqrt(result.error))
        task.epsilon, *narrower_epsilons = (ratio * deviation for ratio in tubes)
        C = result.C / task.scale_of_c
        errors = np.zeros(len(tubes))
        rung = folds_or_samples(task.order(rng), constants.SECOND_VALUES, task.steps_per_row)
        for training, validation in rung.pairs:
            gram, steps = rows.gram(training, validation), rung.steps_per_row * len(training)
            expected_seconds = result.seconds_per_square * len(training) ** 2 * len(tubes)
            seconds_left = deadline.seconds_left()
            if seconds_left is not None and expected_seconds > seconds_left:
                return tubes[1]
            try:
                losses = task.losses(
                    gram,
                    result.gamma,
                    [C],
                    training,
                    validation,
                    steps,
                    deadline,
                    narrower_epsilons,
                ).losses
            except OutOfTime:
                return tubes[1]
            if len(losses) < len(tubes):
                return tubes[1]
            errors += losses[:, 0] / losses[:, 2]
        # Sampling error of the logarithm of a ratio of two errors on the same rows.
        min_gain = (
            constants.STANDARD_ERRORS * constants.PAIRED_DEVIATION * result.relative_deviation
        )
        chosen, lowest = tubes[0], errors[0]
        for ratio, error in zip(tubes[1:], errors[1:], strict=True):
            if error > (1.0 - min_gain) * lowest:
                break
            chosen, lowest = ratio, error
        return chosen

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        X = self._rows_to_predict(X)
        scaled = self.best_estimator_.predict(X)
        # Models of kbench 0.1 were fitted to targets as they are.
        return getattr(self, "target_scale_", 1.0) * scaled + getattr(self, "target_mean_", 0.0)


def _unfitted_regression(
    options: dict[str, Any], support_fraction: float, n: int, seconds_left: float | None
) -> tuple[KernelSVR, str]:
    """The unfitted exact model for n rows, and a sentence about its cost."""
    max_steps = int(constants.FINAL_WORK / n)
    n_values = n * max(support_fraction * n, 1.0)
    model = KernelSVR(**options, max_iter=max_steps, max_time=seconds_left)
    return model, f"exact model: about {n_values:.2g} kernel values, at most {max_steps:.2g} steps"
