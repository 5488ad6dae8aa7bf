"""Support vector machines that choose their parameters themselves.

`fit` searches kernel width and C on the training rows alone (`kbench.width_search`), then fits the
exact machine to all rows, or early DC-SVM (Hsieh, Si and Dhillon, ICML 2014, equation 11) where the
exact one would take too long. The search follows the ideas of liquidSVM (Steinwart and Thomann,
arXiv:1702.06899, 2017): one kernel matrix for all C, warm starts, cells for large data. A Gaussian
process replaces their grid.
"""

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import validate_data

from kbench import class_labels
from kbench.methods.automatic.self_tuning import SelfTuning, normal_interval, wilson_interval
from kbench.methods.base.probability import (
    PROBABILITY,
    TOO_FEW_ROWS,
    Probabilities,
    fitted_sigmoids,
)
from kbench.methods.base.weights import (
    checked_weights,
    class_weights,
    require_weighted_classes,
)
from kbench.methods.divide.dc_svc import DCSVC
from kbench.methods.exact.kernel_svc import KernelSVC
from kbench.methods.exact.kernel_svr import KernelSVR
from kbench.trace import Deadline, Trace
from kbench.width_search.gram import Rows
from kbench.width_search.search import FEW_ROWS, Search
from kbench.width_search.tasks import FEW_REGRESSION_ROWS, Classification, Regression

# Kernel values of the exact fit, about n rows times the support vectors, up to which larger
# machines are compared after the search, each of which takes less than a second. Factor of C and
# gamma from one to the next, and how many there are at most.
_CHEAP_ENTRIES, _SMOOTHER, _MOST_LARGER = 2.0**30, 0.25, 6
# Rows of those machines at most: with 40,000 rows five of them take 3 s on ijcnn1, with these 1.3.
_MOST_TRAINED = 20_000
# Held-out rows of that comparison: a fraction of all rows, and a limit. Tolerance of its fits.
_HELD_OUT, _MOST_HELD_OUT, _LOOSE_TOL = 0.2, 10_000, 0.1
# Training points of a cluster of early DC-SVM.
_CLUSTER_ROWS = 2500
# Most held-out rows for the sigmoids of probabilities. Two fitted numbers raise the expected log
# loss by 1 / (number of rows), 0.00005. The rows are those of the other half; machines of four
# fifths fit the same sigmoid (slope 2.13 against 2.06).
_MOST_CALIBRATION = 20_000
# Training rows of the machines of each tube, and held-out rows that compare them, at most. Rows up
# to which three folds compare them, and up to which both halves do: three folds of 4,000 rows of
# bike take 2.3 s, halves 0.9 s, but halves of 300 rows have chosen a fifth of the noise.
_TUBE_TRAINED, _TUBE_ROWS = 4000, 8000
_MOST_FOLDED_TUBES, _MOST_HALVED_TUBES = 1500, 8000
# Tubes that are compared, as multiples of the held-out deviation. 0.6 is optimal for Gaussian noise
# (Smola, Murata, Scholkopf and Muller, ICANN 1998). With 0.05 instead of 0.1 the final fit takes
# 1.3 to 1.6 times as long, and the RMSE falls by 0.6 per cent on kin40k and not on bike.
_TUBE_OF_NOISE = 0.6
_TUBES = (1.0, _TUBE_OF_NOISE, 0.2, 0.1)
# Relative decrease of the held-out squared error for which a narrower tube is taken: it has more
# support vectors, and one held-out half has chosen tubes of 0.05 on cpusmall that were 1.3 % worse.
_TUBE_GAIN = 0.01
# Factor of C where the search has stopped the machines near its answer, and the tube is narrower
# than the one for noise. Stopped machines understate large C: on 2,666 rows of bike (gamma 0.019),
# machines of 12 and 60 n steps have held-out errors of 0.0742 and 0.0705 at C = 512, of 0.0720 and
# 0.0724 at 128; and targets with little noise allow a larger C with more rows. With 2 instead of
# 1.5 the held-out RMSE on bike is 0.7 per cent lower and the fit takes 0.3 s longer. Noisy targets
# lose: with 2 the RMSE for Friedman's first function is 7 per cent higher. Only of more than 2,500
# rows, because machines of fewer rows take twice the steps.
_MORE_C = 1.5
# Tolerance of the final regression, in units of the held-out deviation. At 0.02, 0.05 and 0.1 the
# held-out RMSE is 0.20164, 0.20164 and 0.20167 in 4.0, 3.5 and 2.1 s (kin40k, 4,000 rows).
_FINAL_TOL = 0.1
# Steps times rows of the final regression, at most: 10 to 20 s. On kin40k (25,600 rows, of which
# 20,000 are support vectors) the held-out RMSE is 0.1034 after 0.6e11 and 0.1007 after 1.8e11.
_MOST_FINAL_WORK = 1e11


