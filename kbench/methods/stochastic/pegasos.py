"""Pegasos on random Fourier or Nystrom features (r-Pegasos, n-Pegasos).

Shalev-Shwartz, Singer, Srebro and Cotter, "Pegasos: Primal Estimated sub-GrAdient SOlver for SVM"
(Mathematical Programming 127, 2011), Figure 2, batches of b rows, t = 1, 2, ...:

    w <- (1 - 1/t) w + 1/(nu t b) sum_{i: y_i <w, z_i> < 1} y_i z_i
    w <- min(1, 1 / (sqrt(nu) ||w||)) w        (projection, optional)
"""

from dataclasses import KW_ONLY, dataclass
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from kbench import class_labels
from kbench.chunked import ChunkedRows, batches
from kbench.intrinsics.products import matmul
from kbench.methods.approximate.feature_svc import FeatureSVC
from kbench.methods.base.chunk_scores import rows_in_chunks
from kbench.methods.base.one_vs_rest import LabelledChunk
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.stochastic.mean_loss import (
    PASS_CONSTRAINTS,
    MeanLoss,
    pass_count,
    random_batches,
)
from kbench.methods.stochastic.sdca import SDCAClassifier
from kbench.solvers.stochastic.losses import LOSSES
from kbench.trace import Deadline, Trace
from kbench.validated import fit_context, integer

# Least number of rows on which the features of rows in chunks are chosen: their variance gives
# gamma="scale", and landmarks are drawn from them. More rows take more memory. Set by hand.
_SAMPLE_ROWS = 10_000
# Passes if `n_epochs` is not set; few rows get more (`pass_count`). Set by hand.
_DEFAULT_EPOCHS = 5


