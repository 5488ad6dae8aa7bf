"""Ridge models on rows that are larger than memory.

There are three forms, by the sums or rows from which the model is made:

    normal equations   random features, Nystrom kinds and MEKA: W'W and W'Y, summed in one pass
    clusters           BKA: an exact model for each cluster, from its rows on disk
    subsets            DC-KRR: an exact model for each random subset, from its rows on disk

The rows are read once before, for the sample on which features, landmarks and clusters are chosen.
"""

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kbench.approximation import BKA, BlockDiagonalKernel, Machine
from kbench.approximation.features.factored import FactoredEquations
from kbench.chunked import ChunkedRows, batches
from kbench.clustering import Centroids
from kbench.clustering.shuffle_on_disk import spill
from kbench.kernels import Kernel, KernelMatrix
from kbench.methods.base.survey import ChunkedTargets, Survey
from kbench.methods.out_of_core.feature_chunks import SAMPLE_ROWS
from kbench.methods.out_of_core.out_of_core import (
    StoredCluster,
    divide_rows,
    packed_machine,
    sample_size,
    train_clusters,
    working_folder,
)
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.local_models_file import PackedMachines, PackedSum
from kbench.solvers import CGResult, solve_kernel_ridge
from kbench.trace import Trace

# Rows whose products W'W are added at a time, so that the sums do not depend on the chunks; 16,384
# rows of 1,000 features are 64 MiB. Set by hand.
_BATCH_ROWS = 16384
# Fraction of the memory that the kernel matrix of a cluster and its factor may take. The rest is
# for the rows and for a block that is read. A larger fraction trains larger clusters. Set by hand.
_MATRIX_FRACTION = 1 / 2


def fit_normal_equations(
    basis: Any, rows: ChunkedRows, targets: ChunkedTargets, alpha: float, trace: Trace
) -> Machine:
    """The ridge model of all rows on the columns of a `RowBasis`. One pass, O(n k (d + k))."""
    equations = FactoredEquations(basis, targets.n_outputs)
    n_seen = 0
    with trace.phase("features"):
        for batch in batches(rows, _BATCH_ROWS):
            equations.add(batch.X, targets.matrix(targets.encode(batch)))
            n_seen += batch.X.shape[0]
            trace(samples=n_seen)
    with trace.phase("solve"):
        return basis.machine(equations.weights(alpha))


class RidgeRecord(NamedTuple):
    """The exact ridge model of the rows of one cluster or subset."""

    machine: KernelExpansion
    n_rows: int
    n_iter: int
    residual: np.ndarray  # relative, of each target
    converged: bool
    kernel_entries: int

    @property
    def stop_reason(self) -> str:
        return "tol" if self.converged else "max_iter"


@dataclass(frozen=True)
class BlockTrainer:
    """Fits BKA with one cluster to the rows of a diagonal block."""

    kernel: Kernel
    dtype: str
    targets: ChunkedTargets
    alpha: float

    record: ClassVar[type] = RidgeRecord

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> RidgeRecord:
        Y, n = self.targets.matrix(targets), len(targets)
        kernel = KernelMatrix(self.kernel, X, self.dtype)
        # `BlockDiagonalKernel` requires a centre for each block; its value changes nothing here.
        centre = Centroids(np.zeros((1, X.shape[1])))
        matrix = BlockDiagonalKernel([kernel], [np.arange(n)], centre)
        coef = matrix.solve(Y, self.alpha)
        dtype = prediction_dtype(kernel, coef)
        machine = KernelExpansion(kernel, np.arange(n), coef, dtype)
        return RidgeRecord(machine, n, 1, np.zeros(Y.shape[1]), True, kernel.n_entries)


@dataclass(frozen=True)
class SubsetTrainer:
    """The exact model of a random subset, divided by the number of subsets."""

    kernel: Kernel
    dtype: str
    targets: ChunkedTargets
    alpha: float
    tol: float
    max_iter: int
    n_parts: int

    record: ClassVar[type] = RidgeRecord

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> RidgeRecord:
        Y = self.targets.matrix(targets)
        kernel = KernelMatrix(self.kernel, X, self.dtype)
        result: CGResult = solve_kernel_ridge(
            kernel, Y, self.alpha, tol=self.tol, max_iter=self.max_iter
        )
        coef = result.x / self.n_parts
        machine = KernelExpansion(
            kernel, np.arange(len(coef)), coef, prediction_dtype(kernel, coef)
        )
        n_iter, entries = result.n_iter, kernel.n_entries
        return RidgeRecord(
            machine, len(coef), n_iter, result.residual, bool(result.converged), entries
        )


