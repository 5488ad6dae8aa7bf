"""Kernel machines by doubly stochastic functional gradients: random rows, random features.

Dai, Xie, He, Liang, Raj, Balcan and Song, "Scalable Kernel Methods via Doubly Stochastic Gradients"
(NIPS 2014); the descent is `kbench.solvers.doubly_stochastic`.
"""

from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from kbench.methods._doubly_sgd import DoublySGD


class DoublySGDClassifier(ClassifierMixin, DoublySGD):
    """Kernel support vector machine or kernel logistic regression on streams of any length.

    Each step draws a batch of rows and a block of random features, which is drawn again from its
    seed whenever it is needed: memory is that of the blocks' coefficients and of one batch.

    Parameters
    ----------
    loss : {"log", "hinge", "smoothed_hinge"}, default="log"
        "log" is multinomial for more than two classes; the others are one-vs-rest.
    block_size : int, default=2048
        Random features drawn in each step: half as many frequencies, a cosine and a sine of each.
    batch_size : int, default=4096
        Rows of a step, at most. A pass has batches of equal sizes.
    n_epochs : int, default=1
        Passes over the rows of `fit`.
    max_blocks : int or None, default=None
        Blocks of features; when there are as many, each step takes a random one of them again.
    kernel : {"rbf", "laplacian", "matern", "poly", "convolution"}, default="rbf"
        "convolution": features of images by two layers of random filters; with max_blocks=1 a
        convolutional net whose last layer alone learns.
    gamma : float or {"median", "scale", "auto"}, default="median"
        "median": 1 / (2 m^2), m the median distance of 1,000 rows. Matern: the length scale is
        1 / sqrt(2 gamma).
    smoothness : float, default=1.5
        nu of the Matern kernel, a multiple of 1/2.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial kernel.
    nu : float, default=0.0
        Regularisation, nu/2 ||f||^2.
    step_size : float, default=1.0
        gamma_0.
    step_decay : float, default=1e-4
        gamma_t = step_size / (1 + step_decay t). 1 gives the theta/t of the theory with
        theta = step_size, 0 a constant step.
    preconditioned : bool, default=True
        Solve with the Gram matrix of the block's features on the batch.
    ridge : float, default=1e-4
        Added to that matrix. Below 1e-5 (with nu) it is computed in float64.
    average : float, default=0.0
        Fraction of the last steps whose functions are averaged (suffix averaging); 0 takes the last
        function.
    unit_norm : bool, default=False
        Scale rows to length 1.
    pca_components : int or None, default=None
        Project rows onto so many principal axes (of second moments, not centred).
    virtual : {"shifts", "elastic", "coulomb"} or None, default=None
        Learn from virtual examples: images that are shifted or deformed, molecules whose atoms are
        ordered anew. They are made before `unit_norm` and `pca_components`.
    virtual_size : float, default=1.0
        Largest shift or standard deviation of the deformation, in pixels; standard deviation of the
        noise on the norms of the Coulomb matrix' rows.
    n_copies : int, default=1
        Copies of each row; the first is the row itself. All of them make a pass.
    predict_votes : int, default=1
        Copies of a row whose values are averaged to predict it.
    max_time : float or None, default=None
        Seconds after which `fit` ends; with a checkpoint, another `fit` goes on from there.
    n_shards : int, default=1
        Parts of a batch whose gradients and Gram matrices are computed apart and added in order.
    n_jobs : int or None, default=None
        Parts computed at once, through joblib; the function does not depend on it.
    cache_mb : float, default=64.0
        MiB of drawn frequencies that are kept; others are drawn again when they are needed.
    checkpoint : str or None, default=None
        File for the state of a `fit`. Where it exists, `fit` continues from it, bit for bit as if
        it had never stopped; a completed fit removes it.
    checkpoint_s : float, default=60.0
        Least seconds between two writings of that file.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    coef_ : list of (block_size, q) float32
        Coefficients of each block's features.
    features_ : kbench.approximation.seeded_features.SeededFeatures
        Draws the blocks.
    gamma_ : float
    n_iter_, n_seen_ : int
        Steps; rows of all batches.
    n_parameters_, model_bytes_ : int
        Numbers and bytes that prediction keeps: no frequencies.
    timings_ : dict of str to float
        Seconds of "prepare", "step".
    n_features_in_ : int

    Notes
    -----
    Step t costs O(t b r d) time to evaluate the function so far on the batch (less where rows come
    again, see `fit`), O(b r^2 + r^3) with the preconditioner, and O(r (d + q) + r^2) memory beside
    t r q coefficients. Prediction costs O(t r d) a row.

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
        "loss": [StrOptions({"log", "hinge", "smoothed_hinge"})],
    }

    def __init__(
        self,
        *,
        loss: str = "log",
        block_size: int = 2048,
        batch_size: int = 4096,
        n_epochs: int = 1,
        max_blocks: int | None = None,
        kernel: str = "rbf",
        gamma: float | str = "median",
        smoothness: float = 1.5,
        degree: int = 3,
        coef0: float = 0.0,
        nu: float = 0.0,
        step_size: float = 1.0,
        step_decay: float = 1e-4,
        preconditioned: bool = True,
        ridge: float = 1e-4,
        average: float = 0.0,
        unit_norm: bool = False,
        pca_components: int | None = None,
        virtual: str | None = None,
        virtual_size: float = 1.0,
        n_copies: int = 1,
        predict_votes: int = 1,
        max_time: float | None = None,
        n_shards: int = 1,
        n_jobs: int | None = None,
        cache_mb: float = 64.0,
        checkpoint: str | None = None,
        checkpoint_s: float = 60.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            block_size=block_size,
            batch_size=batch_size,
            n_epochs=n_epochs,
            max_blocks=max_blocks,
            kernel=kernel,
            gamma=gamma,
            smoothness=smoothness,
            degree=degree,
            coef0=coef0,
            nu=nu,
            step_size=step_size,
            step_decay=step_decay,
            preconditioned=preconditioned,
            ridge=ridge,
            average=average,
            unit_norm=unit_norm,
            pca_components=pca_components,
            virtual=virtual,
            virtual_size=virtual_size,
            n_copies=n_copies,
            predict_votes=predict_votes,
            max_time=max_time,
            n_shards=n_shards,
            n_jobs=n_jobs,
            cache_mb=cache_mb,
            checkpoint=checkpoint,
            checkpoint_s=checkpoint_s,
            random_state=random_state,
        )
        self.loss = loss

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Descend on one chunk of a stream, each row once, in order.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) labels
        classes : (n_classes,), optional
            All that the stream will bring; needed where the first chunk lacks some. The first chunk
            also decides the bandwidth (where it is not a number) and the centre of the angles.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Names chunk and row of a value that is no number; a class or a number of features that
            the stream did not have. The model stays what it was.
        """
        return self._partial_fit(X, y, classes)

    def _learn_targets(self, y: np.ndarray) -> None:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has {len(self.classes_)} class, but 2 classes are needed")
        self.n_outputs_ = 1 if len(self.classes_) == 2 else len(self.classes_)

    def _targets(self, y: np.ndarray) -> np.ndarray:
        index = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[index] != y
        if np.any(unknown):
            raise ValueError(
                f"y has the class {y[unknown][0]}, which is not among the classes of the first "
                f"chunk: {', '.join(map(str, self.classes_))}"
            )
        member = np.equal.outer(index, [1] if self.n_outputs_ == 1 else range(len(self.classes_)))
        if self._loss_name == "multinomial":
            return member.astype(np.float64)
        return np.where(member, 1.0, -1.0)

    @property
    def _loss_name(self) -> str:
        return "multinomial" if self.loss == "log" and self.n_outputs_ > 1 else self.loss

    def decision_function(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u,) for two classes, positive for `classes_[1]`, else (u, q).

        With loss="log" they are log-odds, or logarithms of probabilities up to a constant.
        """
        values = self._values(X)
        return values[:, 0] if self.n_outputs_ == 1 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(np.intp)]
        return self.classes_[np.argmax(values, axis=1)]

    @available_if(lambda self: self.loss == "log")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes at rows X : (u, d), of loss="log"; (u, n_classes)."""
        values = self._values(X)
        if self.n_outputs_ > 1:
            return softmax(values, axis=1)
        return np.hstack([expit(-values), expit(values)])


