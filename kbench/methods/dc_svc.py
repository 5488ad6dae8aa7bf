"""Divide-and-conquer support vector classifier (DC-SVM), exact or stopped before the conquest."""

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.clustering import Centroids, KernelCentres
from kbench.methods._box_svc import BoxSVC, Problem, Start, solve_problems
from kbench.methods._division import PARTITIONS, Division, divide, split
from kbench.methods._parts import Part, solve_parts
from kbench.prediction import (
    BayesianCommittee,
    CommitteeMember,
    KernelExpansion,
    LocalMachines,
    group_rows,
    prediction_dtype,
)
from kbench.solvers import BoxDualResult
from kbench.trace import Deadline, Trace

# Where one cluster has more than this share of the points, training it is nearly the whole problem.
_UNDIVIDED = 2 / 3


class Level(NamedTuple):
    """What one level of training came to."""

    n_clusters: int
    support: np.ndarray  # (s,) rows with a coefficient that is not zero after the level
    cluster_s: float  # wall seconds
    train_s: float


class DCSVC(BoxSVC):
    """Kernel machines trained cluster by cluster, then combined or made exact (DC-SVM).

    With clusters V_1 .. V_k, the local solutions together are the exact solution for the kernel

        kbar(x, z) = k(x, z) if x and z are in the same cluster, else 0,

    which is close to k where clusters are far apart. Algorithm, for the levels l from fine to
    coarse (`n_clusters` * `branching`^(`n_levels` - 1), ..., `n_clusters` clusters):

        1. sample `n_samples` points: of all at the first level, then of those with a_i > 0;
        2. cluster the sample, give every point the nearest centre;
        3. solve each cluster's dual from the a of the level before;

    and for `combine="exact"`, from the a of the last level:

        4. refine: solve the dual of the points with a_i > 0;
        5. conquer: solve the dual of all points from there, the gradient of the refined ones known.

    Otherwise a new point is judged by the machine of its own cluster ("early"), or by all.

    Parameters
    ----------
    n_clusters : int, default=64
        Clusters of the last level; empty ones are dropped.
    combine : {"early", "naive", "bcm", "exact"}, default="early"
        "early": sum_{i in V_c} y_i a_i k(x_i, x) for the cluster c of x. "naive": the sum over all
        i. "bcm": Bayesian committee machine of the local machines (see
        `kbench.prediction.committee`). "exact": the machine of `KernelSVC`, started from the local
        ones.
    partition : {"kmeans", "kernel_kmeans", "ghitta", "random"}, default="kmeans"
        k-means in input space, as the authors' program has it for the RBF kernel; two-step kernel
        k-means, as the paper has it, for any kernel (where gamma is so large that sampled points
        hardly see one another, its clusters are unbalanced and training takes longer); approximate
        kernel k-means of all points, which starts from the two-step clusters; or, as a control,
        random clusters of equal size, which cannot be combined by "early".
    n_samples : int, default=1000
        Points that are clustered.
    n_levels : int, default=2
        Levels of training; 1 trains `n_clusters` clusters from zero. A level with more clusters
        than points to sample is left out; with "exact" also one where a cluster has more than two
        thirds of the points, so nearly the whole problem: where gamma is so large that points see
        none of the sample, all of these are nearest to the same centre.
    branching : int, default=4
        Ratio of the numbers of clusters from level to level.
    preset : {"paper", "released"}, default="paper"
        "released" differs from the above as the authors' program does: one sample for all levels;
        finer clusters lie inside coarser ones, and those with fewer than
        5 * n_samples / (clusters of the finest level) sampled points are not split; 5. is left out.
        The program's numbers are n_samples=2000 and tol=0.01.
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    level_tol : float or None, default=None
        With "exact", the tolerance of all but the last solve: those say only where the next
        starts. None is `tol`.
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Of each binary problem of each cluster.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    shrinking : bool, default=True
        From `C` on as in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Of samples and first centres.
    n_jobs : int or None, default=None
        Clusters trained at once, through joblib; None is 1 (unless a joblib backend says other).
        The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv) or (n_classes, n_sv)
    n_support_ : (n_classes,) ints
    labels_ : (n,) ints
        Cluster of each training row at the last level.
    n_clusters_ : int
        Clusters that are not empty.
    levels_ : list of Level
        n_clusters, support, cluster_s and train_s of each level; for "exact" also those of
        refinement and conquest, each with one cluster.
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`: for the last level's kernel kbar (n_iter_ over all levels), or, with
        "exact", for the kernel itself.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "cluster", "train", "refine", "conquer".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    Training takes about 1/k of the kernel values of the exact machine, and O(n n_samples (d + k))
    for the assignments. Early prediction costs O(n_sv d / k) a row and the assignment,
    O(n_samples d) or O(k d) by partition; "naive" and "exact" O(n_sv d); "bcm" that and
    O(sum_c s_c^2).

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

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "combine": [StrOptions({"early", "naive", "bcm", "exact"})],
        "partition": [StrOptions(set(PARTITIONS))],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_levels": [Interval(Integral, 1, None, closed="left")],
        "branching": [Interval(Integral, 2, None, closed="left")],
        "preset": [StrOptions({"paper", "released"})],
        "level_tol": [*BoxSVC._parameter_constraints["tol"], None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_clusters: int = 64,
        *,
        combine: str = "early",
        partition: str = "kmeans",
        n_samples: int = 1000,
        n_levels: int = 2,
        branching: int = 4,
        preset: str = "paper",
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        level_tol: float | None = None,
        cache_mb: float = 200.0,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        dtype: str = "float32",
        shrinking: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.combine = combine
        self.partition = partition
        self.n_samples = n_samples
        self.n_levels = n_levels
        self.branching = branching
        self.preset = preset
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.level_tol = level_tol
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.dtype = dtype
        self.shrinking = shrinking
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Cluster, train, and keep what prediction needs.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row. Clusters are found without it.
        trace : Trace, optional
            Told `alpha` (n, m) after each level, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More clusters than points, parameters that exclude each other, and what `KernelSVC`
            refuses.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            self._check_division(len(problem.Y))
        options = self._solver_options()
        if self.combine == "exact" and self.level_tol is not None:
            options["tol"] = self.level_tol
        self.levels_: list[Level] = []
        alpha = np.zeros_like(problem.Y)
        start = Start(alpha)
        results: list[BoxDualResult] = []
        for division in self._divisions(problem, trace):
            centres, self.labels_ = division
            parts = [Part(rows, alpha[rows]) for _, rows in group_rows(self.labels_)]
            if self.combine == "exact" and self.preset == "paper" and _undivided(parts):
                continue
            with trace.phase("train"):
                alpha, last = self._solve(problem, parts, deadline, n_jobs=self.n_jobs, **options)
            results += last
            self._report(len(parts), alpha, trace)
        if self.combine == "exact" and alpha.any():
            with trace.phase("refine"):
                support = Part(np.arange(len(alpha)), alpha).support
                if self.preset == "released":
                    options = self._solver_options()
                alpha, last = self._solve(problem, [support], deadline, **options)
                start = _start(alpha, support.rows, last)
            results += last
            self._report(1, alpha, trace)
        if self.combine == "exact" and self.preset == "paper":
            with trace.phase("conquer"):
                alpha, last = self._conquer(problem, start, deadline, trace)
            results += last
            self._report(1, alpha, trace)
        with trace.phase("prepare"):
            self._finish(problem, alpha, last)
            self._assemble(problem, alpha, centres)
        self.n_iter_ = sum(result.n_iter for result in results)
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.kernel_entries_ = problem.kernel.n_entries
        self.timings_ = dict(trace.timings)
        return self

    def _check_division(self, n: int) -> None:
        if self.n_clusters > n:
            raise ValueError(f"n_clusters={self.n_clusters} is more than the {n} training points")
        if self.n_clusters > self.n_samples:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than n_samples={self.n_samples}, the points "
                "that are clustered"
            )
        if self.partition == "random" and self.combine == "early":
            raise ValueError(
                "combine='early' needs the cluster of a new point, which partition='random' does "
                "not have; use combine='naive' or 'bcm'"
            )
        if self.kernel == "precomputed" and self.partition == "kmeans":
            raise ValueError(
                "partition='kmeans' needs rows of features, not kernel='precomputed'; use "
                "partition='kernel_kmeans'"
            )
        if self.kernel == "precomputed" and self.combine == "bcm":
            raise ValueError(
                "combine='bcm' needs k(x, x) of new points, which kernel='precomputed' does not "
                "give; use combine='early' or 'naive'"
            )

    def _sizes(self, n: int) -> list[int]:
        """Numbers of clusters from fine to coarse."""
        finer = [self.n_clusters * self.branching**j for j in range(self.n_levels - 1, 0, -1)]
        return [k for k in finer if k <= min(n, self.n_samples)] + [self.n_clusters]

    def _divisions(self, problem: Problem, trace: Trace) -> Iterator[Division]:
        """Centres of clusters and each point's cluster, level by level from fine to coarse.

        Levels are asked for when the one before has been trained: the support vectors in
        `levels_` are sampled from.
        """
        rng = check_random_state(self.random_state)
        n = len(problem.Y)
        sizes = self._sizes(n)
        if self.preset == "released":
            with trace.phase("cluster"):
                divisions = self._nested(problem, sizes, rng)
            yield from divisions
            return
        candidates = np.arange(n)
        for n_clusters in sizes:
            if self.levels_ and len(self.levels_[-1].support):
                candidates = self.levels_[-1].support
            with trace.phase("cluster"):
                sample = rng.choice(candidates, min(self.n_samples, len(candidates)), replace=False)
                division = divide(problem, self.partition, n_clusters, sample, rng)
            yield division

    def _nested(
        self, problem: Problem, sizes: list[int], rng: np.random.RandomState
    ) -> list[Division]:
        """Divisions from fine to coarse of one sample, each inside the next."""
        n = len(problem.Y)
        sample = rng.choice(n, min(self.n_samples, n), replace=False)
        centres, labels = divide(problem, self.partition, sizes[-1], sample, rng)
        divisions: list[Division] = [(centres, labels)]
        smallest = -(-5 * len(sample) // sizes[0])
        for _ in sizes[1:]:
            labels = split(problem, self.partition, self.branching, labels, sample, smallest, rng)
            divisions.insert(0, (None, labels))
        return divisions

    def _solve(
        self, problem: Problem, parts: list[Part], deadline: Deadline, **options: Any
    ) -> tuple[np.ndarray, list[BoxDualResult]]:
        """Solve disjoint parts; alpha : (n, m), zero elsewhere, and the parts' results."""
        solved = solve_parts(problem, parts, deadline=deadline, **options)
        alpha = np.zeros_like(problem.Y)
        for part in solved:
            alpha[part.rows] = part.alpha
        return alpha, [result for part in solved for result in part.results]

    def _conquer(
        self, problem: Problem, start: Start, deadline: Deadline, trace: Trace
    ) -> tuple[np.ndarray, list[BoxDualResult]]:
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
        return np.column_stack([result.alpha for result in results]), results

    def _report(self, n_clusters: int, alpha: np.ndarray, trace: Trace) -> None:
        """Note the level that ends with alpha : (n, m), and tell the trace."""
        spent = trace.timings
        train_s = sum(spent.get(phase, 0.0) for phase in ("train", "refine", "conquer"))
        level = Level(
            n_clusters,
            np.flatnonzero(alpha.any(axis=1)),
            spent.get("cluster", 0.0) - sum(level.cluster_s for level in self.levels_),
            train_s - sum(level.train_s for level in self.levels_),
        )
        self.levels_.append(level)
        trace(
            alpha=alpha,
            n_clusters=n_clusters,
            n_support=len(level.support),
            cluster_s=level.cluster_s,
            train_s=level.train_s,
        )

    def _assemble(
        self, problem: Problem, alpha: np.ndarray, centres: KernelCentres | Centroids | None
    ) -> None:
        """Set `_machine`, the function that `combine` makes of the local machines."""
        coef = alpha * problem.Y
        support = np.zeros(len(coef), bool)
        support[self.support_] = True
        dtype = prediction_dtype(problem.kernel, coef[support])
        if self.combine in ("naive", "exact"):
            machine = KernelExpansion(problem.kernel, self.support_, coef[support], dtype)
            self._machine, self.model_bytes_ = machine, machine.nbytes
            return
        clusters = [
            (problem.kernel.take(rows), np.flatnonzero(support[rows]), rows[support[rows]])
            for _, rows in group_rows(self.labels_)
        ]
        if self.combine == "early":
            assert centres is not None
            machines = [
                KernelExpansion(kernel, local, coef[rows], dtype)
                for kernel, local, rows in clusters
            ]
            self._machine = LocalMachines(
                centres.assign, machines, coef.shape[1], centres.n_products
            )
            self.model_bytes_ = centres.nbytes + sum(machine.nbytes for machine in machines)
        else:
            members = [
                CommitteeMember(kernel, local, coef[rows], 1.0 / problem.C[rows])
                for kernel, local, rows in clusters
                if len(rows)
            ]
            self._machine = committee = BayesianCommittee(members, coef.shape[1])
            self.model_bytes_ = committee.nbytes


def _start(alpha: np.ndarray, rows: np.ndarray, refined: list[BoxDualResult]) -> Start:
    """alpha : (n, m), zero but for `rows`, of which the results tell the gradient."""
    gradient = np.full_like(alpha, np.nan)
    gradient[rows] = np.column_stack([result.gradient for result in refined])
    return Start(alpha, gradient, max(result.gradient_error for result in refined))


def _undivided(parts: list[Part]) -> bool:
    """Whether most points are in one part."""
    sizes = [len(part.rows) for part in parts]
    return max(sizes) > _UNDIVIDED * sum(sizes)
