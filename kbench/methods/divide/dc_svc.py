"""Divide-and-conquer support vector classifier (DC-SVM), exact or with early prediction.

Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector Machines" (ICML 2014):
Algorithm 1 (training), equation 3 (the kernel whose dual the clusters' solutions solve together),
equation 10 (naive prediction), equation 11 (early prediction).
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from kbench import presets
from kbench.approximation.clusters.local_expansions import LocalExpansions
from kbench.chunked import ChunkedRows
from kbench.clustering import Centroids, KernelCentres
from kbench.methods.base.box_svc import BoxSVC, KernelProblems, Start, solve_problems
from kbench.methods.base.dual_svc import DualFit, DualSVC, clipped_count, n_steps
from kbench.methods.base.limits import refuse_max_time
from kbench.methods.base.parts import Part, solve_parts
from kbench.methods.base.sizes import CLIPPED_GROUP_ROWS, MAX_GROUPS, number_of_groups
from kbench.methods.divide.division import PARTITIONS, Division, divide, nested_divisions
from kbench.methods.divide.early_svc_chunks import fit_chunks
from kbench.methods.out_of_core.out_of_core import sample_size
from kbench.prediction import (
    BayesianCommittee,
    CommitteeMember,
    KernelExpansion,
    group_rows,
    prediction_dtype,
)
from kbench.trace import Deadline, Trace
from kbench.validated import choice, integer, usual

# With combine="exact" and no preset, a level is not trained if one of its clusters has more than
# this fraction of the points: it would cost nearly as much as the whole problem, which is solved
# afterwards anyway. A smaller fraction would skip levels that provide a good start. Set by hand.
_MAX_CLUSTER_FRACTION = 2 / 3


class Level(NamedTuple):
    """Result and cost of one level of training."""

    n_clusters: int
    support: np.ndarray  # (s,) rows with a non-zero coefficient after the level
    cluster_s: float  # wall seconds
    train_s: float
    kernel_entries: int


@dataclass(eq=False, repr=False)
class DCSVC(DualSVC):
    """Kernel machines trained cluster by cluster, then combined or made exact (DC-SVM).

    For clusters V_1 .. V_k, the local solutions together are the exact solution for the kernel

        Kbar(x, z) = K(x, z) if x and z are in the same cluster, else 0        (equation 3)

    which is close to K if the clusters are far apart. Algorithm 1, with l from fine to coarse
    levels (n_clusters * branching^(n_levels - 1), ..., n_clusters clusters):

        for each level l
          sample `n_samples` points: from all points at the first level, afterwards from those with
            alpha_i > 0 (adaptive clustering)
          cluster the sample; assign every point to the nearest centre
          for each cluster: solve its dual, starting from the alpha of the level before

    and for `combine="exact"`, starting from the alpha of the last level,

        refine: solve the dual of the points with alpha_i > 0
        conquer: solve the dual of all points, with the known gradient of the refined points.

    Otherwise a new point is decided by the model of its cluster ("early"), or by a combination of
    all local models.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters of the last level. None: one for each 500 rows, at most 64, but one for
        each 4,000 rows if there are more than 256,000 rows; 64 with a `preset`. With
        combine="exact" it is 4, or 16 with preset="released". Empty clusters are dropped. More
        clusters than training points are reduced, with a warning, to one for each ten points.
    combine : {"early", "naive", "bcm", "exact"}, default="early"
        "early", equation 11: sum_{i in V_c} y_i alpha_i k(x_i, x) for the cluster c of x. "naive",
        equation 10: the sum over all i. "bcm": Bayesian committee machine of the local models
        (see `kbench.prediction.committee`). "exact": the model of `KernelSVC` without intercept,
        started from the local models.
    partition : {"kmeans", "kernel_kmeans", "ghitta", "random"} or None, default=None
        "kmeans": in input space, on the sample; the default except with combine="exact".
        "kernel_kmeans": two-step kernel k-means, as in the paper, for any kernel. If gamma is so
        large that sampled points have almost no similarity, its clusters are unbalanced and
        training takes longer. "ghitta": approximate kernel k-means of all points, started from the
        two-step clusters. "random": clusters of equal size, as a control; "early" cannot use them.
    n_samples : int or None, default=None
        Number of points that are clustered. None: 1000, or 50 for each cluster if `n_clusters` is
        None and more than 64 clusters result.
    n_levels : int or None, default=None
        Number of levels of training. None: 2, or 4 with combine="exact"; 1 for rows in chunks if
        `n_clusters`, `branching` and `preset` are None, too. 1 trains `n_clusters` clusters from
        zero coefficients. A level with more clusters than sampled points is skipped.
    branching : int or None, default=None
        Ratio of the numbers of clusters of consecutive levels; None is 4.
    preset : {"paper", "released"} or None, default=None
        Values of the parameters above, and of `tol` and `level_tol`, that are None; see
        `kbench.presets`. A parameter that is not None always wins. None: the defaults that each
        parameter names. With combine="exact" a level is skipped if one of its clusters has more
        than two thirds of the points. "paper": the settings of the paper's experiments; every level
        is trained. "released": the settings of the authors' program, which differs from Algorithm
        1: all levels use one sample, finer clusters lie inside coarser clusters, clusters of fewer
        than 5 * n_samples / (clusters of the finest level) sampled points are not divided, and
        "exact" ends after refining.
    tol : float or None, default=None
        Tolerance of the solver, as in `KernelSVC`: 0.1 for local models, which are approximate
        anyway, and 0.001 with combine="exact".
    level_tol : float or None, default=None
        With combine="exact", the tolerance of all solves but the last: 0.1, because they only
        provide the starting point of the next solve; with a `preset`, the preset's `tol`.
    C, kernel, gamma, degree, coef0, cache_mb, class_weight, probability, \