class ClusterFit(NamedTuple):
    """Result of training clusters or subsets."""

    machine: Machine
    records: list[RidgeRecord]
    notes: list[str]


def fit_clusters(
    approximation: BKA,
    trainer: BlockTrainer,
    rows: ChunkedRows,
    survey: Survey,
    seed: int,
    trace: Trace,
) -> ClusterFit:
    """The exact ridge models of the leaves of a k-means tree with `n_clusters` leaves."""
    max_rows = max_factorised_rows(rows)
    # The tree has two levels of equally many branches, so that a row costs two short searches.
    branching = max(2, int(np.ceil(np.sqrt(approximation.n_clusters))))
    identity = _identity(
        trainer, rows, survey, {**approximation.get_params(), "seed": seed}, max_rows
    )
    rng = np.random.RandomState(seed)
    with working_folder(rows, identity) as folder:
        division = divide_rows(
            rows, survey, approximation.n_clusters, branching, folder, rng, max_rows, trace
        )
        with trace.phase("train"):
            packed, records, notes = train_clusters(
                division.stored_clusters, trainer, folder / "machines", trace
            )
        n_centres = np.array([record.n_rows for record in records], np.int64)
        machine = packed_machine(division.tree, packed, n_centres, survey.targets.n_outputs)
    return ClusterFit(machine, records, division.notes + notes)


def fit_subsets(
    trainer: SubsetTrainer,
    rows: ChunkedRows,
    survey: Survey,
    subsets: list[np.ndarray],
    trace: Trace,
    n_jobs: int | None,
) -> ClusterFit:
    """The mean of the exact ridge models of subsets, which are arrays of row numbers."""
    subset_of_row = np.empty(survey.n, np.int32)
    for subset_number, row_numbers in enumerate(subsets):
        subset_of_row[row_numbers] = subset_number
    identity = _identity(trainer, rows, survey, {"subsets": zlib.crc32(subset_of_row.data)}, 0)
    with working_folder(rows, identity) as folder:
        with trace.phase("divide"):
            spilled = spill(
                rows,
                lambda X, first_row: subset_of_row[first_row : first_row + X.shape[0]],
                len(subsets),
                folder / "rows",
                encode=survey.targets.encode,
                nbytes=survey.nbytes + 8 * survey.n * survey.targets.n_outputs,
            )
        stored_clusters = [
            StoredCluster(spilled, subset_number) for subset_number in range(len(subsets))
        ]
        with trace.phase("train"):
            packed, records, notes = train_clusters(
                stored_clusters, trainer, folder / "machines", trace, n_jobs
            )
        n_centres = np.array([record.n_rows for record in records], np.int64)
        machine = PackedSum(PackedMachines(packed, n_centres), survey.targets.n_outputs)
    return ClusterFit(machine, records, notes)


def cluster_sample(n_clusters: int) -> int:
    """Rows of the sample on which a tree of `n_clusters` leaves is grown."""
    return sample_size(SAMPLE_ROWS, n_clusters)


def max_factorised_rows(rows: ChunkedRows) -> int:
    """Rows of the largest cluster whose kernel matrix, and its factor, fit into memory.

    An entry takes 12 bytes: 4 in the float32 matrix and 8 in the float64 factor.
    """
    return max(1, int(np.sqrt(_MATRIX_FRACTION * rows.memory_mb * 2**20 / 12)))


def _identity(
    trainer: Any, rows: ChunkedRows, survey: Survey, parameters: dict[str, Any], max_rows: int
) -> dict[str, Any]:
    """The `identity` of `working_folder`: everything on which the files of a fit depend."""
    return {
        "rows": survey.checksum,
        "block_rows": rows.block_rows,
        "most": max_rows,
        **parameters,
        **{name: value for name, value in vars(trainer).items() if name != "targets"},
        "trainer": type(trainer).__name__,
    }
