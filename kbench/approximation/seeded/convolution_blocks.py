"""Features of images by random filters: a convolutional net that is never trained, in blocks.

    two layers of 5 x 5 filters with normal entries, 16 in the first layer; 2 x 2 max pooling and
    max(0, .) follow each layer

One block is the fixed neural net with which Dai et al. (NIPS 2014, section 7) compare their method.
Its kernel needs no closed form.
"""

from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.approximation.seeded import philox
from kbench.approximation.seeded.seeded_features import SeededFeatures
from kbench.intrinsics.products import matmul

# Side of a filter in pixels, and number of filters of the first layer; the net of Dai et al.
_FILTER_SIDE, _FIRST_FILTERS = 5, 16
# Images whose windows are copied for a matrix product: 5 MiB in the first layer for 28 x 28 pixels.
# More images take more memory, fewer make the product slower. Set by hand.
_BATCH_IMAGES = 64


class ConvolutionBlocks(SeededFeatures):
    """Random filters on square images with 1 or 3 channels, each channel a plane of pixels.

    Both layers turn an image of side s into (s // 4)^2 pixels for each filter of the second layer,
    and `n_features` is a multiple of that number: for s = 28, 1,568 features are 32 filters.
    `gamma` is not used.
    """

    def __init__(
        self, d: int, n_features: int, seed: int, gamma: float, *, cache_mb: float = 0.0
    ) -> None:
        super().__init__(d, n_features, seed, gamma, cache_mb=cache_mb)
        self.side, self.channels = image_shape(d)
        n_pixels = (self.side // 4) ** 2
        if not n_pixels or n_features % n_pixels:
            raise ValueError(
                f"block_size is {n_features}, should be a multiple of {max(n_pixels, 1)}, the "
                f"pixels that two layers leave of images of {self.side} x {self.side} pixels"
            )
        self.n_filters = n_features // n_pixels

    @property
    def multiplications(self) -> float:
        return filter_multiplications(self.side, self.channels, self.n_filters)

    def _draw(self, block: int) -> np.ndarray:
        return np.concatenate(
            [f.ravel() for f in random_filters(self.channels, self.n_filters, self.seed, block)]
        )

    def _write(self, filters: np.ndarray, X: Any, out: np.ndarray) -> None:
        n_first = _FILTER_SIDE**2 * self.channels * _FIRST_FILTERS
        first_filters = filters[:n_first].reshape(-1, _FIRST_FILTERS)
        apply_filters(X, first_filters, filters[n_first:].reshape(-1, self.n_filters), out)


def random_filters(
    channels: int, n_filters: int, seed: int, block: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Filters of both layers, (25 channels, 16) and (25 16, n_filters) float32.

    Entries are normal, of variance one over the filter's number of entries; rows are in the order
    channel, row, column.
    """
    shapes = [
        (_FILTER_SIDE**2 * channels, _FIRST_FILTERS),
        (_FILTER_SIDE**2 * _FIRST_FILTERS, n_filters),
    ]
    sizes = [rows * columns for rows, columns in shapes]
    normals = np.empty(sum(sizes), np.float32)
    philox.normals(np.uint64(seed), 0, block, normals)
    layers = np.split(normals, sizes[:1])
    first, second = (
        entries.reshape(shape) / np.float32(np.sqrt(shape[0]))
        for entries, shape in zip(layers, shapes, strict=True)
    )
    return first, second


def apply_filters(X: Any, first: np.ndarray, second: np.ndarray, out: np.ndarray) -> None:
    """Write the output of both layers for images X : (u, d), divided by sqrt(n_filters), into out.

    first : (25 channels, 16), second : (25 16, n_filters), as `random_filters` returns them;
    out : (u, (side // 4)^2 n_filters) float32, pixels first.
    """
    side, channels = image_shape(X.shape[1])
    scale = np.float32(1.0 / np.sqrt(second.shape[1]))
    for start in range(0, len(out), _BATCH_IMAGES):
        batch = X[start : start + _BATCH_IMAGES]
        batch = batch.toarray() if sp.issparse(batch) else batch
        planes = batch.reshape(-1, channels, side, side)
        layer = _convolve(_convolve(planes.transpose(0, 2, 3, 1), first), second)
        layer *= scale
        out[start : start + _BATCH_IMAGES] = layer.reshape(len(batch), -1)


def filter_multiplications(side: int, channels: int, n_filters: int) -> float:
    """Multiplications of both layers on one image."""
    first_layer = side**2 * channels * _FIRST_FILTERS
    second_layer = (side // 2) ** 2 * _FIRST_FILTERS * n_filters
    return float(_FILTER_SIDE**2 * (first_layer + second_layer))


def image_shape(d: int) -> tuple[int, int]:
    """Side and number of channels of square images with d values.

    Raises ValueError: no square image with 1 or 3 channels has d values.
    """
    for channels in (1, 3):
        side = isqrt(d // channels)
        if side > 1 and side**2 * channels == d:
            return side, channels
    raise ValueError(f"X has {d} features, which do not form square images with 1 or 3 channels")


def _convolve(images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """max(0, maxima over 2 x 2 pixels of images * filters), zeros around the images.

    images : (u, s, s, c), filters : (25 c, k); (u, s // 2, s // 2, k) float32
    """
    u, s = images.shape[:2]
    padding = _FILTER_SIDE // 2
    padded = np.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(
        padded, (_FILTER_SIDE, _FILTER_SIDE), axis=(1, 2)
    )
    # Filters have their entries in the order of the windows' axes: channel, row, column.
    responses = matmul(windows.reshape(u * s * s, -1), filters)
    half = s // 2
    even_sided = responses.reshape(u, s, s, -1)[:, : 2 * half, : 2 * half]
    pooled = even_sided.reshape(u, half, 2, half, 2, -1).max(axis=(2, 4))
    return np.maximum(pooled, np.float32(0.0))