@dataclass(eq=False, repr=False)
class PegasosClassifier(MeanLoss, FeatureSVC):
    """Linear model on features of a kernel by projected subgradient steps on batches.

    Minimises nu/2 ||w||^2 + mean hinge loss, without intercept; more than two classes are
    one-vs-rest.

    Parameters
    ----------
    n_components : int, default=256
        Number of features, which is the number of landmarks for "nystrom". Set by hand.
    features : {"fourier", "nystrom"}, default="fourier"
    nu : float, default=1e-4
    batch_size : int, default=64
        Largest number of rows of a step. Like `nu`, set by hand.
    n_epochs : int or None, default=None
        Passes over the rows; None means five, or as many passes as have 2,000 batches in total.
        `partial_fit` goes over its rows once.
    max_time : float or None, default=None
        Seconds after which the fit ends.
    project : bool, default=True
        Whether to project onto the ball of radius 1 / sqrt(nu), which contains the optimum.
    kernel : str, default="rbf"
        A kernel of `kbench.kernels.KERNELS` that has a spectrum.
    gamma : float or {"scale", "auto"}, default="scale"
    class_weight, probability
        As in `KernelSVC`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    feature_map_ : kbench.approximation.FeatureMap
    coef_ : (m, r) float64
    n_iter_ : int
        Number of batches.
    n_parameters_, model_bytes_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (choice of the features) and "step".
    n_features_in_ : int

    Notes
    -----
    O(n r (d + m)) time for r features and a pass; memory holds the features of one batch.
    `partial_fit` takes a step on each batch of a chunk; the first chunk determines the width and
    the landmarks of the features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import PegasosClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PegasosClassifier(512, batch_size=50, n_epochs=3, gamma=1e-3, random_state=0)
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **SDCAClassifier._parameter_constraints,
        **PASS_CONSTRAINTS,
        "n_epochs": [integer(1), None],
        "project": ["boolean"],
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        *SDCAClassifier.read_by_every_chunk,
        "batch_size",
        "n_epochs",
        "nu",
        "project",
    }

    n_components: int = 256
    _: KW_ONLY
    features: str = "fourier"
    batch_size: int = 64
    n_epochs: int | None = None
    project: bool = True
    kernel: str = "rbf"
    gamma: float | str = "scale"

    _feature_map = SDCAClassifier._feature_map

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Choose the features, and take a step on each batch of each pass.

        Parameters
        ----------
        X : (n, d) array or CSR
            X may also be `ChunkedRows`, which contain labels: one pass draws a sample that
            determines the features, and every epoch is a pass over the batches in the order of the
            rows, which should therefore not be sorted by label.
        y : (n,) labels
        sample_weight : (n,), optional
        trace : Trace, optional
            Receives the number of rows seen and the model after each batch, and the phases.

        Returns
        -------
        self
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        rng = check_random_state(self.random_state)
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            return self._fit_chunks(chunks, rng, deadline, trace)
        with trace.phase("prepare"):
            targets = self._targets(X, y, sample_weight)
        with trace.phase("cluster"):
            self.feature_map_ = self._feature_map(rng.randint(2**31)).fit(targets.X)
        n, m = targets.Y.shape
        weight = targets.C * (self.nu * n)
        coef = np.zeros((self.feature_map_.n_features_out_, m))
        t = n_seen = 0

        def predict(rows: Any) -> np.ndarray:
            self._set_machine(coef)
            return self.predict(rows)

        with trace.phase("step"):
            for batch in random_batches(n, self.batch_size, self._pass_count(n), rng):
                t += 1
                self._step(t, targets.X[batch], targets.Y[batch], weight[batch], coef)
                n_seen += len(batch)
                trace(samples=n_seen, predict=predict)
                if deadline.passed:
                    break
        self._set_machine(coef)
        self.n_iter_, self.n_seen_ = t, n
        self.timings_ = dict(trace.timings)
        self._calibrate(targets.X, y, sample_weight, trace, deadline)
        return self

    def _fit_chunks(
        self, rows: ChunkedRows, rng: np.random.RandomState, deadline: Deadline, trace: Trace
    ) -> Self:
        if self._wants_probabilities:
            raise ValueError("probability=True needs all rows in memory, not in chunks")
        feature_map = self._feature_map(rng.randint(2**31))
        with trace.phase("survey"):
            targets = ClassTargets()
            survey = Survey(rows, targets, max(_SAMPLE_ROWS, self.n_components), rng.randint(2**31))
            weights = targets.weights(self.class_weight)
        self.classes_, self.n_features_in_ = targets.classes, rows.n_features
        with trace.phase("cluster"):
            self.feature_map_ = feature_map.fit(survey.sample)
        coef = np.zeros((self.feature_map_.n_features_out_, targets.n_outputs))
        t = 0
        with trace.phase("step"):
            n_passes = self._pass_count(survey.n)
            for block in chain.from_iterable(
                batches(rows, self.batch_size) for _ in range(n_passes)
            ):
                t += 1
                assert block.y is not None  # the survey has refused rows without labels
                index = class_labels.index_of(self.classes_, block.y)
                self._step(t, block.X, self._signs(index), weights[index], coef)
                trace(samples=min(t * self.batch_size, n_passes * survey.n))
                if deadline.passed:
                    break
        self._set_machine(coef)
        self.n_iter_, self.n_seen_ = t, survey.n
        self.timings_ = dict(trace.timings)
        return self

    def _pass_count(self, n: int) -> int:
        """The number of passes over n rows."""
        return pass_count(n, self.batch_size, self.n_epochs, _DEFAULT_EPOCHS)

    def _step(
        self,
        t: int,
        X: Any,  # (b, d)
        Y: np.ndarray,  # (b, m)
        weight: np.ndarray,  # (b,)
        coef: np.ndarray,  # (r, m), changed in place
    ) -> None:
        """Take step t = 1, 2, ... on a batch."""
        Z = np.empty((len(Y), len(coef)), np.float32)
        self.feature_map_.fill(X, Z)
        gradient = LOSSES["hinge"].gradient(matmul(Z, coef), Y)
        coef *= 1.0 - 1.0 / t
        coef -= matmul(Z.T, weight[:, None] * gradient) / (self.nu * t * len(Y))
        if self.project:
            norms = np.sqrt(self.nu) * np.linalg.norm(coef, axis=0)
            coef /= np.maximum(norms, 1.0)

    def _learn(self, chunk: LabelledChunk) -> None:
        coef, t = self._stream_coef(chunk), getattr(self, "n_iter_", 0)
        for batch in np.array_split(np.arange(len(chunk.Y)), -(-len(chunk.Y) // self.batch_size)):
            t += 1
            self._step(t, chunk.X[batch], chunk.Y[batch], chunk.weight[batch], coef)
        self._set_machine(coef)
        self.n_seen_ = getattr(self, "n_seen_", 0) + len(chunk.Y)
        self.n_iter_ = t
