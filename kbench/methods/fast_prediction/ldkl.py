"""Local deep kernel learning: a tree of hyperplanes with a gated linear model in each node."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.methods.base.limits import limit_text
from kbench.methods.base.one_vs_rest import BinaryProblems, WeightedOneVsRest
from kbench.methods.base.weights import relative_weights
from kbench.prediction.hyperplane_tree import HyperplaneTrees
from kbench.prediction.landmarks import float32_offset
from kbench.solvers.stochastic.local_tree import train_tree, tree_sizes
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, choice, integer, usual

# Guard: the vectors of the tree are multiplied by the scale of the rows and stored in float32,
# whose range is 1e-38 to 3e38; this bound leaves a range of 1e-8 to 1e8 for the unscaled vectors.
_MIN_SCALE = 1e-30
# Largest number of passes over the rows. On 30 rows max_iter=15000 would make 2,500 passes, which
# take seconds and fit the noise; above 2,500 rows it makes fewer than 300. Set by hand.
_MAX_PASSES = 300


@dataclass(eq=False, repr=False)
class LDKLClassifier(WeightedOneVsRest):
    """Hinge-loss model on a trained tree of local linear models (LDKL).

    In a complete tree of depth T, with vectors w and p in each node and q in each inner node,

        f(x) = sum of tanh(sigma p'x) w'x  over the T + 1 nodes that x passes;

    x goes left if q'x > 0. All vectors are trained together: decisions are soft at first and become
    sharp during the training (`kbench.solvers.stochastic.local_tree`). Vectors have a constant
    term. More than two classes are one-vs-rest, with one tree for each class.

    Parameters
    ----------
    depth : int, default=4
        T
    lambda_w : float, default=0.03
    lambda_p : float, default=0.03
    lambda_q : float, default=0.03
        Penalties of w, p (the paper's theta') and q (theta), relative to the weighted mean loss.
    sigma : float, default=1.0
        Steepness of the gates tanh(sigma p'x).
    schedule : {"pegasos", "adam"}, default="adam"
        "pegasos" has the steps of the implementation by the authors' group, which shrink vectors by
        t / (t + 1) and divide steps by the penalties and sqrt(t); "adam" is Adam on the objective.
    rate : float, default=0.02
        First step size of "adam". This and all other numerical defaults are set by hand.
    max_iter : int, default=3000
        Number of batches, at most 300 passes over the rows.
    batch_size : int or None, default=None
        Rows of a batch; None is the square root of the number of rows.
    max_time : float or None, default=None
        As in `KernelSVC`.
    class_weight, probability
        As in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Determines initial vectors and batches. The problem is not convex, so results depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    trees_ : (1 or n_classes, 2^(T + 1) - 1, 3, d + 1)
        w, p and q of each node with the constant last, for rows without scaling; the children of
        node k are 2 k + 1 and 2 k + 2, and q of leaves is 0.
    n_iter_ : int
    n_parameters_, model_bytes_ : int
        Numbers that describe the model, and bytes that prediction keeps.
    prediction_flops_ : float
        Cost of predicting a row, in units of a linear model's prediction; tanh counts as ten
        multiplications.
    timings_ : dict of str to float
        Seconds of "prepare" and "train".
    n_features_in_ : int

    Notes
    -----
    Rows are centred and divided by the root of the mean variance of the features, which is folded
    into the vectors afterwards. Training takes O(max_iter batch_size 2^T d) time, a prediction 3 T
    + 2 inner products of d numbers in float32. `fit` refuses features of a scale at which the
    vectors leave the range of float32, and reports the objective of every hundredth batch to the
    trace.

    References
    ----------
    C. Jose, P. Goyal, P. Aggrwal, M. Varma, "Local Deep Kernel Learning for Efficient Non-linear
    SVM Prediction", ICML 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> from kbench.methods import LDKLClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X)
    >>> model = LDKLClassifier(2, max_iter=1000, random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "depth": [integer(0, 16)],  # guard: at most 2^17 - 1 nodes
        "lambda_w": [POSITIVE],
        "lambda_p": [POSITIVE],
        "lambda_q": [POSITIVE],
        "sigma": [POSITIVE],
        "schedule": [choice("pegasos", "adam")],
        "rate": [POSITIVE],
        "batch_size": [integer(1), None],
        **usual("max_iter", "max_time", "class_weight", "probability", "random_state"),
    }

    # `_targets` multiplies C by the weights of row and class, which weight the mean loss.
    C: ClassVar[float] = 1.0

    depth: int = 4
    _: KW_ONLY
    lambda_w: float = 0.03
    lambda_p: float = 0.03
    lambda_q: float = 0.03
    sigma: float = 1.0
    schedule: str = "adam"
    rate: float = 0.02
    max_iter: int = 3000
    batch_size: int | None = None

    def _train(self, targets: BinaryProblems, deadline: Deadline, trace: Trace) -> None:
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            mean, scale = _centre_and_scale(targets.X)
            if not _MIN_SCALE < scale < 1.0 / _MIN_SCALE:
                raise ValueError(
                    f"the features of X have a mean standard deviation of {1.0 / scale:.3g}, with "
                    "which the vectors of the tree leave the range of float32; scale the features"
                )
            rows = _ScaledRows(targets.X, mean, scale)
            n_nodes, n_vectors = tree_sizes(self.depth)
            penalties = np.repeat([self.lambda_w, self.lambda_p, self.lambda_q], n_nodes)[
                :n_vectors
            ]
        n = len(targets.C)
        batch_size = self.batch_size or max(1, int(np.sqrt(n)))
        max_iter = min(self.max_iter, _MAX_PASSES * -(-n // batch_size))
        weights = relative_weights(targets.C).astype(np.float32)
        with trace.phase("train"):
            results = [
                train_tree(
                    rows,
                    labels.astype(np.float32),
                    weights,
                    penalties,
                    self.depth,
                    self.sigma,
                    rng,
                    schedule=self.schedule,
                    max_iter=max_iter,
                    batch_size=batch_size,
                    rate=self.rate,
                    deadline=deadline,
                    trace=trace,
                )
                for labels in targets.Y.T
            ]
        with trace.phase("prepare"):
            vectors = [tree for tree, _ in results]
            trees = np.zeros((len(vectors), 3 * n_nodes, len(mean) + 1))
            trees[:, :n_vectors] = vectors
            trees[..., :-1] *= scale
            trees[..., -1] -= matmul(trees[..., :-1], mean)
            self.trees_ = trees.reshape(len(vectors), 3, n_nodes, -1).swapaxes(1, 2).copy()
            offset = float32_offset(targets.X)
            shifted_trees = self.trees_.copy()
            if offset is not None:
                shifted_trees[..., -1] += matmul(shifted_trees[..., :-1], offset)
            self._machine = HyperplaneTrees(shifted_trees, self.sigma, offset)
        self.n_iter_ = sum(n_iter for _, n_iter in results)
        self.n_parameters_ = len(vectors) * n_vectors * (len(mean) + 1)
        self.prediction_flops_ = self._machine.flops()
        if self.n_iter_ < max_iter * len(vectors):
            warn(
                f"stopped by {limit_text(self, 'max_time')} after {self.n_iter_} of "
                f"{max_iter * len(vectors)} steps; "
                "the model is no worse than a constant",
                ConvergenceWarning,
            )


class _ScaledRows:
    """Rows of X : (n, d), centred and scaled, with a last entry of 1; float32."""

    def __init__(self, X: Any, mean: np.ndarray, scale: float) -> None:
        self.X, self.mean, self.scale = X, mean, scale

    def __call__(self, indices: np.ndarray) -> np.ndarray:
        batch = self.X[indices]
        dense = batch.toarray() if sp.issparse(batch) else batch
        rows = np.ones((len(indices), dense.shape[1] + 1), np.float32)
        rows[:, :-1] = (dense - self.mean) * self.scale
        return rows


def _centre_and_scale(X: Any) -> tuple[np.ndarray, float]:
    """Mean of the rows : (d,), and 1 / the root of their mean variance (1 if that is 0)."""
    if sp.issparse(X):
        X = X.astype(np.float64)
        mean = np.asarray(X.mean(axis=0)).ravel()
        variance = float((np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2).mean())
    else:
        mean = X.mean(axis=0, dtype=np.float64)
        variance = float(X.var(axis=0, dtype=np.float64).mean())
    return mean, 1.0 / np.sqrt(variance) if variance > 0.0 else 1.0
