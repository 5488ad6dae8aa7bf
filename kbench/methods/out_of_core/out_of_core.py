"""Division of rows that are larger than memory, and training of their clusters one by one.

The out-of-core form of divide and conquer (Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for
Kernel Support Vector Machines", ICML 2014, early prediction), in three steps:

    survey   one pass: number of rows and classes, a random sample, a checksum
    divide   a tree of k-means on the sample; one pass writes the rows in the order of their leaves
    train    the model of each leaf, from its rows alone; it is appended to a file

Memory holds a block of rows, the sample and the clusters that are being trained. One folder, whose
name is a hash of the rows and of the parameters, holds the rows in the order of their clusters and
the finished models. The same fit finds both again after an interruption.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from kbench.chunked import Block, ChunkedRows
from kbench.clustering import KMeansTree, kmeans_tree
from kbench.clustering.shuffle_on_disk import RowsByCluster, spill
from kbench.errors import KbenchError, warn
from kbench.methods.base.survey import Survey
from kbench.methods.out_of_core.workers import results_in_order
from kbench.prediction.local_models_file import (
    MachineWriter,
    PackedLocalMachines,
    PackedMachines,
    PackedRecords,
)
from kbench.trace import Trace

# Sampled rows for each leaf of the tree. Sampling then varies the size of a cluster by about a
# seventh (1 / sqrt(50)). Set by hand.
_SAMPLE_ROWS_PER_LEAF = 50
# Fraction of the memory for the rows of a cluster in training, their copy in the kernel matrix and
# the vectors of the solver; the rest is for the index and the solver's cache. Set by hand.
_CLUSTER_MEMORY_FRACTION = 1 / 2
# Bytes for each row of a cluster besides its features: about a dozen float64 vectors of the solver.
# Set by hand.
_SOLVER_BYTES_PER_ROW = 100

# Maximum number of clusters that a task trains: a task and its models cost the collecting process
# about 8 ms, and a cluster of 4,000 rows trains in 45 ms. Minimum number of tasks: a lost process
# makes another repeat its task, and the last task leaves other processes idle. Set by hand.
_MAX_CLUSTERS_PER_TASK, _MIN_TASKS = 8, 64
# Seconds (a week) for which the files of an interrupted fit are kept. They take as much space as
# the rows; a fit that is not repeated within this time is taken for abandoned. Set by hand.
_ABANDONED_SECONDS = 7 * 24 * 3600.0


class Trainer(Protocol):
    """Trains the model of a cluster; it is sent to other processes."""

    # Class of the returned NamedTuple. Its field `machine` is a KernelExpansion or another model
    # that a model file may hold; the other fields say how the training ended.
    record: ClassVar[type]

    def __call__(self, X: Any, targets: np.ndarray, cluster: int) -> Any:
        """Rows X : (s, d), targets : (s, ...) of `ChunkedTargets.encode`; returns a `record`."""


class StoredCluster(NamedTuple):
    """The rows of a cluster or leaf on disk."""

    spilled: RowsByCluster
    cluster: int

    @property
    def size(self) -> int:
        return int(self.spilled.sizes[self.cluster])


@dataclass
class DividedRows:
    """Rows on disk by the leaves of a tree."""

    tree: KMeansTree
    stored_clusters: list[StoredCluster]
    notes: list[str]  # Lines on clusters that were divided because they are too large for memory


@contextmanager
def working_folder(rows: ChunkedRows, identity: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of a fit, named by a hash of `identity`; removed if the fit succeeds.

    A folder in the user's `scratch` stays if the fit fails or is interrupted, so that the same fit
    can continue; another fit in the same `scratch` removes it after a week. A lock in the folder,
    which the system releases when a process ends, keeps a second fit of the same rows and
    parameters away.

    Raises KbenchError: another fit uses the folder, or it cannot be written.
    """
    text = json.dumps(dict(identity), sort_keys=True, default=str)
    name = f"kbench-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if rows.scratch is None:
        folder = Path(tempfile.mkdtemp(prefix="kbench-"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = rows.scratch / name
    for other_folder in rows.scratch.glob(f"kbench-{'[0-9a-f]' * 24}"):
        if other_folder != folder:
            _remove_abandoned(other_folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "wb")  # noqa: SIM115
    except OSError as error:
        raise KbenchError(f"cannot write to {folder}: {error.strerror or error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise KbenchError(f"{folder} is in use by a fit of the same rows") from None
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove the folder of a fit that began more than a week ago and is not in progress."""
    try:
        lock = open(folder / "lock", "rb")  # noqa: SIM115
    except OSError:
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        # Opening the lock file sets its time, so a fit that is in progress or recent shows here.
        if time.time() - os.fstat(lock.fileno()).st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def max_cluster_rows(rows: ChunkedRows) -> int:
    """Rows of the largest cluster that is trained as a whole."""
    row_bytes = 2 * rows.n_features * rows.dtype.itemsize + _SOLVER_BYTES_PER_ROW
    return max(1, int(_CLUSTER_MEMORY_FRACTION * rows.memory_mb * 2**20 / row_bytes))


def task_size(n_clusters: int) -> int:
    """Clusters that a worker trains in one task, if `n_clusters` are to be trained."""
    return min(max(n_clusters // _MIN_TASKS, 1), _MAX_CLUSTERS_PER_TASK)


def sample_size(n_samples: int, n_clusters: int) -> int:
    """Rows on which a tree of `n_clusters` leaves is grown."""
    return max(n_samples, _SAMPLE_ROWS_PER_LEAF * n_clusters)


def divide_rows(
    rows: ChunkedRows,
    survey: Survey,
    n_clusters: int,
    branching: int,
    folder: Path,
    rng: np.random.RandomState,
    max_rows: int,
    trace: Trace,
) -> DividedRows:
    """Grow a tree on the sample, and write the rows in the order of its leaves.

    A leaf with more than `max_rows` rows is divided again in the same way, until no leaf has more.
    The phases of the trace are "tree" and "divide".

    Raises KbenchError: the disk is full; or more than `max_rows` rows are equal, which no division
    separates.
    """
    with trace.phase("tree"):
        tree = kmeans_tree(survey.sample, n_clusters, rng, branching=branching)
    with trace.phase("divide"):
        return _divide(rows, survey, tree, branching, folder, rng, max_rows)


def _divide(
    rows: ChunkedRows,
    survey: Survey,
    tree: KMeansTree,
    branching: int,
    folder: Path,
    rng: np.random.RandomState,
    max_rows: int,
) -> DividedRows:
    spilled = spill(
        rows,
        lambda X, _: tree.assign(X),
        tree.n_leaves,
        folder / "rows",
        encode=survey.targets.encode,
        nbytes=survey.nbytes + 4 * survey.n,
    )
    stored_clusters = [StoredCluster(spilled, leaf) for leaf in range(tree.n_leaves)]
    notes: list[str] = []
    while (largest := max(stored_clusters, key=lambda stored: stored.size)).size > max_rows:
        leaf = stored_clusters.index(largest)
        subtree, leaves = _divide_again(rows, largest, branching, folder, rng, max_rows, len(notes))
        notes.append(
            f"a cluster of {largest.size} rows does not fit into memory_mb={rows.memory_mb:g} and "
            f"was divided into {len(leaves)}"
        )
        warn(notes[-1])
        tree = tree.divided(leaf, subtree)
        stored_clusters = [*stored_clusters[:leaf], *stored_clusters[leaf + 1 :], *leaves]
    return DividedRows(tree, stored_clusters, notes)


def _divide_again(
    rows: ChunkedRows,
    stored: StoredCluster,
    branching: int,
    folder: Path,
    rng: np.random.RandomState,
    max_rows: int,
    n_divided: int,
) -> tuple[KMeansTree, list[StoredCluster]]:
    """A tree for the rows of one leaf, and the stored rows of the tree's leaves.

    n_divided : Leaves that were divided before; the name of the folder of the rows contains it
    """
    leaf_rows = stored.spilled.chunked(stored.cluster, rows)
    # Clusters have half of the largest size on average: with fewer clusters more of them would have
    # to be divided again. Set by hand.
    n_clusters = -(-2 * stored.size // max_rows)
    survey = Survey(
        leaf_rows, _EncodedTargets(), _SAMPLE_ROWS_PER_LEAF * n_clusters, rng.randint(2**31)
    )
    subtree = kmeans_tree(survey.sample, n_clusters, rng, branching=branching)
    if subtree.n_leaves == 1:
        raise KbenchError(
            f"{stored.size} rows of a cluster are equal and do not fit into "
            f"memory_mb={rows.memory_mb:g}; at most {max_rows} rows are trained together"
        )
    spilled = spill(
        leaf_rows,
        lambda X, _: subtree.assign(X),
        subtree.n_leaves,
        folder / f"rows-divided-{n_divided}",
        encode=survey.targets.encode,
        nbytes=survey.nbytes + 4 * survey.n,
    )
    return subtree, [StoredCluster(spilled, leaf) for leaf in range(subtree.n_leaves)]


class _EncodedTargets:
    """`ChunkedTargets` of rows whose targets are encoded already."""

    n_outputs = 0

    def add(self, block: Block) -> np.ndarray:
        return np.asarray(block.y)

    def finish(self) -> None: ...

    def encode(self, block: Block) -> np.ndarray:
        return np.asarray(block.y)

    def matrix(self, encoded: np.ndarray) -> np.ndarray:
        return encoded


def train_clusters(
    stored_clusters: list[StoredCluster],
    trainer: Trainer,
    path: Path,
    trace: Trace,
    n_jobs: int | None = None,
) -> tuple[PackedRecords, list[Any], list[str]]:
    """Train the clusters whose models are not in the file `path` yet.

    Returns
    -------
    packed : PackedRecords
        The models of all clusters, in the file.
    records : list of `trainer.record`, by cluster
        The trainer's results without the models.
    notes : list of str
        Says that an interrupted fit had trained some of the clusters; otherwise empty.
    """
    with MachineWriter(path) as writer:
        records = {
            cluster: trainer.record(**record)._replace(machine=None)
            for cluster, record in writer.written()
        }
        notes = []
        if records:
            notes.append(
                f"an interrupted fit had trained {len(records)} of {len(stored_clusters)} "
                "clusters: the seconds of this fit do not include these"
            )
        missing = [cluster for cluster in range(len(stored_clusters)) if cluster not in records]
        size = task_size(len(missing))
        groups = [missing[start : start + size] for start in range(0, len(missing), size)]
        tasks = [(trainer, [stored_clusters[k] for k in group], group) for group in groups]
        for results in results_in_order(_train, tasks, n_jobs):
            for cluster, record in results:
                writer.append(cluster, record._asdict())
                records[cluster] = record._replace(machine=None)
                trace(clusters_done=len(records), n_clusters=len(stored_clusters))
        return writer.packed(), [records[cluster] for cluster in range(len(stored_clusters))], notes


def _train(
    trainer: Trainer, stored_clusters: list[StoredCluster], clusters: list[int]
) -> list[tuple[int, Any]]:
    """Pairs of the number of a cluster and its record: one task, of several clusters."""
    results = []
    for stored, cluster in zip(stored_clusters, clusters, strict=True):
        X, targets = stored.spilled.cluster(stored.cluster)
        results.append((cluster, trainer(X, targets, cluster)))
    return results


def packed_machine(
    tree: KMeansTree, records: PackedRecords, n_centres: np.ndarray, n_outputs: int
) -> PackedLocalMachines:
    """Early prediction: a row is evaluated by the model of its leaf."""
    machines = PackedMachines(records, n_centres)
    return PackedLocalMachines(tree.assign, machines, n_outputs, float(tree.distances().mean()))
