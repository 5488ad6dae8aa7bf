"""A convolutional net whose filters and last layer are trained together (extra `torch`).

The net starts with the random filters of `kbench.approximation.seeded.convolution_blocks` and
multinomial logistic regression on their features, and is trained by gradient descent with momentum
through all layers: the "jointly-trained" net of the comparison by Dai et al. (NIPS 2014, section
7). PyTorch computes the gradients; the fitted net consists of arrays and predicts without PyTorch.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.approximation.seeded.convolution_blocks import (
    apply_filters,
    filter_multiplications,
    image_shape,
    random_filters,
)
from kbench.errors import required
from kbench.intrinsics.products import matmul
from kbench.methods.stochastic.mean_loss import PASS_CONSTRAINTS, random_batches
from kbench.methods.stochastic.virtual_examples import VirtualExamples
from kbench.trace import Deadline, Trace
from kbench.validated import (
    NOT_NEGATIVE,
    POSITIVE,
    TakesSparseRows,
    choice,
    fit_context,
    integer,
    real,
    validate_data,
)

# Yields the mean loss of each batch before its step, and its number of rows.
Losses = Iterator[tuple[float, int]]

# Rows of a block of prediction: more take more memory for their features, fewer cost more calls.
# Set by hand.
_PREDICTED_ROWS = 2048


@dataclass(eq=False, repr=False, kw_only=True)
class JointConvolutionClassifier(TakesSparseRows, ClassifierMixin, BaseEstimator):
    """Convolutional net on square images with 1 or 3 channels, trained through all layers.

    Two layers of 5 x 5 filters, 16 in the first, each followed by the maximum over 2 x 2 pixels
    and by max(0, .). The logarithms of the class probabilities are linear in the output, up to a
    constant.

    Parameters
    ----------
    n_filters : int, default=32
        Filters of the second layer. Every default of the net and its training is set by hand.
    batch_size : int, default=128
        Largest number of rows of a step.
    n_epochs : int, default=10
        Passes over all copies of the rows.
    step_size : float, default=0.1
        First step size; it decreases linearly to zero.
    momentum : float, default=0.9
        Momentum of Nesterov's method.
    weight_decay : float, default=5e-4
        Factor of half the sum of squares of all weights, added to the mean loss.
    virtual : {"shifts", "elastic"} or None, default=None
        Train on virtual examples: shifted or deformed images.
    virtual_size : float, default=1.0
        Largest shift or standard deviation of the deformation, in pixels.
    n_copies : int, default=1
        Copies of each row in a pass; the first is the row itself.
    max_time : float or None, default=None
        Seconds after which the fit ends.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    scale_ : float
        Factor of the pixels: one over the root mean square of the training pixels.
    filters_ : pair of (25 channels, 16) and (400, n_filters) float32
    coef_ : ((side // 4)^2 n_filters, n_classes) float32
    intercept_ : (n_classes,) float32
    n_iter_ : int
        Number of batches.
    n_parameters_, model_bytes_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "step".
    n_features_in_ : int

    Raises
    ------
    UnavailableError
        `fit` raises it if PyTorch is not installed.

    Notes
    -----
    A pass costs about six times the multiplications of predicting its rows; memory holds the
    activations of one batch.

    References
    ----------
    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-Based Learning Applied to Document
    Recognition", Proceedings of the IEEE 86, 1998.
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_filters": [integer(1)],
        **PASS_CONSTRAINTS,
        "step_size": [POSITIVE],
        "momentum": [real(0, 1, closed="neither")],
        "weight_decay": [NOT_NEGATIVE],
        "virtual": [choice("shifts", "elastic"), None],
        "virtual_size": [POSITIVE],
        "n_copies": [integer(1)],
        "random_state": ["random_state"],
    }

    n_filters: int = 32
    batch_size: int = 128
    n_epochs: int = 10
    step_size: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    virtual: str | None = None
    virtual_size: float = 1.0
    n_copies: int = 1
    max_time: float | None = None
    random_state: Any = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Descend on batches of the rows and their copies.

        Parameters
        ----------
        X : (n, d) array or CSR
            Images, each channel a plane of pixels.
        y : (n,) labels
        trace : Trace, optional
            Receives the mean loss of the batch, the number of rows seen and the model after
            each step, and the phases.

        Returns
        -------
        self
        """
        trace = Trace() if trace is None else trace
        torch = functools.partial(required, "torch", "conv_joint needs PyTorch", "torch")
        return self._fit_by(lambda *arguments: descend(torch(), *arguments), X, y, trace)

    def _fit_by(self, descend: Callable[..., Losses], X: Any, y: Any, trace: Trace) -> Self:
        """Fit by `descend`, which takes the arguments of the module's `descend` after `torch`."""
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            rng = check_random_state(self.random_state)
            X, class_index = self._start_net(X, y, int(rng.randint(2**31 - 1)))
            n_rows = X.shape[0] * self.n_copies
            n_steps = self.n_epochs * -(-n_rows // self.batch_size)
            batches = random_batches(n_rows, self.batch_size, self.n_epochs, rng)
            losses = descend(
                (*self.filters_, self.coef_, self.intercept_),
                self._batches(X, class_index, batches),
                [self.step_size * (1.0 - t / n_steps) for t in range(n_steps)],
                self.momentum,
                self.weight_decay,
            )
        self.n_iter_ = n_seen = 0
        with trace.phase("step"):
            for loss, batch_rows in losses:
                if not np.isfinite(loss):
                    raise ValueError(
                        f"the net grows beyond all bounds by step {self.n_iter_}: "
                        f"step_size={self.step_size:g} is too large"
                    )
                self.n_iter_ += 1
                n_seen += batch_rows
                trace(loss=loss, samples=n_seen, predict=self.predict)
                if deadline.passed:
                    break
        self.timings_ = dict(trace.timings)
        return self

    def _start_net(self, X: Any, y: Any, seed: int) -> tuple[Any, np.ndarray]:
        """Check the rows, and start the net with random filters and a last layer of zeros."""
        X, y = validate_data(self, X, y, dtype=[np.float32, np.float64], reset=True)
        self.classes_, class_index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        if self.virtual is None and self.n_copies > 1:
            raise ValueError(
                f"n_copies is {self.n_copies}, should be 1 if virtual is None, because all copies "
                "would be the same"
            )
        side, channels = image_shape(X.shape[1])
        if side < 4:
            raise ValueError(
                f"X has images of {side} x {side} pixels, should have at least 4 x 4, which "
                "the two layers reduce to one pixel"
            )
        d = X.shape[1]
        self.virtual_ = (
            None
            if self.virtual is None
            else VirtualExamples(self.virtual, self.virtual_size, d, seed)
        )
        values = X.data if sp.issparse(X) else X
        mean_square = np.vdot(values, values) / (X.shape[0] * d)
        self.scale_ = float(1.0 / np.sqrt(mean_square)) if mean_square > 0 else 1.0
        self.filters_ = random_filters(channels, self.n_filters, seed)
        n_classes = len(self.classes_)
        self.coef_ = np.zeros(((side // 4) ** 2 * self.n_filters, n_classes), np.float32)
        self.intercept_ = np.zeros(n_classes, np.float32)
        arrays = (*self.filters_, self.coef_, self.intercept_)
        self.n_parameters_ = sum(array.size for array in arrays)
        self.model_bytes_ = 4 * self.n_parameters_
        filters = filter_multiplications(side, channels, self.n_filters)
        self.prediction_flops_ = (filters + self.coef_.size) / d
        return X, class_index

    def _batches(
        self, X: Any, class_index: np.ndarray, batches: Iterable[np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Images (b, channels, side, side) and numbers of their classes (b,)."""
        side, channels = image_shape(X.shape[1])
        for batch in batches:
            copies, rows = np.divmod(batch, X.shape[0])
            images = self._scaled_images(X[rows])
            if self.virtual_ is not None:
                images = self.virtual_(images, rows, copies)
            yield images.reshape(-1, channels, side, side), class_index[rows]

    def _scaled_images(self, X: Any) -> np.ndarray:
        X = X.toarray() if sp.issparse(X) else X
        return np.ascontiguousarray(X, np.float32) * np.float32(self.scale_)

    def decision_function(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities at rows X : (u, d), up to a constant; (u, n_classes).

        For two classes it is the difference of their values, (u,), positive for `classes_[1]`.
        """
        values = self._values(X)
        return values[:, 1] - values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self._values(X)
        return class_labels.decode(self.classes_, values)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes at rows X : (u, d); (u, n_classes)."""
        return softmax(self._values(X), axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; (u, n_classes)."""
        return log_softmax(self._values(X), axis=1)

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        values = np.empty((X.shape[0], len(self.classes_)))
        for start in range(0, len(values), _PREDICTED_ROWS):
            batch = slice(start, start + _PREDICTED_ROWS)
            features = np.empty((len(values[batch]), len(self.coef_)), np.float32)
            apply_filters(self._scaled_images(X[batch]), *self.filters_, features)
            values[batch] = matmul(features, self.coef_) + self.intercept_
        return values


def descend(
    torch: Any,
    weights: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    step_sizes: Iterable[float],
    momentum: float,
    weight_decay: float,
) -> Losses:
    """Steps of Nesterov's momentum on the mean log-loss; changes the weights in place.

    torch : module
    weights : (25 channels, 16), (400, k), ((side // 4)^2 k, m) and (m,) float32, C-contiguous
        Filters of both layers, last layer, intercepts.
    batches : pairs of images (b, channels, side, side) float32 and their class numbers (b,)
    step_sizes : one for each batch

    Yields the mean loss of each batch before its step, and its number of rows.
    """
    functional = torch.nn.functional
    # The tensors and the arrays share their memory.
    first_filters, second_filters, coef, intercept = tensors = [
        torch.from_numpy(array).requires_grad_() for array in weights
    ]

    def layer(images: Any, filters: Any) -> Any:
        kernel = filters.T.reshape(-1, images.shape[1], 5, 5)
        maxima = functional.max_pool2d(functional.conv2d(images, kernel, padding=2), 2)
        return functional.relu(maxima)

    optimizer = torch.optim.SGD(
        tensors, lr=1.0, momentum=momentum, weight_decay=weight_decay, nesterov=True
    )
    scale = float(1.0 / np.sqrt(second_filters.shape[1]))
    for (images, classes), step_size in zip(batches, step_sizes, strict=True):
        optimizer.param_groups[0]["lr"] = step_size
        feature_maps = layer(layer(torch.from_numpy(images), first_filters), second_filters) * scale
        scores = matmul(feature_maps.permute(0, 2, 3, 1).flatten(1), coef) + intercept
        loss = functional.cross_entropy(scores, torch.from_numpy(classes))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item(), len(classes)