class TunedKernelSVC(Probabilities, ClassifierMixin, SelfTuning):
    """Support vector classifier that chooses kernel width and C on the training rows.

    Parameters
    ----------
    kernel : str, default="rbf"
        A kernel of `kbench.kernels.KERNELS` that is exponential in a distance.
    time_budget : float or None, default=None
        Wall seconds that `fit` should take. The search ends after half of it (the
        comparison of larger machines may take more), and early DC-SVM replaces the exact machine if
        that is expected to take longer than the rest.
    scoring : {"accuracy", "balanced_accuracy"} or None, default=None
        What the search maximises; None is "accuracy".
    metric : {"auto"} or None, default=None
        "auto" learns a linear map of the features (`kbench.metric.LearnedMetric`) and keeps it if
        it lowers the error of held-out training rows.
    scaler : {"auto"} or None, default="auto"
        "auto" standardises dense columns of different scales if that lowers the first rung's error.
    class_weight : dict, "balanced" or None, default=None
        Factors of C of the final machine; the search is without weights.
    probability : bool, default=False
        Whether to fit the sigmoids of `predict_proba` to decision values of held-out rows. Takes
        two further fits to half of the rows, of more than 16,000 rows one.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    C_, gamma_ : float
    search_results_ : dict of str to arrays
        One entry for each machine of the search: rung, rows ("fold", "sample" or "cell"), n_rows,
        gamma, C, error, n_validation, solved. `pandas.DataFrame(search_results_)` is a table.
    cv_error_ : float
        Held-out error of the chosen parameters, of machines of fewer rows: an upper estimate. It is
        the lowest of a few tens, which biases it by less than its interval.
    cv_error_interval_ : (2,)
        Wilson interval of `cv_error_` at 95 %.
    best_estimator_ : KernelSVC or DCSVC
    reason_ : str
        Which machine was fitted in the end, and why.
    metric_ : LearnedMetric or None
        The map that was kept.
    scaler_ : StandardScaler or None
        Dense columns of different scales are standardised if that lowers the first rung's error.
    timings_ : dict of str to float
        Seconds of "search", "fit" and, with `probability`, "calibrate".
    n_features_in_ : int

    Notes
    -----
    The search takes 100 to 200 small machines; its time grows with n only up to 16,000 rows, and
    with O(n d) beyond. Classes are taken by pairs, which share C and gamma. Features should have
    comparable scales.

    References
    ----------
    I. Steinwart, P. Thomann, "liquidSVM: A Fast and Versatile SVM Package", arXiv:1702.06899, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import TunedKernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> machine = TunedKernelSVC(random_state=0).fit(X[:1000], y[:1000])
    >>> machine.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SelfTuning._parameter_constraints,
        "scoring": [StrOptions({"accuracy", "balanced_accuracy"}), None],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "probability": PROBABILITY,
    }

    _kind = "classification"

    def __init__(
        self,
        kernel: str = "rbf",
        *,
        time_budget: float | None = None,
        scoring: str | None = None,
        metric: str | None = None,
        scaler: str | None = "auto",
        class_weight: dict | str | None = None,
        probability: bool = False,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.time_budget = time_budget
        self.scoring = scoring
        self.metric = metric
        self.scaler = scaler
        self.class_weight = class_weight
        self.probability = probability
        self.random_state = random_state

    def _task(self, targets: np.ndarray) -> Classification:
        classes, index = np.unique(targets, return_inverse=True)
        return Classification(index, len(classes), balanced=self.scoring == "balanced_accuracy")

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the parameters and fit the machine.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        sample_weight : (n,), optional
            Factors of C of the final machine; the search leaves rows of weight 0 out.
        trace : Trace, optional
            Receives the phases, the validation error of every point, and what the final machine
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
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        class_weights(self.class_weight, self.classes_, y)  # refused before the search
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, len(index))
            require_weighted_classes(self.classes_, index, sample_weight)
        X, y, weight = self._weighted_rows(X, y, sample_weight)
        index = class_labels.index_of(self.classes_, y)
        rng = self._generator()
        with trace.phase("search"):
            Z, result, task, _ = self._search(X, index, rng, trace, _CHEAP_ENTRIES)
            self._smoother_by_larger_machines(Z, task, index, result, rng, deadline, trace)
            self._keep(result, trace)
            self.cv_error_ = result.error
            self.cv_error_interval_ = wilson_interval(result.error, result.n_validation)
        with trace.phase("fit"):
            machine = self._final_machine(result, len(y), deadline.seconds_left(), rng)
            self.best_estimator_ = machine.fit(Z, y, weight, trace=trace)
        if self._wants_probabilities:
            with trace.phase("calibrate"):
                self._sigmoids = self._calibrated(Z, index, weight, rng)
        self.timings_ = dict(trace.timings)
        return self

    def _smoother_by_larger_machines(
        self,
        Z: Any,
        task: Classification,
        index: np.ndarray,
        result: Search,
        rng: np.random.Generator,
        deadline: Deadline,
        trace: Trace,
    ) -> None:
        """Lower C, then gamma, while the held-out error of machines of many rows falls.

        Only of many rows, where the search has seen no machine of most of them, and only where
        those are cheap. Half of the held-out rows are the last ones of each class: where rows are
        in an order, such as time, new rows differ from all of them more than a random sample does.
        On ijcnn1 six machines have errors of 1.6 to 3.8 % on the last fifth of 40,000 training
        rows, and the best one there is also the best one of the 10,000 rows behind. The other half
        is random: the last rows alone prefer C = 2 there, which has twice the least error on a
        random fifth. Sets the result of the search.
        """
        n = len(index)
        entries = n * n * result.support_fraction
        if n <= FEW_ROWS or result.is_dear or entries > _CHEAP_ENTRIES or deadline.passed:
            return
        last = task.last(0.5 * min(_MOST_HELD_OUT / n, _HELD_OUT))
        others = task.order(rng)
        others = others[~np.isin(others, last)]
        held_out = np.concatenate([last, others[: len(last)]])
        training = np.sort(others[len(last) :][:_MOST_TRAINED])
        rung, count = result.columns["rung"][-1] + 1, 0

        def measured(gamma: float, C: float) -> tuple[bool, float, float]:
            """Whether the machine is unsolved, its error, and its fraction of support vectors."""
            nonlocal count
            count += 1
            steps = task.steps * len(training)
            machine = KernelSVC(C, gamma=gamma, kernel=self.kernel, tol=_LOOSE_TOL, max_iter=steps)
            with warnings.catch_warnings():
                # An unsolved machine counts as worse than any that is solved.
                warnings.simplefilter("ignore", ConvergenceWarning)
                machine.fit(Z[training], index[training])
            error = task.error(machine.predict(Z[held_out]) != index[held_out], held_out)
            solved = machine.converged_
            trace(validation_error=error, gamma=gamma, C=C, n_rows=len(training))
            values = (rung, "holdout", len(training), gamma, C, error, len(held_out), solved)
            for column, value in zip(result.columns.values(), values, strict=True):
                column.append(value)
            return not solved, error, len(machine.support_) / len(training)

        best = measured(result.gamma, result.C)
        directions = [(1.0, _SMOOTHER), (_SMOOTHER, 1.0)]
        if result.flat_cells:
            # Samples prefer wider kernels than more rows do, and no cell has corrected that.
            directions.insert(0, (1.0 / _SMOOTHER, _SMOOTHER))
        for of_gamma, of_c in directions:
            while count < _MOST_LARGER and not deadline.passed:
                gamma, C = of_gamma * result.gamma, of_c * result.C
                tried = measured(gamma, C)
                if tried[:2] >= best[:2]:
                    break
                best, result.gamma, result.C = tried, gamma, C
        _, result.error, result.support_fraction = best
        result.n_validation = len(held_out)

    def _final_machine(
        self, result: Search, n: int, seconds_left: float | None, rng: np.random.Generator
    ) -> KernelSVC | DCSVC:
        self.reason_ = self._describe_exact(n, result.support_fraction, seconds_left)
        options: dict[str, Any] = {
            "C": result.C,
            "gamma": result.gamma,
            "kernel": self.kernel,
            "class_weight": self.class_weight,
            "max_time": seconds_left,
        }
        if self.reason_:
            return KernelSVC(**options)
        k = max(1, round(n / _CLUSTER_ROWS))
        self.reason_ = (
            f"early DC-SVM of {k} clusters: the exact machine of {n} rows with about "
            f"{result.support_fraction:.0%} support vectors would take too long"
        )
        return DCSVC(k, **options, random_state=int(rng.integers(2**31)))

    def _calibrated(
        self, Z: Any, index: np.ndarray, weight: np.ndarray | None, rng: np.random.Generator
    ) -> np.ndarray:
        """Sigmoids (1, m, 2) of the decision values of held-out rows."""
        from sklearn.base import clone

        k, n = len(self.classes_), len(index)
        order = Classification(index, k, balanced=False).order(rng)
        values, held_out = [], []
        for half in range(2):
            first, second = np.array_split(order, 2)
            training, rest = (first, second) if half == 0 else (second, first)
            rest = rest[:_MOST_CALIBRATION]
            if len(np.unique(index[training])) < k:
                raise ValueError(TOO_FEW_ROWS)
            machine = clone(self.best_estimator_)
            of_rows = None if weight is None else weight[training]
            machine.fit(Z[training], index[training], of_rows)
            values.append(machine.decision_function(Z[rest]).reshape(len(rest), -1))
            held_out.append(rest)
            if n > FEW_ROWS:
                break
        rows, decisions = np.concatenate(held_out), np.concatenate(values)
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
    C_, gamma_, epsilon_ : float
    cv_error_ : float
        Held-out mean squared error of the chosen parameters.
    cv_error_interval_ : (2,)
        Normal interval of `cv_error_` at 95 %.
    search_results_, best_estimator_, reason_, metric_, timings_, n_features_in_
        As in `TunedKernelSVC`; the errors are squared and in units of the variance of y.

    Notes
    -----
    The search has a tube of 0.3 of the first rung's RMSE, at least of 0.05 deviations of y. Then
    several tubes, in units of the held-out deviation, are compared at the chosen point. C is raised
    by a half where that tube shows little noise and the search could not afford solved machines.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import TunedKernelSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> TunedKernelSVR(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.4
    True
    """

    _kind = "regression"

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the parameters and fit the machine.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) targets
        sample_weight : (n,), optional
            Factors of C of the final machine; the search leaves rows of weight 0 out.
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
        X, y, weight = self._weighted_rows(X, y, sample_weight)
        if len(y) < 2:
            raise ValueError(f"{len(y)} rows have a positive weight, but 2 are needed")
        rng = self._generator()
        with trace.phase("search"):
            Z, result, task, rows = self._search(X, y, rng, trace)
            variance = task.scale_of_c**2
            self.cv_error_ = variance * result.error
            ratio = self._tube(rows, result, task, rng)
            self.epsilon_ = ratio * float(np.sqrt(self.cv_error_))
            if len(y) > FEW_REGRESSION_ROWS and not result.solved and ratio < _TUBE_OF_NOISE:
                result.C *= _MORE_C
            self._keep(result, trace)
            trace(chosen_epsilon=self.epsilon_)
            self.cv_error_interval_ = normal_interval(self.cv_error_, result.relative_deviation)
        with trace.phase("fit"):
            left = deadline.seconds_left()
            self.reason_ = self._describe_exact(len(y), result.support_fraction, left)
            self.reason_ = self.reason_ or "exact machine: there is no local one for regression"
            most_steps = int(_MOST_FINAL_WORK / len(y))
            self.reason_ += f", at most {most_steps:.2g} steps"
            self.best_estimator_ = KernelSVR(
                self.C_,
                epsilon=self.epsilon_,
                gamma=self.gamma_,
                kernel=self.kernel,
                tol=_FINAL_TOL * np.sqrt(self.cv_error_) or 1e-3,
                max_iter=most_steps,
                max_time=left,
            ).fit(Z, y, weight, trace=trace)
        self.timings_ = dict(trace.timings)
        return self

    def _tube(
        self, rows: Rows, result: Search, task: Regression, rng: np.random.Generator
    ) -> float:
        """The chosen tube, in held-out deviations: narrower ones while the held-out error falls.

        The narrowest one is left out where the limit on steps stops machines: there it gains
        little and the final fit takes 2.5 times as many steps (bike, 4,000 rows: RMSE 0.1 per cent
        lower; kin40k, whose machines are solved: 2.5 per cent lower).
        """
        noise = float(np.sqrt(result.error))
        order = task.order(rng)
        if len(order) <= _MOST_HALVED_TUBES:
            folds = np.array_split(order, 3 if len(order) <= _MOST_FOLDED_TUBES else 2)
            pairs = [(np.setdiff1d(order, fold), fold) for fold in folds if len(fold)]
        else:
            pairs = [(order[:_TUBE_TRAINED], order[_TUBE_TRAINED:][:_TUBE_ROWS])]
        tubes = _TUBES if result.solved else _TUBES[:-1]
        task.epsilon, *narrower = (ratio * noise for ratio in tubes)
        C = result.C / task.scale_of_c
        errors = np.zeros(len(tubes))
        for training, rest in pairs:
            gram, steps = rows.gram(training, rest), task.steps * len(training)
            sums = task.losses(gram, result.gamma, [C], training, rest, steps, narrower).losses
            errors += sums[:, 0] / sums[:, 2]
        best, lowest = tubes[0], errors[0]
        for ratio, error in zip(tubes[1:], errors[1:], strict=True):
            if error > (1.0 - _TUBE_GAIN) * lowest:
                break
            best, lowest = ratio, error
        return best

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        X = self._rows_to_predict(X)
        return self.best_estimator_.predict(X)
