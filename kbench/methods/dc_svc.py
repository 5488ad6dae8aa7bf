"""Divide-and-conquer support vector classifier that stops before the conquest: DC-SVM (early)."""

import time
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.clustering import (
    Centroids,
    KernelCentres,
    sampled_kmeans,
    two_step_kernel_kmeans,
)
from kbench.kernels import KernelMatrix
from kbench.methods._box_svc import BoxSVC, Problem, solve_problems
from kbench.prediction import (
    BayesianCommittee,
    CommitteeMember,
    KernelExpansion,
    LocalMachines,
    group_rows,
    prediction_dtype,
)
from kbench.solvers import BoxDualResult
from kbench.trace import Trace


class DCSVC(BoxSVC):
    """Kernel machines trained cluster by cluster, and early prediction (DC-SVM early).

    With clusters V_1 .. V_k, the local solutions together are the exact solution for the kernel

        kbar(x, z) = k(x, z) if x and z are in the same cluster, else 0,

    which is close to k where clusters are far apart. Algorithm, for the levels l from fine to
    coarse (`n_clusters` * `branching`^(`n_levels` - 1), ..., `n_clusters` clusters):

        1. sample `n_samples` points: of all at the first level, then of those with a_i > 0;
        2. cluster the sample, give every point the nearest centre;
        3. solve each cluster's dual from the a of the level before.

    A new point is judged by the machine of its own cluster (`combine="early"`), or by all.

    Parameters
    ----------
    n_clusters : int, default=64
        Clusters of the last level; empty ones are dropped.
    combine : {"early", "naive", "bcm"}, default="early"
        "early": sum_{i in V_c} y_i a_i k(x_i, x) for the cluster c of x. "naive": the sum over all
        i. "bcm": Bayesian committee machine of the local machines (see
        `kbench.prediction.committee`).
    partition : {"kmeans", "kernel_kmeans", "random"}, default="kmeans"
        k-means in input space, as the authors' program has it for the RBF kernel; two-step kernel
        k-means, as the paper has it, for any kernel (where gamma is so large that sampled points
        hardly see one another, its clusters are unbalanced and training takes longer); or, as a
        control, random clusters of equal size, which cannot be combined by "early".
    n_samples : int, default=1000
        Points that are clustered.
    n_levels : int, default=2
        Levels of training; 1 trains `n_clusters` clusters from zero. A level with more clusters
        than points to sample is left out.
    branching : int, default=4
        Ratio of the numbers of clusters from level to level.
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
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
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, for the last level's kernel kbar (n_iter_ over all levels).
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "cluster", "train".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    Training takes about 1/k of the kernel values of the exact machine, and O(n n_samples (d + k))
    for the assignments. Early prediction costs O(n_sv d / k) a row and the assignment,
    O(n_samples d) or O(k d) by partition; "naive" O(n_sv d); "bcm" that and O(sum_c s_c^2).

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
        "combine": [StrOptions({"early", "naive", "bcm"})],
        "partition": [StrOptions({"kernel_kmeans", "kmeans", "random"})],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_levels": [Interval(Integral, 1, None, closed="left")],
        "branching": [Interval(Integral, 2, None, closed="left")],
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
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
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
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
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
        deadline = time.perf_counter() + (np.inf if self.max_time is None else self.max_time)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            n = len(problem.Y)
            self._check_division(n)
        rng = check_random_state(self.random_state)
        alpha = np.zeros_like(problem.Y)
        candidates = np.arange(n)
        n_iter = 0
        for n_clusters in self._levels(n):
            with trace.phase("cluster"):
                centres, self.labels_ = self._divide(problem, n_clusters, candidates, rng)
            with trace.phase("train"):
                alpha, results = self._train(problem, alpha, deadline + trace.paused_wall_s)
            n_iter += sum(result.n_iter for result in results)
            if alpha.any():
                candidates = np.flatnonzero(alpha.any(axis=1))
            trace(alpha=alpha, n_clusters=n_clusters)
        with trace.phase("prepare"):
            self._finish(problem, alpha, results)
            self._assemble(problem, alpha, centres)
        self.n_iter_ = n_iter
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

    def _levels(self, n: int) -> list[int]:
        """Numbers of clusters from fine to coarse."""
        finer = [self.n_clusters * self.branching**j for j in range(self.n_levels - 1, 0, -1)]
        return [k for k in finer if k <= min(n, self.n_samples)] + [self.n_clusters]

    def _divide(
        self, problem: Problem, n_clusters: int, candidates: np.ndarray, rng: np.random.RandomState
    ) -> tuple[KernelCentres | Centroids | None, np.ndarray]:
        """Centres of clusters and each training point's cluster."""
        sample = rng.choice(candidates, min(self.n_samples, len(candidates)), replace=False)
        if self.partition == "kernel_kmeans":
            return two_step_kernel_kmeans(problem.kernel, n_clusters, sample, rng)
        if self.partition == "kmeans":
            return sampled_kmeans(problem.X, n_clusters, sample)
        return None, rng.permutation(len(problem.Y)) % n_clusters

    def _train(
        self, problem: Problem, alpha: np.ndarray, deadline: float
    ) -> tuple[np.ndarray, list[BoxDualResult]]:
        """Solve each cluster of `labels_` from alpha : (n, m), until `deadline`."""
        clusters = [rows for _, rows in group_rows(self.labels_)]
        solved = Parallel(n_jobs=self.n_jobs)(
            delayed(_solve_cluster)(
                problem.kernel.take(rows),
                problem.Y[rows],
                problem.C[rows],
                alpha[rows],
                max_time=max(0.0, deadline - time.perf_counter()),
                **self._solver_options(),
            )
            for rows in clusters
        )
        alpha = np.empty_like(alpha)
        for rows, (results, n_entries) in zip(clusters, solved, strict=True):
            alpha[rows] = np.column_stack([result.alpha for result in results])
            problem.kernel.count(n_entries)
        return alpha, [result for results, _ in solved for result in results]

    def _assemble(
        self, problem: Problem, alpha: np.ndarray, centres: KernelCentres | Centroids | None
    ) -> None:
        """Set `_machine`, the function that `combine` makes of the local machines."""
        coef = alpha * problem.Y
        support = np.zeros(len(coef), bool)
        support[self.support_] = True
        dtype = prediction_dtype(problem.kernel, coef[support])
        if self.combine == "naive":
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
            self._machine = LocalMachines(centres.assign, machines, coef.shape[1])
            self.model_bytes_ = centres.nbytes + sum(machine.nbytes for machine in machines)
        else:
            members = [
                CommitteeMember(kernel, local, coef[rows], 1.0 / problem.C[rows])
                for kernel, local, rows in clusters
                if len(rows)
            ]
            self._machine = committee = BayesianCommittee(members, coef.shape[1])
            self.model_bytes_ = committee.nbytes


def _solve_cluster(
    kernel: KernelMatrix, *arguments: Any, **options: Any
) -> tuple[list[BoxDualResult], int]:
    """Local solutions, and how many kernel values they took."""
    return solve_problems(kernel, *arguments, **options), kernel.n_entries
