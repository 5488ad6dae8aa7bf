"""Recursive feature machines: kernel ridge in a metric that is learned by the same machine.

    learn M, the kernel, its width and the ridge on a sample (`kbench.metric.LearnedMetric`)
    z = M^(1/2) x for all rows
    up to `max_exact` rows:   c = (K(Z, Z) + ridge I)^-1 Y
    beyond:                   the same within clusters of the transformed rows, each of about
                              `cluster_size` rows; a new row is evaluated by the cluster of the
                              nearest centroid. With `local_metrics`, a cluster may have its own M

A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature learning in neural
networks and backpropagation-free machine learning models", Science 383, 2024, Algorithm 1; division
by clusters as in xRFM (2025) and in BKA (Si, Hsieh and Dhillon, JMLR 18, 2017, section 4).
"""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods

from kbench.approximation import Machine
from kbench.approximation.clusters.local_expansions import LocalExpansions
from kbench.clustering import Centroids, sampled_kmeans
from kbench.clustering.copies import without_copies
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeEstimator, RidgeRegressorMixin
from kbench.metric import LearnedMetric
from kbench.metric.local import local_root
from kbench.metric.ridge_problem import apply_root
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype
from kbench.solvers.ridge.kernel_ridge import shifted_cholesky
from kbench.trace import Trace
from kbench.validated import integer, usual

# Number of sampled rows for k-means: 20,000 rows place a few dozen centroids well, and more take
# more time. Set by hand.
_KMEANS_ROWS = 20000
# A cluster may exceed `cluster_size` by this factor before it is divided: its factorisation then
# takes 3.4 times as long as for a cluster of the wanted size. Set by hand.
_MAX_SIZE_RATIO = 1.5
# Guard: maximum number of rounds of dividing; each halves every cluster that is too large.
_MAX_SPLIT_ROUNDS = 20


class InMetric:
    """A machine of transformed rows as a machine of the untransformed ones.

    Parameters
    ----------
    metric : LearnedMetric, fitted
    machine : X : (u, r) -> (u, m) float64 on transformed rows
    """

    def __init__(self, metric: LearnedMetric, machine: Machine) -> None:
        self.metric, self.machine = metric, machine

    @property
    def nbytes(self) -> int:
        return self.machine.nbytes + self.metric.nbytes_

    def flops(self, n_features: int) -> float:
        rank = len(self.metric.get_feature_names_out())
        return rank + self.machine.flops(rank) * rank / n_features

    def __call__(self, X: Any) -> np.ndarray:
        return self.machine(self.metric.mapped(X))


class Mapped:
    """A machine of rows root' z as a machine of rows z, for a cluster with its own metric.

    Parameters
    ----------
    root : (r,) weights or (r, q) map
    """

    def __init__(self, root: np.ndarray, machine: Machine) -> None:
        self.root, self.machine = root, machine

    @property
    def nbytes(self) -> int:
        return self.machine.nbytes + self.root.nbytes

    def flops(self, n_features: int) -> float:
        rank = self.root.shape[-1]
        products = 1.0 if self.root.ndim == 1 else float(rank)
        return products + self.machine.flops(rank) * rank / n_features

    def __call__(self, X: Any) -> np.ndarray:
        return self.machine(apply_root(X, self.root).astype(np.float32))


