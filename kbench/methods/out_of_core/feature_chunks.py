"""Features of rows in chunks: the sample on which they are chosen, and blocks from disk."""

from pathlib import Path
from typing import Any

import numpy as np

from kbench.approximation import FeatureMap
from kbench.approximation.features.feature_map import MIN_BATCH
from kbench.chunked import ChunkedRows
from kbench.clustering.shuffle_on_disk import spill
from kbench.methods.base.survey import Survey
from kbench.trace import Trace

# Number of rows of the sample on which features, landmarks and clusters are chosen (the default
# `n_samples` of MEKA), and least number of sampled rows for each landmark. Larger samples take more
# time and memory. Set by hand.
SAMPLE_ROWS = 20_000
_ROWS_PER_LANDMARK = 4


def feature_sample(approximation: Any) -> int:
    """Rows of the sample on which an approximation is fitted."""
    parameters = approximation.get_params(deep=False)
    sizes = [parameters.get(name) for name in ("n_components", "rank", "n_landmarks")]
    n_landmarks = max((size for size in sizes if isinstance(size, int)), default=0)
    n_clusters = parameters.get("n_clusters") or 1
    return max(SAMPLE_ROWS, _ROWS_PER_LANDMARK * n_landmarks * n_clusters)


def with_gamma_of_all_rows(approximation: Any, survey: Survey) -> Any:
    """The approximation, changed in place: gamma="scale" becomes the value for all rows."""
    gamma = approximation.get_params(deep=False).get("gamma")
    return approximation if gamma is None else approximation.set_params(gamma=survey.gamma(gamma))


class SpilledFeatures:
    """Features of rows on disk, in the blocks of rows that a solver requests.

    Implements `RowBlocks` of `kbench.solvers.linear.linear_dual`, as `FeatureBlocks` does for rows
    in memory: with the same `memory_mb` the blocks are the same.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    survey : Survey of these rows; its targets are encoded as class numbers
    memory_mb : MiB of features that are held
    folder : Folder to which the rows are written, in one pass
    trace : The time of computing features is charged to its phase "features"

    Attributes
    ----------
    index : (n,) int32. Class number of each row.
    n_rows_computed : int. Rows whose features were computed, with repetitions.
    """

    def __init__(
        self,
        feature_map: FeatureMap,
        rows: ChunkedRows,
        survey: Survey,
        memory_mb: float,
        folder: Path,
        trace: Trace,
    ) -> None:
        n = survey.n
        self.shape = (n, feature_map.n_features_out_)
        self.n_rows_computed = 0
        self._map, self._trace = feature_map, trace
        block_rows = min(max(int(memory_mb * 2**20) // (4 * self.shape[1]), MIN_BATCH), n)
        self._block_rows, self._held_block = block_rows, -1
        self._rows = spill(
            rows,
            lambda X, first_row: np.arange(first_row, first_row + X.shape[0]) // block_rows,
            -(-n // block_rows),
            folder,
            encode=survey.targets.encode,
            nbytes=survey.nbytes + 4 * n,
        )
        self._buffer = np.empty((block_rows, self.shape[1]), np.float32)
        blocks = range(len(self._rows.sizes))
        self.index = np.concatenate([self._rows.cluster(block)[1] for block in blocks])

    def slices(self) -> list[slice]:
        n, block_rows = self.shape[0], self._block_rows
        return [slice(start, min(start + block_rows, n)) for start in range(0, n, block_rows)]

    def block(self, rows: slice) -> np.ndarray:
        block_number = rows.start // self._block_rows
        features = self._buffer[: rows.stop - rows.start]
        if block_number != self._held_block:
            with self._trace.phase("features"):
                X, _ = self._rows.cluster(block_number)
                self._map.fill(X, features)
            self._held_block = block_number
            self.n_rows_computed += len(features)
        return features
