"""A linear map of the features that is learned from labelled rows: the metric of a recursive
feature machine.

    M = I                                                             on standardised features
    repeat n_rounds times
      c = (K_M + ridge I)^-1 Y            K_M from k(||x - z||_M),  ||u||_M^2 = u' M u
      M = mean over rows of grad f grad f',  f = sum_i c_i k_M(x_i, .)
    keep the M with the lowest error on held-out rows; it may be the first one, I

The rounds of every kernel, structure and ridge take few rows. The best ones go on, with more rows
if there are more.

A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature learning in neural
networks and backpropagation-free machine learning models", Science 383, 2024, Algorithm 1
(recursive feature machine). D. Beaglehole, D. Holzmuller, A. Radhakrishnan, M. Belkin, "xRFM",
2025, choose kernel, ridge and rounds by held-out rows, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target

from kbench.clustering.copies import without_copies
from kbench.metric.columns import ColumnMap, code_columns, has_curved_maps
from kbench.metric.maps_rows import MapsRows
from kbench.metric.ridge_problem import (
    FEW_HELD_OUT,
    LARGER_RIDGES,
    MIN_HELD_OUT,
    RidgeProblem,
    ScaledTargets,
    Standardised,
)
from kbench.metric.rounds import (
    MAX_LAPLACIAN_FEATURES,
    MAX_RISE_AT_FULL_SIZE,
    WIDTH_GAIN,
    MetricCandidate,
    Rounds,
    preferred,
)
from kbench.trace import Trace
from kbench.validated import (
    POSITIVE,
    choice,
    fit_context,
    integer,
    require_target_range,
    usual,
    validate_data,
)

# Ridges that are compared, relative to the kernel's diagonal (unit targets); each costs a
# factorisation. Set by hand.
_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
# Kernels are compared at full size if their errors in the search were within this factor of the
# lowest: 1,500 rows do not rank kernels that are closer. Set by hand.
_FINALIST_RATIO = 1.15
# A metric of `max_rows` rows is preferred if its held-out error is at most this multiple of the
# error of the search's metric: the latter was chosen by the same held-out rows, which makes its
# error too low. Set by hand.
_ALLOWED_RATIO = 1.05
# Number of rows on which maps of columns are compared, and the fraction of the lowest held-out
# error so far that the next map must gain: less of either follows chance. Set by hand.
_SCALING_ROWS, _SCALING_GAIN = 1000, 0.01
# Maximal number of features for which "auto" tries a full metric: its eigendecomposition takes
# O(d^3), a second for 1,000 features. Set by hand.
_MAX_FULL_FEATURES = 1000
# Features up to which all of `max_rows` and of `search_rows` are used. For more features,
# the fraction sqrt(_WIDE_FEATURES / d) of them is used: the kernel values of a round then take no
# longer. Set by hand.
_WIDE_FEATURES, _WIDE_SEARCH_FEATURES = 256, 1024
# Maximal number of rows that determine means, deviations and quantiles of the columns: 50,000
# estimate a mean to half a per cent of the deviation. Set by hand.
_MAX_SCALER_ROWS = 50_000
# Largest number of classes that floats may stand for: more whole numbers are targets of a
# regression, such as those of `sklearn.datasets.load_diabetes`. Set by hand.
_MAX_FLOAT_CLASSES = 20
# Maximal number of held-out rows: 4,000 estimate an error rate of 10 % to half a point. Set by
# hand.
_MAX_HELD_OUT = 4000
# Maximal number of held-out rows of the search, for their kernel values take longest. Set by hand.
_SEARCH_HELD_OUT = 2000


@dataclass(eq=False, repr=False)
class LearnedMetric(MapsRows):
    """Learn a metric M from labelled rows; `transform` maps x to M^(1/2) x.

    An estimator whose kernel depends on Euclidean distances then works with distances of M:
    features that matter are stretched, others vanish. The map is linear, so it can stand in front
    of any estimator in a Pipeline.

    Parameters
    ----------
    structure : {"auto", "full", "diagonal", "warped"} or array-like of d group labels
        "diagonal" weighs features, "full" also mixes them, labels make M block diagonal. "warped"
        weighs each interval of each feature, by an increasing map of it (`kbench.metric.warp`), so
        that `transform` is not linear. "auto", the default, takes "full", "diagonal" or, with
        `scaling="auto"`, "warped", whichever has the lowest held-out error.
    kernel : {"auto", "matern12", "rbf", "laplacian", "any"}, default="auto"
        Kernel of the ridge models: exp(-gamma r) or exp(-gamma r^2) of the Euclidean distance r,
        which "auto" compares, or "laplacian", exp(-gamma sum |x_j - z_j|), which has a diagonal
        metric and suits targets that change at thresholds. "any" compares all three. If there are
        more than 128 features, "laplacian" weighs those that a Matern model finds steepest.
    scaling : {"standard", "clipped", "quantile", "auto"}, default="standard"
        Map of each column before it is standardised (`kbench.metric.columns`). Only "standard"
        keeps `transform` linear. "auto" compares all, with and without indicators of the values of
        integer columns. CSR rows are always standardised.
    n_rounds : int, default=3
        Maximum number of rounds of the search, and again of its best metrics, which go on with more
        rows if there are more. The round with the lowest held-out error counts. With more rows,
        the rounds end after a round that lowers this error by less than 1 %.
    ridge : float or "auto", default="auto"
        Relative to the kernel's diagonal; "auto" compares ridges from 1e-4 to 100.
    rank : int or None, default=None
        Maximum number of columns of the map, those of the largest eigenvalues of M; None keeps all.
    task : {"auto", "classification", "regression"}, default="auto"
        "auto" uses scikit-learn's `type_of_target` of y: integers are classes, and so are floats of
        at most 20 whole numbers (set by hand).
    max_rows : int, default=4000
        Rows that the metric is learned from, without the held-out rows; for d > 256 features it is
        sqrt(256 / d) times as many.
    search_rows : int, default=1500
        Rows on which kernel, structure and ridge are compared, before the best metrics are learned
        further from `max_rows`; for d > 1024 features it is sqrt(1024 / d) times as many.
    gradient_rows : int, default=2500
        Rows at which gradients are taken. Like the other numbers of rows and rounds, set by hand.
    validation_fraction : float, default=0.2
        Fraction of the rows that is held out, at most 4,000 rows. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    components_ : (d, r) float64
        transform(x) = (x - mean_) components_. Transformed rows have total variance 1. Here x is
        the row that `column_map_` has mapped, which has d features or more.
    metric_ : (d, d) float64
        M in units of the (mapped) features: the squared distance is (x - z)' M (x - z).
    nbytes_ : int
        Bytes that `transform` needs.
    mean_, scale_ : (d,) float64
        Means and deviations of the (mapped) features; the deviation of a constant one is infinite.
    feature_importances_ : (d,) float64
        Diagonal of M for standardised features, divided by its sum.
    task_, kernel_, structure_, scaling_ : str
    column_map_ : ColumnMap
        Map of the columns, the identity where `scaling_` is "standard" and `structure_` not
        "warped".
    gamma_, ridge_ : float
        Kernel width for transformed rows and ridge that had the lowest held-out error.
    n_rounds_ : int
        Rounds that were used; 0 means that the standardised features were not improved upon.
    scores_ : list of dict
        Every candidate: error, round, kernel, structure, scaling, ridge, width, number of rows.
    n_features_in_ : int

    Notes
    -----
    The search makes about 100 factorisations of `search_rows` rows, full size eight at most. A
    round with n rows costs O(n^3 / 3 + n^2 d + a n d m) time for a gradient rows and m outputs, and
    8 n^2 bytes.

    A metric does not help where all features matter alike (the map is then close to the identity,
    and `n_rounds_` may be 0), or where few rows determine many features: a full metric has
    d (d + 1) / 2 numbers.

    References
    ----------
    A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, Science 383, 2024, Algorithm 1.
    D. Beaglehole, D. Holzmuller, A. Radhakrishnan, M. Belkin, "xRFM: Accurate, scalable, and
    interpretable feature learning models for tabular data", 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from kbench.metric import LearnedMetric
    >>> X = np.random.default_rng(0).normal(size=(600, 10))
    >>> y = np.sin(2 * X[:, 3])
    >>> metric = LearnedMetric(random_state=0).fit(X, y)
    >>> int(metric.feature_importances_.argmax())
    3
    """

    # `fit` makes dense copies of CSR rows, `max_rows` and the held-out ones (`kbench.validated`).
    dense_rows: ClassVar[tuple[float, int]] = (4.0, 12000)

    _parameter_constraints: ClassVar[dict] = {
        "structure": [choice("auto", "full", "diagonal", "warped"), "array-like"],
        "kernel": [choice("auto", "matern12", "rbf", "laplacian", "any")],
        "scaling": [choice("standard", "clipped", "quantile", "auto")],
        "n_rounds": [integer(0)],
        "ridge": [choice("auto"), POSITIVE],
        "rank": [integer(1), None],
        "task": [choice("auto", "classification", "regression")],
        "max_rows": [integer(2)],
        "search_rows": [integer(2)],
        "gradient_rows": [integer(1)],
        **usual("validation_fraction", "random_state"),
    }

    structure: Any = "auto"
    _: KW_ONLY
    kernel: str = "auto"
    scaling: str = "standard"
    n_rounds: int = 3
    ridge: float | str = "auto"
    rank: int | None = None
    task: str = "auto"
    max_rows: int = 4000
    search_rows: int = 1500
    gradient_rows: int = 2500
    validation_fraction: float = 0.2
    random_state: Any = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Learn the metric of rows X : (n, d), dense or CSR, and targets y : (n,) or (n, m).

        Parameters
        ----------
        trace : Trace, optional
            Receives the held-out error of every candidate.

        Raises
        ------
        ValueError
            A parameter out of range, or fewer than two distinct targets.
        """
        trace = Trace() if trace is None else trace
        X, y = validate_data(self, X, y, multi_output=True)
        rng = check_random_state(self.random_state)
        search = Rounds(self.n_rounds, self.gradient_rows, rng)
        is_classification = self._is_classification(y)
        self.task_ = "classification" if is_classification else "regression"
        if not is_classification:
            require_target_range(y)
        targets = ScaledTargets.of(y, is_classification)
        distinct = without_copies(X, y)
        rows = np.arange(X.shape[0]) if distinct is None else distinct[0]
        held_out, training = (rows[indices] for indices in self._split(len(rows), rng))
        sample = X[training[:_MAX_SCALER_ROWS]]
        self.scores_: list[dict[str, Any]] = []
        ridges = _RIDGES if isinstance(self.ridge, str) else (float(self.ridge),)

        def make_problem(
            name: str,
            indicators: bool,
            n_rows: int,
            n_held_out: int,
            laplacian_features: np.ndarray | None = None,
        ) -> RidgeProblem:
            """The ridge problem of the first rows, after a map of the columns and scaling."""
            scaler = Standardised(_columns(sample, name, indicators), sample)
            rows, validation = training[:n_rows], held_out[:n_held_out]
            return RidgeProblem(
                scaler,
                scaler(X[rows]),
                targets.Y[rows],
                scaler(X[validation]),
                targets.Y[validation],
                targets,
                laplacian_features,
            )

        def compare(
            data: RidgeProblem, scaling: str, structures: Mapping[str, Any], **options: Any
        ) -> list[MetricCandidate]:
            """The best candidate of each kernel, the preferred one first."""
            best: dict[tuple[bool, str], MetricCandidate] = {}
            for kernel, of_kernel in structures.items():
                for candidate in search.metrics(data, kernel, of_kernel, **options):
                    self._record(candidate, scaling, trace)
                    key = candidate.structure == "warped", kernel
                    if key not in best or candidate.error < best[key].error:
                        best[key] = candidate
            best_of_kernel: dict[str, MetricCandidate] = {}
            ranked = sorted(best.values(), key=lambda candidate: candidate.error)
            for candidate in preferred(ranked, data):
                best_of_kernel.setdefault(candidate.kernel, candidate)
            return list(best_of_kernel.values())

        can_warp = not sp.issparse(X) and has_curved_maps(X)
        structures = {kernel: self._structures(kernel, can_warp) for kernel in self._kernels()}
        scaling, indicators = self._scaling(sample, make_problem, compare, ridges)
        self.scaling_ = scaling + ("+indicators" if indicators else "")
        d = self.n_features_in_
        n_search = min(_limited_rows(self.search_rows, d, _WIDE_SEARCH_FEATURES), len(training))
        n_all = min(_limited_rows(self.max_rows, d, _WIDE_FEATURES), len(training))
        data = make_problem(scaling, indicators, n_search, _SEARCH_HELD_OUT)
        if "laplacian" in self._kernels() and data.X.shape[1] > MAX_LAPLACIAN_FEATURES:
            data = replace(data, laplacian_features=search.steepest_features(data, ridges))
        best, *others = compare(data, self.scaling_, structures, ridges=ridges)
        finalists = [best] + [item for item in others if item.error <= _FINALIST_RATIO * best.error]
        for candidate in search.other_widths(data, best, ridges):
            self._record(candidate, self.scaling_, trace)
            if candidate.error < min(finalists[0].error, (1.0 - WIDTH_GAIN) * best.error):
                finalists[0] = candidate
        has_more = n_all > n_search
        if has_more:
            data = make_problem(scaling, indicators, n_all, _MAX_HELD_OUT, data.laplacian_features)
        chosen, *_ = self._continue_rounds(finalists, data, search, trace, ridges)
        if has_more and chosen.width > 1.0:
            # A width that suited few rows may be too wide for more rows.
            other = search.with_narrower_kernel(data, chosen, ridges)
            self._record(other, self.scaling_, trace)
            if other.error < chosen.error:
                chosen = other
        has_few_held_out = len(ridges) > 1 and MIN_HELD_OUT <= len(data.held_out_Y) < FEW_HELD_OUT
        if has_few_held_out and not data.beats_constant(chosen.held_out_predictions(data)):
            # Nothing was learned, so the smoothest function, of the largest ridge, is safest.
            chosen = replace(chosen, ridge=LARGER_RIDGES[-1])
        self._store(chosen, data)
        return self

    def _continue_rounds(
        self,
        finalists: Sequence[MetricCandidate],
        data: RidgeProblem,
        search: Rounds,
        trace: Trace,
        ridges: Sequence[float],
    ) -> Sequence[MetricCandidate]:
        """The metrics of the rounds that go on from the search's, the best one first.

        The finalists are measured on these rows, then the best two get a round, and the better of
        them all others. A metric of these rounds precedes the metrics of the search if its error is
        lower or, where the search had fewer rows and learned its metric, at most `_ALLOWED_RATIO`
        times as high.
        """
        allowance = _ALLOWED_RATIO if len(data.X) > finalists[0].n_rows else 1.0
        rounds = [
            search.metrics(
                data,
                finalist.kernel,
                [self._structure_named(finalist.structure)],
                ridges=ridges,
                width=finalist.width,
                max_rise=MAX_RISE_AT_FULL_SIZE,
                start=finalist,
            )
            for finalist in finalists
        ]
        first: list[MetricCandidate] = []
        later: list[MetricCandidate] = []
        while rounds:
            tried = [(item, metrics) for metrics in rounds if (item := next(metrics, None))]
            for candidate, _ in tried:
                self._record(candidate, self.scaling_, trace)
            tried.sort(key=lambda pair: pair[0].error)
            if first:
                later += [candidate for candidate, _ in tried]
                rounds = [metrics for _, metrics in tried[:1]]
            else:
                first = [candidate for candidate, _ in tried]
                limit = _FINALIST_RATIO * first[0].error
                rounds = [metrics for item, metrics in tried[:2] if item.error <= limit]
        later.sort(key=lambda candidate: candidate.error)
        allowance = allowance if first[0].n_round else 1.0
        is_better = bool(later) and later[0].error < allowance * first[0].error
        return preferred(later + first if is_better else first + later, data)

    def _record(self, candidate: MetricCandidate, scaling: str, trace: Trace) -> None:
        trace(validation_error=candidate.error)
        self.scores_.append(
            {
                "error": candidate.error,
                "round": candidate.n_round,
                "kernel": candidate.kernel,
                "structure": candidate.structure,
                "scaling": scaling,
                "ridge": candidate.ridge,
                "width": candidate.width,
                "n_rows": candidate.n_rows,
            }
        )

    def _scaling(
        self,
        X: Any,
        make_problem: Callable[..., RidgeProblem],
        compare: Callable[..., list[MetricCandidate]],
        ridges: Sequence[float],
    ) -> tuple[str, bool]:
        """Name of the column maps, and whether integer columns get indicators.

        Each map is tried with the diagonal metrics of one round on some rows; a diagonal takes the
        least time, and which map is best hardly depends on the structure.
        """
        if self.scaling != "auto":
            return self.scaling, False
        if sp.issparse(X):
            return "standard", False
        kernels = [kernel for kernel in self._kernels() if kernel != "rbf"] or ["rbf"]

        def error(name: str, indicators: bool) -> float:
            data = make_problem(name, indicators, _SCALING_ROWS, 2 * _SCALING_ROWS)
            # Many features take one kernel, Matern 1/2: the Laplacian kernel prefers the same map.
            has_many_features = data.X.shape[1] > MAX_LAPLACIAN_FEATURES and len(kernels) > 1
            quick = dict.fromkeys(kernels[:1] if has_many_features else kernels, ("diagonal",))
            label = name + ("+indicators" if indicators else "")
            return compare(data, label, quick, ridges=ridges[1::2] or ridges, n_rounds=1)[0].error

        names = ("standard", "clipped", "quantile") if has_curved_maps(X) else ("standard",)
        codes = code_columns(X)
        if len(names) == 1 and not codes:
            return "standard", False
        chosen, lowest = names[0], error(names[0], False)
        for name in names[1:]:
            other = error(name, False)
            if other < (1.0 - _SCALING_GAIN) * lowest:
                chosen, lowest = name, other
        indicators = bool(codes) and error(chosen, True) < (1.0 - _SCALING_GAIN) * lowest
        return chosen, indicators

    def _is_classification(self, y: Any) -> bool:
        if self.task == "auto":
            if np.asarray(y).dtype.kind == "f" and len(np.unique(y)) > _MAX_FLOAT_CLASSES:
                return False
            return type_of_target(y) in ("binary", "multiclass")
        return self.task == "classification"

    def _kernels(self) -> tuple[str, ...]:
        compared = {"auto": ("matern12", "rbf"), "any": ("matern12", "rbf", "laplacian")}
        return compared.get(self.kernel, (self.kernel,))

    def _structures(self, kernel: str, can_warp: bool) -> tuple[Any, ...]:
        if not isinstance(self.structure, str):
            groups = np.asarray(self.structure)
            if groups.shape != (self.n_features_in_,):
                raise ValueError(
                    f"structure has shape {groups.shape}, should be a group label for each of the "
                    f"{self.n_features_in_} features"
                )
            return (groups,)
        if self.structure == "auto":
            takes_full = 1 < self.n_features_in_ <= _MAX_FULL_FEATURES and kernel != "laplacian"
            warped = ("warped",) if self.scaling == "auto" and can_warp else ()
            return (("full", "diagonal") if takes_full else ("diagonal",)) + warped
        must_be_diagonal = kernel == "laplacian" and self.structure == "full"
        return ("diagonal",) if must_be_diagonal else (self.structure,)

    def _structure_named(self, name: str) -> Any:
        return np.asarray(self.structure) if name == "blocks" else name

    def _split(self, n: int, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
        """(held-out rows, training rows) in random order."""
        order = rng.permutation(n)
        n_held_out = min(max(1, round(self.validation_fraction * n)), _MAX_HELD_OUT)
        if n - n_held_out < 1:
            raise ValueError(
                f"n_samples={n} leaves no row to learn from; at least 2 distinct rows are needed"
            )
        return order[:n_held_out], order[n_held_out:]

    def _store(self, best: MetricCandidate, data: RidgeProblem) -> None:
        root, scaler = best.root, data.scaler
        if isinstance(root, ColumnMap):
            scaler = scaler.warped(root, data.X)
            root = np.where(np.isfinite(scaler.deviation), scaler.deviation, 0.0)
        self.kernel_, self.structure_ = best.kernel, best.structure
        self.ridge_, self.n_rounds_ = best.ridge, best.n_round
        self.column_map_ = scaler.column_map
        self.mean_, self.scale_ = scaler.mean, scaler.deviation
        deviation = scaler.deviation
        if root.ndim == 1:
            order = np.argsort(-root, kind="stable")[: self.rank]
            self._columns = order[root[order] > 0.0]
            squares = np.zeros(len(root))
            squares[self._columns] = root[self._columns] ** 2
            root, deviation = root[self._columns], deviation[self._columns]
        else:
            # `rank` counts only here: a cut in every round would lose directions that grow slowly.
            self._columns = None
            root, deviation = root[:, : self.rank], deviation[:, None]
            squares = (root**2).sum(axis=1)
        self.feature_importances_ = np.bincount(scaler.column_map.sources, squares) / squares.sum()
        # Standardised features have variance 1, so transformed rows have total variance trace(M).
        scale = float(np.sqrt(squares.sum()))
        self._weights = root / (scale * deviation)
        self.gamma_ = best.gamma * (scale**2 if best.kernel == "rbf" else scale)


def _limited_rows(max_rows: int, d: int, wide: int) -> int:
    """Number of rows to learn from: `max_rows`, fewer if there are more than `wide` features."""
    return max_rows if d <= wide else max(2, round(max_rows * (wide / d) ** 0.5))


def _columns(X: Any, name: str, indicators: bool) -> ColumnMap:
    if sp.issparse(X):
        empty = np.empty((0, X.shape[1]))
        return ColumnMap(empty, empty)
    return ColumnMap.of(X, name, indicators=indicators)
