"""Number, sample, checksum and targets of rows in chunks, from one pass over the rows."""

import zlib
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from kbench import class_labels
from kbench.chunked import Block, ChunkedRows
from kbench.errors import DataError
from kbench.intrinsics.products import matmul
from kbench.methods.base.weights import checked_class_weights


class ChunkedTargets(Protocol):
    """The targets of rows in chunks: learned in the first pass, then encoded in others."""

    @property
    def n_outputs(self) -> int:
        """m, the number of functions that are fitted."""

    def add(self, block: Block) -> np.ndarray:
        """Check the targets of a block and count them; returns them as an array."""

    def finish(self) -> None:
        """Called after the last block."""

    def encode(self, block: Block) -> np.ndarray:
        """Targets of a block as they are kept on disk; (b, ...)."""

    def matrix(self, encoded: np.ndarray) -> np.ndarray:
        """The targets of m functions from encoded targets; (b, m) float64."""


class ClassTargets:
    """Labels of classes.

    Attributes
    ----------
    classes : (q,) labels, sorted
    counts : (q,) ints. Rows of each class.
    """

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._kind = ""
        self._subtracted_mean: np.ndarray | None = None

    def add(self, block: Block) -> np.ndarray:
        y = np.asarray(block.y)
        kind = "text" if y.dtype.kind in "USO" else "number"
        if kind != (self._kind or kind):
            raise DataError(f"{block.place}: a label is a {kind}, labels before it are not")
        self._kind = kind
        _require_finite(y, block.place, "label")
        labels, counts = np.unique(y, return_counts=True)
        class_labels.encode(labels)  # refuses labels that are not discrete
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
            self._counts[label] = self._counts.get(label, 0) + count
        return y

    def finish(self) -> None:
        # `sorted` orders numbers by value (10 after 9) and texts by their characters.
        self.classes = np.array(sorted(self._counts))
        self.counts = np.array([self._counts[label] for label in self.classes.tolist()])
        class_labels.require_two(len(self.classes))

    @property
    def n_outputs(self) -> int:
        return 1 if len(self.classes) == 2 else len(self.classes)

    def encode(self, block: Block) -> np.ndarray:
        """Class numbers; (b,) int32."""
        try:
            index = class_labels.index_of(self.classes, np.asarray(block.y))
        except ValueError as error:
            raise DataError(f"{block.place}: {error}; rows changed between two passes") from None
        return index.astype(np.int32)

    def matrix(self, encoded: np.ndarray) -> np.ndarray:
        signs = class_labels.signs(encoded, len(self.classes))
        return signs if self._subtracted_mean is None else signs - self._subtracted_mean

    def subtract_mean(self) -> np.ndarray:
        """Let `matrix` subtract the mean of all rows, which is returned; (m,)."""
        signs = class_labels.signs(np.arange(len(self.classes)), len(self.classes))
        self._subtracted_mean = np.average(signs, axis=0, weights=self.counts)
        return self._subtracted_mean

    def weights(self, weights: dict | str | None) -> np.ndarray:
        """Factor of each class, as scikit-learn's `compute_class_weight` gives it; (q,)."""
        q = len(self.classes)
        if weights is None:
            return np.ones(q)
        if isinstance(weights, str):  # "balanced"
            return self.counts.sum() / (q * self.counts)
        labels = self.classes.tolist()
        unknown = [label for label in weights if label not in set(labels)]
        if unknown:
            raise ValueError(f"class_weight has {unknown[0]!r}, which is not a class of the rows")
        class_factors = np.array([float(weights.get(label, 1.0)) for label in labels])
        return checked_class_weights(class_factors, self.classes)