max_iter, max_time, dtype, shrinking
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits each binary problem of each cluster.
    random_state : int, RandomState or None, default=None
        Seed of samples and initial centres.
    n_jobs : int or None, default=None
        Number of clusters trained in parallel through joblib; None is 1 unless a joblib backend
        sets another number. The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    labels_ : (n,) ints
        Cluster of each training row at the last level.
    n_clusters_ : int
        Number of clusters that are not empty.
    levels_ : list of Level
        n_clusters, support, cluster_s, train_s and kernel_entries of each level; for "exact" also
        those of refining and conquering, each with one cluster.
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the kernel Kbar of the last level or, with "exact", for the kernel
        itself; `n_iter_` is the sum over all levels.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "cluster", "train", "refine", "conquer".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    With combine="early" and partition "kmeans", `fit` also takes `ChunkedRows` (`kbench.chunked`),
    which may be larger than memory; C="loo" is then 1. The rows are divided by a tree of k-means
    with `n_clusters` leaves and `branching` children a node, grown on max(n_samples, 50 n_clusters)
    sampled rows, and written to disk in the order of its leaves. The model of a leaf is then, to
    the bit, that of this class with n_clusters=1 fitted to the rows of the leaf, so that `n_levels`
    and `branching` divide each cluster further before it is solved as a whole. A cluster whose
    training does not fit into the rows' `memory_mb` becomes several, with a warning and a line in
    `notes_`. `support_`, `dual_coef_` and `labels_` are not set, since they have an entry for each
    row; `cluster_sizes_` is the number of rows of each cluster, and `timings_` has "survey",
    "tree", "divide" and "train". `fit` reports clusters_done and n_clusters to the trace after each
    cluster.

    Training takes about 1/k of the kernel values of the exact model, and O(n n_samples (d + k))
    for the assignments. Early prediction costs O(n_sv d / k) a row, and O(n_samples d) or O(k d)
    for the assignment, depending on `partition`; "naive" and "exact" cost O(n_sv d), "bcm"
    O(n_sv d + sum_c s_c^2) for clusters of s_c support vectors. `fit` reports alpha (n, m),
    n_clusters, n_support, cluster_s and train_s to the trace after each level.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import DCSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DCSVC(8, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    n_clusters: int | None = None
    _: KW_ONLY
    combine: str = "early"
    partition: str | None = None
    n_samples: int | None = None
    n_levels: int | None = None
    branching: int | None = None
    preset: str | None = None
    tol: float | None = None
    level_tol: float | None = None
    shrinking: bool = True
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "n_clusters": [integer(1), None],
        "combine": [choice("early", "naive", "bcm", "exact")],
        "partition": [choice(*PARTITIONS), None],
        "n_samples": [integer(1), None],
        "n_levels": [integer(1), None],
        "branching": [integer(2), None],
        "preset": [choice("paper", "released"), None],
        "tol": [*BoxSVC._parameter_constraints["tol"], None],
        "level_tol": [*BoxSVC._parameter_constraints["tol"], None],
        **usual("n_jobs", "shrinking"),
    }

    def _settings(self) -> dict[str, Any]:
        """Values in effect of the parameters that presets set."""
        table = presets.DCSVM if self.combine == "exact" else presets.DCSVM_LOCAL
        return presets.resolve(self.preset, table, self.get_params(deep=False))

    @property
    def _tolerance(self) -> float:
        return self._settings()["tol"]

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        is_exact, is_released = self.combine == "exact", self.preset == "released"
        n = len(problem.Y)
        with trace.phase("prepare"):
            settings = self._checked_settings()
            reduced_k = max(1, n // CLIPPED_GROUP_ROWS)
            n_clusters = number_of_groups(settings["n_clusters"], n)
            k = clipped_count("n_clusters", n_clusters, n, reduced_k)
            n_samples = settings["n_samples"]
            if settings["n_clusters"] is None and self.n_samples is None and k > MAX_GROUPS:
                n_samples = sample_size(n_samples, k)
            k, n_samples = min(k, n_samples), min(n_samples, n)
            finer = [k * settings["branching"] ** j for j in range(settings["n_levels"] - 1, 0, -1)]
            sizes = [size for size in finer if size <= n_samples] + [k]
            rng = check_random_state(self.random_state)
        options = self._solver_options()
        if is_exact:
            options["tol"] = settings["level_tol"]
        nested: list[Division] = []
        if is_released:
            with trace.phase("cluster"):
                sample = rng.choice(n, n_samples, replace=False)
                nested = nested_divisions(
                    problem, settings["partition"], sizes, settings["branching"], sample, rng
                )
        self.levels_: list[Level] = []
        parts = [Part.zero(problem, np.arange(n))]
        alpha = parts[0].alpha
        candidates = np.arange(n)
        n_iter = 0
        for level, size in enumerate(sizes):
            if is_released:
                centres, self.labels_ = nested[level]
            else:
                with trace.phase("cluster"):
                    sample = rng.choice(candidates, min(n_samples, len(candidates)), replace=False)
                    centres, self.labels_ = divide(
                        problem, settings["partition"], size, sample, rng
                    )
            clusters = [rows for _, rows in group_rows(self.labels_)]
            if (
                is_exact
                and self.preset is None
                and max(map(len, clusters)) > _MAX_CLUSTER_FRACTION * n
            ):
                continue
            with trace.phase("train"):
                parts = solve_parts(
                    problem,
                    [Part(rows, alpha[rows]) for rows in clusters],
                    deadline=deadline,
                    n_jobs=self.n_jobs,
                    **options,
                )
            n_iter += n_steps(parts)
            alpha = _gather_alpha(problem, parts)
            support = self._append_level(problem, len(parts), alpha, trace)
            candidates = support if len(support) else candidates
        start = Start(alpha)
        if is_exact and alpha.any():
            with trace.phase("refine"):
                if is_released:
                    options = self._solver_options()
                parts = solve_parts(
                    problem, [Part(np.arange(n), alpha).support], deadline=deadline, **options
                )
                alpha = _gather_alpha(problem, parts)
                start = start_from(alpha, parts[0])
            n_iter += n_steps(parts)
            self._append_level(problem, 1, alpha, trace)
        if is_exact and not is_released:
            with trace.phase("conquer"):
                parts = [self._conquer(problem, start, deadline, trace)]
                alpha = parts[0].alpha
            n_iter += n_steps(parts)
            self._append_level(problem, 1, alpha, trace)
        self.n_clusters_ = int(self.labels_.max()) + 1
        return DualFit(parts, n_iter, partial(self._combined_machine, problem, centres))

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        is_early = (
            self.combine == "early" and self.kernel != "precomputed" and self.max_time is None
        )
        return is_early and self._settings()["partition"] == "kmeans"

    def _fit_chunks(self, rows: ChunkedRows, trace: Trace) -> Self:
        settings = self._settings()
        if self.combine != "early":
            raise ValueError(
                f"combine={self.combine!r} needs all rows in memory; rows in chunks are for "
                "combine='early'"
            )
        if settings["partition"] != "kmeans":
            raise ValueError(
                f"partition={settings['partition']!r} needs all rows in memory; rows in chunks are "
                "divided by partition='kmeans'"
            )
        if self.kernel == "precomputed":
            raise ValueError("kernel='precomputed' has no rows of features to read in chunks")
        refuse_max_time(self)
        cluster_model = clone(self).set_params(n_clusters=1, n_jobs=None)
        division_parameters = (self.preset, self.n_clusters, self.n_levels, self.branching)
        if all(value is None for value in division_parameters):
            # Clusters of 4,000 rows train about 1.5 times as long if they are divided again; no
            # script records this ratio.
            cluster_model.set_params(n_levels=1)
        fit_chunks(self, rows, cluster_model, settings, self.n_jobs, trace)
        return self

    def _validate_params(self) -> None:
        super()._validate_params()
        self._checked_settings()

    def _checked_settings(self) -> dict[str, Any]:
        """Return the settings in effect; raise if two parameters contradict each other."""
        settings = self._settings()
        partition = settings["partition"]
        if (settings["n_clusters"] or 0) > settings["n_samples"]:
            raise ValueError(
                f"n_clusters={settings['n_clusters']} is more than "
                f"n_samples={settings['n_samples']}, the points that are clustered"
            )
        if settings["n_levels"] == 1 and settings["branching"] != presets.BRANCHING:
            raise ValueError(
                f"branching={settings['branching']} has no effect with n_levels=1; leave it out"
            )
        if partition == "random" and self.combine == "early":
            raise ValueError(
                "combine='early' needs the cluster of a new point, which partition='random' does "
                "not have; use combine='naive' or 'bcm'"
            )
        if self.kernel == "precomputed" and partition == "kmeans":
            raise ValueError(
                "partition='kmeans' needs rows of features, not kernel='precomputed'; use "
                "partition='kernel_kmeans'"
            )
        if self.kernel == "precomputed" and self.combine == "bcm":
            raise ValueError(
                "combine='bcm' needs k(x, x) of new points, which kernel='precomputed' does not "
                "give; use combine='early' or 'naive'"
            )
        if self.level_tol is not None and self.combine != "exact":
            raise ValueError(
                f"level_tol={self.level_tol:g} is the tolerance of the levels before "
                f"combine='exact', but combine={self.combine!r}; use tol"
            )
        return settings

    def _conquer(
        self, problem: KernelProblems, start: Start, deadline: Deadline, trace: Trace
    ) -> Part:
        """Solve the dual of all points."""
        results = solve_problems(
            problem.kernel,
            problem.Y,
            problem.C,
            start,
            max_time=deadline.seconds_left(),
            trace=trace,
            **self._solver_options(),
        )
        alpha = np.column_stack([result.alpha for result in results])
        return Part(np.arange(len(alpha)), alpha, results)

    def _regions(self, X: Any) -> np.ndarray | None:
        if not isinstance(self._machine, EarlyMachine):
            return None
        return self._machine.assign(self._rows_to_predict(X))

    def _append_level(
        self, problem: KernelProblems, n_clusters: int, alpha: np.ndarray, trace: Trace
    ) -> np.ndarray:
        """Append the level with this alpha : (n, m) to `levels_`; return its support vectors."""
        timings, earlier_levels = trace.timings, self.levels_
        train_s = sum(timings.get(phase, 0.0) for phase in ("train", "refine", "conquer"))
        level = Level(
            n_clusters,
            np.flatnonzero(alpha.any(axis=1)),
            timings.get("cluster", 0.0) - sum(level.cluster_s for level in earlier_levels),
            train_s - sum(level.train_s for level in earlier_levels),
            problem.kernel.n_entries - sum(level.kernel_entries for level in earlier_levels),
        )
        self.levels_.append(level)
        trace(
            alpha=alpha,
            n_clusters=n_clusters,
            n_support=len(level.support),
            cluster_s=level.cluster_s,
            train_s=level.train_s,
        )
        return level.support

    def _combined_machine(
        self, problem: KernelProblems, centres: KernelCentres | Centroids | None, alpha: np.ndarray
    ) -> Any:
        """The decision function that `combine` makes of the local models."""
        if self.combine in ("naive", "exact"):
            return self._expansion(problem)(alpha)
        coef = alpha * problem.Y
        has_coef = coef.any(axis=1)
        dtype = prediction_dtype(problem.kernel, coef[has_coef])
        clusters = [
            (problem.kernel.take(rows), np.flatnonzero(has_coef[rows]), rows[has_coef[rows]])
            for _, rows in group_rows(self.labels_)
        ]
        if self.combine == "early":
            assert centres is not None
            machines = [
                KernelExpansion(kernel, positions, coef[rows], dtype)
                for kernel, positions, rows in clusters
            ]
            return EarlyMachine(centres, machines, coef.shape[1])
        members = [
            CommitteeMember(kernel, positions, coef[rows], 1.0 / problem.C[rows])
            for kernel, positions, rows in clusters
            if len(rows)
        ]
        return BayesianCommittee(members, coef.shape[1])


class EarlyMachine(LocalExpansions):
    """Equation 11: the model of the cluster whose centre is nearest."""


def _gather_alpha(problem: KernelProblems, parts: list[Part]) -> np.ndarray:
    """Dual variables (n, m) of disjoint parts, 0 for rows outside all parts."""
    alpha = np.zeros_like(problem.Y)
    for part in parts:
        alpha[part.rows] = part.alpha
    return alpha


def start_from(alpha: np.ndarray, refined: Part) -> Start:
    """Start of conquering: alpha : (n, m), and the gradient, known at the refined rows only."""
    gradient = np.full_like(alpha, np.nan)
    gradient[refined.rows] = np.column_stack([result.gradient for result in refined.results])
    return Start(alpha, gradient, max(result.gradient_error for result in refined.results))
