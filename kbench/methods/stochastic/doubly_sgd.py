"""Kernel machines by doubly stochastic functional gradients: random rows, random features.

Dai, Xie, He, Liang, Raj, Balcan and Song, "Scalable Kernel Methods via Doubly Stochastic Gradients"
(NIPS 2014), Algorithm 1 (training) and Algorithm 2 (prediction); the descent is
`kbench.solvers.stochastic.doubly_stochastic`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from kbench import class_labels
from kbench.chunked import ChunkedRows
from kbench.methods.base.chunk_scores import ChunkScores, rows_in_chunks
from kbench.methods.base.probability import Probabilities
from kbench.methods.base.survey import ClassTargets, RealTargets, Survey
from kbench.methods.base.weights import class_weights, require_weighted_classes
from kbench.methods.stochastic.doubly_sgd_base import SAMPLE_ROWS, DoublySGD, RowWeights
from kbench.trace import Deadline, Trace
from kbench.validated import choice, fit_context, usual


@dataclass(kw_only=True, eq=False, repr=False)
class DoublySGDClassifier(ChunkScores, Probabilities, ClassifierMixin, DoublySGD):
    """Kernel support vector machine or kernel logistic regression on streams of any length.

    Each step draws a batch of rows and a block of random features. A block is drawn again from its
    seed whenever it is needed, so memory holds the coefficients of all blocks and one batch.

    Parameters
    ----------
    loss : {"log", "hinge", "smoothed_hinge"}, default="log"
        "log" is multinomial for more than two classes; the other losses are one-vs-rest.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
    probability : bool, default=False
        As in `KernelSVC`. Without it, only loss="log" has probabilities: those of its model.
    block_size : int, default=2048
        Random features of a step: the cosine and sine of half as many frequencies. Set by hand.
    batch_size : int, default=4096
        Largest number of rows of a step. The sizes of batches of rows in memory differ by at most
        one row; batches of `ChunkedRows` are full except the last one. Set by hand.
    n_epochs : int, default=1
        Passes over the rows of `fit`.
    max_blocks : int or None, default=None
        Largest number of blocks of features; further steps each update a random block. None is
        a new block in each step.
    kernel : str, default="rbf"
        "matern", "poly", "convolution" or a kernel of `kbench.kernels.KERNELS` with a spectrum.
        "convolution": features of images by two layers of random filters; with max_blocks=1, a
        convolutional net of which only the last layer is trained.
    gamma : float or {"median", "scale", "auto"}, default="median"
        "median" is 1 / (2 m^2) with the median distance m of 1,000 rows, and the square root of
        this if gamma multiplies the distance, as in "laplacian". The length scale of the Matern
        kernel is 1 / sqrt(2 gamma).
    smoothness : float, default=1.5
        nu of the Matern kernel, a multiple of 1/2.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial kernel.
    nu : float, default=0.0
        Regularisation nu/2 ||f||^2; the paper's symbol, neither the order of the Matern kernel
        nor the parameter of nu-support vector machines.
    step_size : float, default=1.0
        First step size gamma_0, set by hand. Passes from the sixth on may have others, see `fit`.
    step_decay : float, default=1e-4
        gamma_t = step_size / (1 + step_decay t): 1 gives the theta/t of the theory with theta =
        step_size, 0 a constant step. Set by hand.
    preconditioned : bool, default=True
        Multiply gradients by the inverse Gram matrix of the features of the block on the batch.
    ridge : float, default=1e-4
        Added to the diagonal of the Gram matrix, which is in float64 if ridge + nu < 1e-5. Set by
        hand.
    average : float, default=0.0
        Fraction of the last steps whose functions are averaged (suffix averaging); 0 returns the
        last function.
    unit_norm : bool, default=False
        Scale rows to length 1.
    pca_components : int or None, default=None
        Project rows onto this number of principal axes (of second moments, not centred).
    virtual : {"shifts", "elastic", "coulomb"} or None, default=None
        Train on virtual examples: shifted or deformed images, or molecules with their atoms in
        another order. They are made before `unit_norm` and `pca_components`.
    virtual_size : float, default=1.0
        Largest shift or standard deviation of the deformation, in pixels; for "coulomb" the
        standard deviation of the noise on the norms of the rows of the Coulomb matrix.
    n_copies : int, default=1
        Copies of each row in a pass; the first is the row itself.
    predict_votes : int, default=1
        Copies of a row whose decision values are averaged in prediction; nothing is voted.
    max_time : float or None, default=None
        Seconds after which `fit` ends; with a checkpoint, the next `fit` continues from there.
    n_shards : int, default=1
        Number of shards of a batch whose gradients and Gram matrices are computed separately and
        added in a fixed order.
    n_jobs : int or None, default=None
        Shards computed at the same time, by joblib or the workers of a Dask cluster; the result
        does not depend on n_jobs. A worker gets the rows of its shard and the coefficients, draws
        the features from their seed, and returns sums: 8 MiB for the Gram matrix of 2,048
        features. Large batches hide the time to send them (`scripts/bench_chunks.py steps`).
    cache_mb : float, default=64.0
        MiB of random frequencies that are kept; others are drawn again for each use. Set by hand.
    checkpoint : str or None, default=None
        File for the state of a `fit`. If the file exists, `fit` continues from its state and ends
        with the same bits as an uninterrupted fit; a completed fit removes the file.
    checkpoint_s : float, default=60.0
        Least number of seconds between two writes of that file. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    coef_ : (blocks, block_size, q) float32
        Coefficients of the features of each block for the q outputs.
    features_ : kbench.approximation.seeded.seeded_features.SeededFeatures
        Draws the blocks.
    gamma_ : float
    n_iter_, n_seen_ : int
        Steps, and rows of all batches.
    n_parameters_, model_bytes_ : int
        Numbers and bytes that prediction keeps, which include no frequencies.
    timings_ : dict of str to float
        Seconds of "prepare" and "step", and of "survey" for rows in chunks.
    n_features_in_ : int

    Notes
    -----
    Step t with b rows and r features takes O(t b r d) time to evaluate the function on the batch
    (less in later passes, see `fit`), O(b r^2 + r^3) with the preconditioner, and O(r (d + q) +
    r^2) memory besides t r q coefficients. Prediction takes O(t r d) a row. If all features of the
    rows are below 1e-10 in magnitude, rows are multiplied by a power of two, so that float32
    squares do not underflow.

    References
    ----------
    B. Dai, B. Xie, N. He, Y. Liang, A. Raj, M.-F. Balcan, L. Song, "Scalable Kernel Methods via
    Doubly Stochastic Gradients", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import DoublySGDClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DoublySGDClassifier(block_size=512, batch_size=500, n_epochs=5, random_state=0)
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.93
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **DoublySGD._parameter_constraints,
        "loss": [choice("log", "hinge", "smoothed_hinge")],
        **usual("class_weight", "probability"),
    }

    loss: str = "log"
    class_weight: dict | str | None = None
    probability: bool = False

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        self._validate_params()
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        if (chunks := rows_in_chunks(X, y, sample_weight)) is not None:
            if self._wants_probabilities:
                raise ValueError("probability=True needs all rows in memory, not in chunks")
            return super().fit(chunks, trace=trace)
        super().fit(X, y, sample_weight, trace=trace)
        X, _ = self._checked(X, y, reset=False)
        self._calibrate(X, y, sample_weight, trace, deadline, checkpoint=None)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Descend on one chunk of a stream, once over its rows, in order.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        classes : (n_classes,), optional
            All classes of the stream; needed if the first chunk does not contain all of them. The
            first chunk also determines the bandwidth (unless it is a number) and the centre of the
            rows.
        sample_weight : (n,), optional
            Weights of the rows in the loss.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A value is not finite (the message names chunk and row), a class or the number of
            features is new to the stream, or class_weight="balanced", which needs all rows. The
            model is not changed.
        """
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows, which a stream does not have; pass a dict "
                "of class weights, or sample_weight"
            )
        return self._partial_fit(X, y, classes, sample_weight)

    def _with_class_weights(self, y: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return weight
        class_factors = class_weights(self.class_weight, self.classes_, y)
        row_weights = class_factors[class_labels.index_of(self.classes_, y)]
        return row_weights if weight is None else row_weights * weight

    def _learn_targets(self, y: np.ndarray, weight: np.ndarray | None) -> None:
        self.classes_, index = class_labels.encode(y)
        n_classes = len(self.classes_)
        class_labels.require_two(n_classes)
        if weight is not None:
            require_weighted_classes(self.classes_, index, weight)
        self.n_outputs_ = 1 if n_classes == 2 else n_classes

    @property
    def accepts_chunks(self) -> bool:
        """Whether `fit` takes `ChunkedRows` with these parameters."""
        return not self._wants_probabilities

    def _learn_chunks(self, rows: ChunkedRows, seed: int) -> tuple[Survey, RowWeights | None]:
        targets = ClassTargets()
        survey = Survey(rows, targets, SAMPLE_ROWS, seed)
        self.classes_, self.n_outputs_ = targets.classes, targets.n_outputs
        if self.class_weight is None:
            return survey, None
        class_factors = targets.weights(self.class_weight)
        class_factors /= np.average(class_factors, weights=targets.counts)
        return survey, lambda y: class_factors[class_labels.index_of(self.classes_, y)]

    def _targets(self, y: np.ndarray) -> np.ndarray:
        index, n_classes = class_labels.index_of(self.classes_, y), len(self.classes_)
        if self._loss_name == "multinomial":
            return class_labels.indicators(index, n_classes).astype(np.float64)
        return class_labels.signs(index, n_classes)

    @property
    def _loss_name(self) -> str:
        return "multinomial" if self.loss == "log" and self.n_outputs_ > 1 else self.loss

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of rows X : (u, d); (u,) for two classes, else (u, n_classes).

        For two classes, positive values stand for `classes_[1]`. With loss="log" the values are
        log-odds, or, for more classes, logarithms of probabilities up to a constant.
        """
        values = self._values(X)
        return values[:, 0] if self.n_outputs_ == 1 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        return class_labels.decode(self.classes_, values)

    def _has_probabilities(self) -> bool:
        return self.loss == "log" or super()._has_probabilities()

    def _probabilities(self, X: Any) -> np.ndarray:
        if self._wants_probabilities:
            return super()._probabilities(X)
        values = self._values(X)
        if self.n_outputs_ > 1:
            return softmax(values, axis=1)
        return np.hstack([expit(-values), expit(values)])