class RealTargets:
    """Real targets, one or several for each row.

    Attributes
    ----------
    is_single : bool. Whether the targets of the rows are numbers, not arrays.
    mean, deviation : (m,) float64. Mean and standard deviation of the targets of all rows.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] | None = None
        self._n = 0
        self._is_centred = False

    def add(self, block: Block) -> np.ndarray:
        """As in `ChunkedTargets`; (b, ...) float64.

        The sums are of differences from the mean of the first block: squares of targets far from 0
        would leave few digits to the deviation.
        """
        y = self._as_floats(block)
        if self._shape is None:
            self._shape = y.shape[1:]
            self._shift = y.reshape(len(y), -1).mean(axis=0)
            self._sums = np.zeros((2, len(self._shift)))
        if y.shape[1:] != self._shape:
            raise DataError(
                f"{block.place}: a row's targets have shape {y.shape[1:]}, those of the rows "
                f"before it {self._shape}"
            )
        _require_finite(y, block.place, "target")
        shifted = y.reshape(len(y), -1) - self._shift
        self._sums += shifted.sum(axis=0), np.einsum("ij,ij->j", shifted, shifted)
        self._n += len(y)
        return y

    def finish(self) -> None:
        mean, square = self._sums / self._n
        self.is_single, self.n_outputs = self._shape == (), len(mean)
        self.mean = mean + self._shift
        self.deviation = np.sqrt(np.maximum(square - mean**2, 0.0))

    def encode(self, block: Block) -> np.ndarray:
        y = self._as_floats(block)
        return y.reshape(len(y), -1)

    def matrix(self, encoded: np.ndarray) -> np.ndarray:
        return encoded - self.mean if self._is_centred else encoded

    def subtract_mean(self) -> np.ndarray:
        """As in `ClassTargets`."""
        self._is_centred = True
        return self.mean

    @staticmethod
    def _as_floats(block: Block) -> np.ndarray:
        try:
            return np.asarray(block.y, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{block.place}: targets have to be numbers ({error})") from None


class Survey:
    """Number, sample, checksum and targets of the rows, from one pass over them.

    Parameters
    ----------
    targets : Learns the targets of all rows in the same pass
    n_samples : Rows of the sample
    seed : Seed of the sample
    checksum, variance : Whether to compute each; a pass over dense rows spends two fifths of its
        time on the checksum and as much on the variance.

    Attributes
    ----------
    n : int
    sample : (m, d) array or CSR
        m rows drawn without replacement, in random order; all rows if there are fewer.
    sample_y : (m, ...) array. Targets of the sample.
    nbytes : int. Bytes of the rows on disk.
    variance : float. Variance of all entries of the rows.
    checksum : str. Checksum of all rows and targets.

    Notes
    -----
    One pass over the rows; memory holds a block and the sample. Nothing depends on the chunks.
    """

    def __init__(
        self,
        rows: ChunkedRows,
        targets: ChunkedTargets,
        n_samples: int,
        seed: int,
        *,
        checksum: bool = True,
        variance: bool = True,
    ) -> None:
        self.n = self.nbytes = 0
        self._checksum: int | None = 0 if checksum else None
        self._variance = variance
        self.targets = targets
        self._sums = np.zeros(2)
        self._shift: float | None = None
        keys, sample, sample_y = np.empty(0, np.uint64), [], []
        for block in rows.blocks():
            if block.y is None:
                raise DataError(f"{block.place}: rows to learn from have no targets")
            y = targets.add(block)
            X = block.X
            block_keys = random_keys(self.n, X.shape[0], seed)
            smallest = _smallest_positions(block_keys, n_samples)
            keys = np.concatenate([keys, block_keys[smallest]])
            sample.append(X[smallest])
            sample_y.append(y[smallest])
            if len(keys) > n_samples:
                smallest_keys = _smallest_positions(keys, n_samples)
                keys, sample = keys[smallest_keys], [_stack(sample)[smallest_keys]]
                sample_y = [np.concatenate(sample_y)[smallest_keys]]
            self._add(X, y)
            self.n += X.shape[0]
        if not self.n:
            raise DataError("there are no rows")
        order = np.argsort(keys)
        self.sample, self.sample_y = _stack(sample)[order], np.concatenate(sample_y)[order]
        self._n_features = rows.n_features
        targets.finish()

    def _add(self, X: Any, y: np.ndarray) -> None:
        """Add rows to the checksum, and to the sums of the entries that give their variance."""
        arrays = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, np.diff(X.indptr))
        self.nbytes += sum(array.nbytes for array in arrays)
        if self._checksum is not None:
            for array in (y, *arrays):
                if array.size:
                    nbytes = np.ascontiguousarray(array).data.cast("B")
                    self._checksum = zlib.crc32(nbytes, self._checksum)
        if not self._variance:
            return
        entries = arrays[0].reshape(-1)
        if self._shift is None:
            self._shift = 0.0 if sp.issparse(X) else float(entries.mean(dtype=np.float64))
        # Blocks of 2^20 entries take 8 MiB as float64, however large the rows are. Set by hand.
        for start in range(0, len(entries), 1 << 20):
            block = entries[start : start + (1 << 20)].astype(np.float64)
            block -= self._shift
            self._sums += block.sum(), matmul(block, block)

    @property
    def variance(self) -> float:
        assert self._variance
        mean, square = self._sums / (self.n * self._n_features)
        return float(square - mean**2)

    def gamma(self, gamma: Any) -> Any:
        """The gamma of "scale" from all rows, not from the sample; any other gamma unchanged."""
        if gamma != "scale":
            return gamma
        variance = self.variance
        return 1.0 / (self._n_features * variance) if variance > 0 else 1.0

    @property
    def checksum(self) -> str:
        assert self._checksum is not None
        return f"{self.n} {self._n_features} {self._checksum:08x}"


def random_keys(start: int, n: int, seed: int) -> np.ndarray:
    """Random numbers of the rows start ... start + n - 1, which do not depend on the chunks.

    They are the output of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014) at states that are a golden-ratio step apart. (n,) uint64.
    """
    state = np.arange(start + 1, start + n + 1, dtype=np.uint64)
    state *= np.uint64(0x9E3779B97F4A7C15)
    state += np.uint64(seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def _smallest_positions(keys: np.ndarray, m: int) -> np.ndarray:
    """Positions of the m smallest keys, ascending; all positions if there are at most m keys."""
    if len(keys) <= m:
        return np.arange(len(keys))
    return np.sort(np.argpartition(keys, m - 1)[:m])


def _stack(blocks: list[Any]) -> Any:
    if sp.issparse(blocks[0]):
        return sp.vstack(blocks, format="csr")
    return np.concatenate(blocks)


def _require_finite(y: np.ndarray, place: str, noun: str) -> None:
    if y.dtype.kind == "f" and not np.isfinite(y.sum()):
        row = int(np.flatnonzero(~np.isfinite(y.reshape(len(y), -1)).all(axis=1))[0])
        raise DataError(f"{place}: row {row + 1} has the {noun} {y[row]}")