class DoublySGDRegressor(RegressorMixin, DoublySGD):
    """Kernel ridge regression of one or several targets on streams of any length.

    The function is added to the mean of the targets (in a stream, of the first chunk's). As
    `DoublySGDClassifier` otherwise.

    Parameters
    ----------
    block_size : int, default=2048
        Random features drawn in each step: half as many frequencies, a cosine and a sine of each.
    batch_size : int, default=4096
        Rows of a step, at most. A pass has batches of equal sizes.
    n_epochs : int, default=1
        Passes over the rows of `fit`.
    max_blocks : int or None, default=None
        Blocks of features; when there are as many, each step takes a random one of them again.
    kernel : {"rbf", "laplacian", "matern", "poly", "convolution"}, default="rbf"
        "convolution": features of images by two layers of random filters; with max_blocks=1 a
        convolutional net whose last layer alone learns.
    gamma : float or {"median", "scale", "auto"}, default="median"
        "median": 1 / (2 m^2), m the median distance of 1,000 rows. Matern: the length scale is
        1 / sqrt(2 gamma).
    smoothness : float, default=1.5
        nu of the Matern kernel, a multiple of 1/2.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial kernel.
    nu : float, default=0.0
        Regularisation, nu/2 ||f||^2.
    step_size : float, default=1.0
        gamma_0.
    step_decay : float, default=1e-4
        gamma_t = step_size / (1 + step_decay t). 1 gives the theta/t of the theory with
        theta = step_size, 0 a constant step.
    preconditioned : bool, default=True
        Solve with the Gram matrix of the block's features on the batch.
    ridge : float, default=1e-4
        Added to that matrix. Below 1e-5 (with nu) it is computed in float64.
    average : float, default=0.0
        Fraction of the last steps whose functions are averaged (suffix averaging); 0 takes the last
        function.
    unit_norm : bool, default=False
        Scale rows to length 1.
    pca_components : int or None, default=None
        Project rows onto so many principal axes (of second moments, not centred).
    virtual : {"shifts", "elastic", "coulomb"} or None, default=None
        Learn from virtual examples: images that are shifted or deformed, molecules whose atoms are
        ordered anew. They are made before `unit_norm` and `pca_components`.
    virtual_size : float, default=1.0
        Largest shift or standard deviation of the deformation, in pixels; standard deviation of the
        noise on the norms of the Coulomb matrix' rows.
    n_copies : int, default=1
        Copies of each row; the first is the row itself. All of them make a pass.
    predict_votes : int, default=1
        Copies of a row whose values are averaged to predict it.
    max_time : float or None, default=None
        Seconds after which `fit` ends; with a checkpoint, another `fit` goes on from there.
    n_shards : int, default=1
        Parts of a batch whose gradients and Gram matrices are computed apart and added in order.
    n_jobs : int or None, default=None
        Parts computed at once, through joblib; the function does not depend on it.
    cache_mb : float, default=64.0
        MiB of drawn frequencies that are kept; others are drawn again when they are needed.
    checkpoint : str or None, default=None
        File for the state of a `fit`. Where it exists, `fit` continues from it, bit for bit as if
        it had never stopped; a completed fit removes it.
    checkpoint_s : float, default=60.0
        Least seconds between two writings of that file.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    intercept_ : (q,) float64
        Mean of the targets.
    coef_ : list of (block_size, q) float32
        Coefficients of each block's features.
    features_ : kbench.approximation.seeded_features.SeededFeatures
        Draws the blocks.
    gamma_ : float
    n_iter_, n_seen_ : int
        Steps; rows of all batches.
    n_parameters_, model_bytes_ : int
        Numbers and bytes that prediction keeps: no frequencies.
    timings_ : dict of str to float
        Seconds of "prepare", "step".
    n_features_in_ : int

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

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any) -> Self:
        """Descend on one chunk of a stream; X : (n, d), y : (n,) or (n, q). As the classifier's."""
        return self._partial_fit(X, y)

    def _learn_targets(self, y: np.ndarray) -> None:
        self._single = y.ndim == 1
        targets = y.reshape(len(y), -1).astype(np.float64)
        self.intercept_ = targets.mean(axis=0)
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