class DoublySGDRegressor(ChunkScores, RegressorMixin, DoublySGD):
    """Kernel ridge regression of one or several targets on streams of any length.

    The function is added to the mean of the targets, or of the first chunk's targets in a stream.

    Parameters
    ----------
    block_size, batch_size, n_epochs, max_blocks, kernel, gamma, smoothness, degree, coef0, nu, \
step_size, step_decay, preconditioned, ridge, average, unit_norm, pca_components, virtual, \
virtual_size, n_copies, predict_votes, max_time, n_shards, n_jobs, cache_mb, checkpoint, \
checkpoint_s, random_state
        As in `DoublySGDClassifier`, which also has `loss`, `class_weight` and `probability`; the
        loss is the squared one here.

    Attributes
    ----------
    intercept_ : (q,) float64
        Mean of the targets.
    coef_, features_, gamma_, n_iter_, n_seen_, n_parameters_, model_bytes_, timings_, \
n_features_in_
        As in `DoublySGDClassifier`.

    References
    ----------
    B. Dai, B. Xie, N. He, Y. Liang, A. Raj, M.-F. Balcan, L. Song, "Scalable Kernel Methods via
    Doubly Stochastic Gradients", NIPS 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import DoublySGDRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DoublySGDRegressor(block_size=200, n_epochs=3, ridge=0.1, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.4
    True
    """

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Descend on one chunk of a stream, X : (n, d) and y : (n,) or (n, q).

        As `DoublySGDClassifier.partial_fit`.
        """
        return self._partial_fit(X, y, None, sample_weight)

    def _learn_chunks(self, rows: ChunkedRows, seed: int) -> tuple[Survey, RowWeights | None]:
        targets = RealTargets()
        survey = Survey(rows, targets, SAMPLE_ROWS, seed)
        self._single, self.n_outputs_ = targets.is_single, targets.n_outputs
        self.intercept_ = targets.mean
        return survey, None

    def _learn_targets(self, y: np.ndarray, weight: np.ndarray | None) -> None:
        self._single = y.ndim == 1
        targets = y.reshape(len(y), -1).astype(np.float64)
        self.intercept_ = np.average(targets, axis=0, weights=weight)
        self.n_outputs_ = targets.shape[1]

    def _targets(self, y: np.ndarray) -> np.ndarray:
        targets = y.reshape(len(y), -1) - self.intercept_
        if targets.shape[1] != self.n_outputs_ or (y.ndim == 1) != self._single:
            raise ValueError(f"y has {targets.shape[1]} targets, should have {self.n_outputs_}")
        return targets

    @property
    def _loss_name(self) -> str:
        return "squared"

    def predict(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u,) or (u, q)."""
        values = self._values(X) + self.intercept_
        return values[:, 0] if self._single else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