@dataclass(eq=False, repr=False)
class RecursiveFeatureMachine(RidgeEstimator):
    """Base of the regressor and the classifier.

    Parameters
    ----------
    metric : LearnedMetric or None, default=None
        Learns the metric; None is one that compares all kernels and scalings.
    max_exact : int, default=10000
        Maximum number of rows that share one factorised kernel matrix; more are divided into
        clusters. Set by hand.
    cluster_size : int, default=5000
        Approximate number of rows of a cluster. Set by hand.
    local_metrics : bool, default=False
        Whether each cluster learns a metric of its own on top of the metric of all rows, and keeps
        it if its held-out error falls. The clusters then take three times as long.
    fit_intercept : bool
        As in `KernelRidge`; True for the regressor, whose estimates follow the mean of its targets,
        and False for the classifier.
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    metric_ : LearnedMetric
        Fitted; `metric_.feature_importances_` says which features matter.
    n_clusters_ : int
        1 for an exact machine.
    n_local_metrics_ : int
        Clusters that kept a metric of their own.
    kernel_entries_ : int
        Kernel values of the last model, without those for learning the metric.
    n_parameters_, model_bytes_, n_features_in_ : int
    timings_ : dict of str to float
        Seconds of "metric", "cluster", "blocks" and "solve".

    Notes
    -----
    The metric costs what `LearnedMetric` states, the model n^3 / 3 operations and 4 n^2 bytes up
    to `max_exact` rows, and n s^2 / 3 with clusters of s rows beyond. Prediction costs O(n d) a
    row, or O(s d).
    """

    _parameter_constraints: ClassVar[dict] = {
        "metric": [HasMethods(["fit", "transform"]), None],
        "max_exact": [integer(1)],
        "cluster_size": [integer(1)],
        "local_metrics": ["boolean"],
        **usual("fit_intercept", "n_jobs", "random_state", "probability"),
    }

    metric: LearnedMetric | None = None
    _: KW_ONLY
    max_exact: int = 10000
    cluster_size: int = 5000
    local_metrics: bool = False
    n_jobs: int | None = None
    random_state: Any = None

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        distinct = without_copies(X, Y)
        if distinct is not None:
            # The metric chooses the ridge on distinct rows, too; copies would weigh more.
            X, Y = X[distinct[0]], Y[distinct[0]]
        rng = check_random_state(self.random_state)
        seed = rng.randint(2**31)
        default_metric = LearnedMetric(kernel="any", scaling="auto")
        metric = default_metric if self.metric is None else clone(self.metric)
        if metric.random_state is None:
            metric.set_params(random_state=seed)
        is_classification = is_classifier(self)
        target = Y
        if is_classification:
            signs = Y + self.intercept_ if self.fit_intercept else Y
            target = signs.argmax(axis=1) if Y.shape[1] > 1 else signs[:, 0] > 0.0
        metric.set_params(task="classification" if is_classification else "regression")
        with trace.phase("metric"):
            self.metric_ = metric.fit(X, target, trace=trace)
            Z = metric.mapped(X).astype(np.float32)
        kernel = make_kernel(metric.kernel_, Z, gamma=metric.gamma_)
        if len(Z) <= self.max_exact:
            groups, centroids = [np.arange(len(Z))], None
        else:
            with trace.phase("cluster"):
                centroids, labels = self._divide(Z, rng)
                groups = [rows for _, rows in group_rows(labels)]
        self.n_clusters_ = len(groups)
        # One model of all rows has the metric of all rows.
        may_learn_local = self.local_metrics and len(groups) > 1
        with trace.phase("solve"):
            solved = Parallel(n_jobs=self.n_jobs)(
                delayed(_solve)(
                    kernel, Z[rows], Y[rows], metric, may_learn_local, rng.randint(2**31)
                )
                for rows in groups
            )
        machines = [machine for machine, _ in solved]
        self.n_local_metrics_ = sum(isinstance(machine, Mapped) for machine in machines)
        self.kernel_entries_ = sum(entries for _, entries in solved)
        self.n_parameters_ = sum(len(rows) * (Z.shape[1] + Y.shape[1]) for rows in groups)
        if centroids is None:
            return InMetric(metric, machines[0])
        return InMetric(metric, LocalExpansions(centroids, machines, Y.shape[1]))

    def _divide(self, Z: np.ndarray, rng: np.random.RandomState) -> tuple[Centroids, np.ndarray]:
        """Centroids by k-means, more where a cluster is too large, and the cluster of each row.

        A centroid with more than `_MAX_SIZE_RATIO` times `cluster_size` rows is replaced by the two
        means of its rows; then all rows are assigned anew, after which others may be too large.
        """
        sample = rng.permutation(len(Z))[:_KMEANS_ROWS]
        n_wanted = math.ceil(len(Z) / self.cluster_size)
        means = sampled_kmeans(Z, n_wanted, sample)[0].means
        for _ in range(_MAX_SPLIT_ROUNDS):
            labels = Centroids(means).assign(Z)
            counts = np.bincount(labels, minlength=len(means))
            is_large = counts > _MAX_SIZE_RATIO * self.cluster_size
            if not is_large.any():
                break
            new_means = []
            for cluster in np.flatnonzero(is_large):
                rows = rng.permutation(np.flatnonzero(labels == cluster))[:_KMEANS_ROWS]
                new_means.append(sampled_kmeans(Z[rows], 2, np.arange(len(rows)))[0].means)
            means = np.vstack([means[~is_large & (counts > 0)], *new_means])
        labels = Centroids(means).assign(Z)
        occupied, labels = np.unique(labels, return_inverse=True)
        return Centroids(means[occupied]), labels.reshape(-1)


def _solve(
    kernel: Kernel, Z: np.ndarray, Y: np.ndarray, metric: LearnedMetric, local: bool, seed: int
) -> tuple[Machine, int]:
    """The ridge model of rows Z : (n, r), and the number of kernel values computed for it."""
    root = None
    if local:
        diagonal = metric.structure_ != "full"
        local_metric = local_root(kernel, metric.kernel_, Z, Y, metric.ridge_, diagonal, seed)
        if local_metric is not None:
            root, kernel = local_metric
            Z = apply_root(Z, root).astype(np.float32)
    matrix = KernelMatrix(kernel, Z, np.float32)
    factor = shifted_cholesky(matrix, metric.ridge_)
    coef = scipy.linalg.cho_solve(factor, Y.astype(np.float32), check_finite=False)
    expansion = KernelExpansion(matrix, np.arange(len(Z)), coef, prediction_dtype(matrix, coef))
    return (expansion if root is None else Mapped(root, expansion)), matrix.n_entries


@dataclass(eq=False, repr=False, kw_only=True)
class RecursiveFeatureRegressor(RidgeRegressorMixin, RecursiveFeatureMachine):
    """Kernel ridge regression in a learned metric; parameters as in `RecursiveFeatureMachine`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import RecursiveFeatureRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RecursiveFeatureRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4
    True
    """

    fit_intercept: bool = True


@dataclass(eq=False, repr=False)
class RecursiveFeatureClassifier(RidgeClassifierMixin, RecursiveFeatureMachine):
    """Kernel ridge classification in a learned metric; parameters as in
    `RecursiveFeatureMachine`."""
