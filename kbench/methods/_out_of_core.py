"""Division of rows that are larger than memory, and training of their clusters one by one.

The out-of-core form of divide and conquer (Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for
Kernel Support Vector Machines", ICML 2014, early prediction), in three steps:

    survey   one pass: number of rows and classes, a random sample, a checksum
    divide   a tree of k-means on the sample; one pass writes the rows in the order of their leaves
    train    the machine of each leaf, from its rows alone; it is appended to a file

Memory is that of a block of rows, of the sample and of the clusters that are being trained. All
files lie in one folder, whose name is a hash of the rows and of the parameters: the rows in the
order of their clusters, and the machines that are ready. A fit that was interrupted finds both
again.
"""

import fcntl
import hashlib
import json
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed

from kbench import class_labels
from kbench.chunked import Block, ChunkedRows
from kbench.clustering import KMeansTree, kmeans_tree
from kbench.clustering.rows_by_cluster import RowsByCluster, spill
from kbench.errors import DataError, KbenchError
from kbench.prediction.packed_machines import (
    MachineWriter,
    PackedLocalMachines,
    PackedMachines,
    PackedRecords,
)
from kbench.trace import Trace

# Sampled rows for each leaf of the tree. The size of a cluster then varies by about a seventh
# beside the variation that k-means causes.
_LEAF_SAMPLE = 50
# Fraction of the memory that the rows of a cluster in training may take, with the copy that the
# kernel matrix holds and the vectors of the solver; the rest is for the index and the solver's
# cache.
_CLUSTER = 1 / 2
# Bytes for each row of a cluster beside its features: about a dozen float64 vectors of the solver.
_VECTORS = 100


class Survey:
    """What one pass over the rows finds.

    Attributes
    ----------
    n : int
    sample : (m, d) array or CSR
        m rows drawn without replacement, in random order; all rows if there are fewer.
    nbytes : int
        Bytes of the rows on disk.
    classes : (q,) labels, sorted
    counts : (q,) ints
        Rows of each class.
    """

    def __init__(self, rows: ChunkedRows, n_samples: int, seed: int) -> None:
        self.n = self.nbytes = self._checksum = 0
        self._sums = np.zeros(2)
        self._shift: float | None = None
        self._classes: dict[Any, int] = {}
        self._kind = ""
        keys, held = np.empty(0, np.uint64), []
        for block in rows.blocks():
            X = block.X
            priority = _random_keys(self.n, X.shape[0], seed)
            chosen = _smallest(priority, n_samples)
            keys = np.concatenate([keys, priority[chosen]])
            held.append(X[chosen])
            if len(keys) > n_samples:
                kept = _smallest(keys, n_samples)
                keys, held = keys[kept], [_stacked(held)[kept]]
            self._count(block)
            self._add(X)
            self.n += X.shape[0]
        if not self.n:
            raise DataError("there are no rows")
        self.sample = _stacked(held)[np.argsort(keys)]
        # Sorting by a label puts 10 after 9, and texts in the order of their characters.
        self.classes = np.array(sorted(self._classes))
        self.counts = np.array([self._classes[label] for label in self.classes.tolist()])
        self._n_features = rows.n_features

    def _count(self, block: Block) -> None:
        if block.y is None:
            raise DataError(f"{block.place}: rows to learn from have no targets")
        y = np.asarray(block.y)
        kind = "text" if y.dtype.kind in "USO" else "number"
        if kind != (self._kind or kind):
            raise DataError(f"{block.place}: a label is a {kind}, labels before it are not")
        self._kind = kind
        if y.dtype.kind == "f" and not np.isfinite(y.sum()):
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            raise DataError(f"{block.place}: row {row + 1} has the label {y[row]}")
        labels, counts = np.unique(y, return_counts=True)
        class_labels.encode(labels)  # refuses labels that are not discrete
        for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
            self._classes[label] = self._classes.get(label, 0) + count
        self._checksum = zlib.crc32(np.ascontiguousarray(y).data.cast("B"), self._checksum)

    def _add(self, X: Any) -> None:
        """Add the rows to the checksum, and to the sums of the entries that give their variance."""
        parts = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, np.diff(X.indptr))
        for part in parts:
            part = np.ascontiguousarray(part)
            self.nbytes += part.nbytes
            if part.size:
                self._checksum = zlib.crc32(part.data.cast("B"), self._checksum)
        entries = parts[0].reshape(-1)
        if self._shift is None:
            self._shift = 0.0 if sp.issparse(X) else float(entries.mean(dtype=np.float64))
        for start in range(0, len(entries), 1 << 20):
            some = entries[start : start + (1 << 20)].astype(np.float64)
            some -= self._shift
            self._sums += some.sum(), some @ some

    @property
    def variance(self) -> float:
        """Variance of all entries of the rows."""
        mean, square = self._sums / (self.n * self._n_features)
        return float(square - mean**2)

    def class_weights(self, weights: dict | str | None) -> np.ndarray:
        """Factor of each class, as scikit-learn's `compute_class_weight` has it; (q,)."""
        q = len(self.classes)
        if weights is None:
            return np.ones(q)
        if isinstance(weights, str):  # "balanced"
            return self.n / (q * self.counts)
        known = self.classes.tolist()
        unknown = [label for label in weights if label not in set(known)]
        if unknown:
            raise ValueError(f"class_weight has {unknown[0]!r}, which is no class of the rows")
        return np.array([float(weights.get(label, 1.0)) for label in known])

    @property
    def checksum(self) -> str:
        return f"{self.n} {self._n_features} {self._checksum:08x}"


def _random_keys(start: int, n: int, seed: int) -> np.ndarray:
    """Random numbers of the rows start ... start + n - 1, the same however rows are chunked.

    The output function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
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


def _smallest(keys: np.ndarray, m: int) -> np.ndarray:
    """Places of the m smallest keys, ascending; all places if there are no more."""
    if len(keys) <= m:
        return np.arange(len(keys))
    return np.sort(np.argpartition(keys, m - 1)[:m])


def _stacked(parts: list[Any]) -> Any:
    if sp.issparse(parts[0]):
        return sp.vstack(parts, format="csr")
    return np.concatenate(parts)


class ClusterRecord(NamedTuple):
    """The machine of a cluster and how its training ended."""

    machine: Any  # a KernelExpansion
    n_support: np.ndarray  # (q,) support vectors of each class
    n_iter: int
    objective: float
    duality_gap: float
    violation: float
    stop_reasons: list[str]  # of the problems that did not converge
    kernel_entries: int


class Trainer(Protocol):
    """Trains the machine of a cluster; it is sent to other processes."""

    def __call__(self, X: Any, index: np.ndarray, cluster: int) -> ClusterRecord:
        """X : (s, d), index : (s,) class numbers."""


class Place(NamedTuple):
    """Where the rows of a leaf are."""

    spilled: RowsByCluster
    cluster: int

    @property
    def size(self) -> int:
        return int(self.spilled.sizes[self.cluster])


@dataclass
class Divided:
    """Rows on disk by the leaves of a tree.

    Attributes
    ----------
    notes : list of str
        Lines on clusters that were divided further than asked for.
    """

    tree: KMeansTree
    places: list[Place]
    notes: list[str]


@contextmanager
def working_folder(rows: ChunkedRows, identity: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of a fit, named by all that its files depend on; removed if the fit ends well.

    In a `scratch` that the user named it stays if the fit fails or is interrupted, so that the next
    one can go on. A lock in it, which the system releases when a process ends, keeps a second fit
    of the same rows and parameters away.

    Raises
    ------
    KbenchError
        Another fit uses the folder, or it cannot be written.
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


def most_rows(rows: ChunkedRows) -> int:
    """Rows of the largest cluster that is trained as a whole."""
    row_bytes = 2 * rows.n_features * rows.dtype.itemsize + _VECTORS
    return max(1, int(_CLUSTER * rows.memory_mb * 2**20 / row_bytes))


def sample_size(n_samples: int, n_clusters: int) -> int:
    """Rows on which a tree of `n_clusters` leaves is grown."""
    return max(n_samples, _LEAF_SAMPLE * n_clusters)


def divide_rows(
    rows: ChunkedRows,
    survey: Survey,
    n_clusters: int,
    branching: int,
    folder: Path,
    rng: np.random.RandomState,
    most: int,
) -> Divided:
    """Grow a tree on the sample, and write the rows in the order of its leaves.

    A leaf with more than `most` rows is divided again in the same way, until no leaf has more.

    Raises
    ------
    KbenchError
        The disk is full; or more than `most` rows are equal, which no division separates.
    """
    tree = kmeans_tree(survey.sample, n_clusters, rng, branching=branching)

    def encode(block: Block) -> np.ndarray:
        try:
            index = class_labels.index_of(survey.classes, np.asarray(block.y))
        except ValueError as error:
            raise DataError(f"{block.place}: {error}; rows changed between two passes") from None
        return index.astype(np.int32)

    spilled = spill(
        rows,
        tree.assign,
        tree.n_leaves,
        folder / "rows",
        encode=encode,
        nbytes=survey.nbytes + 4 * survey.n,
    )
    places = [Place(spilled, leaf) for leaf in range(tree.n_leaves)]
    notes: list[str] = []
    while (largest := max(places, key=lambda place: place.size)).size > most:
        leaf = places.index(largest)
        subtree, parts = _divide_again(rows, largest, branching, folder, rng, most, len(notes))
        notes.append(
            f"a cluster of {largest.size} rows does not fit into memory_mb={rows.memory_mb:g} and "
            f"was divided into {len(parts)}"
        )
        warnings.warn(notes[-1], UserWarning, stacklevel=5)
        tree = tree.divided(leaf, subtree)
        places = [*places[:leaf], *places[leaf + 1 :], *parts]
    return Divided(tree, places, notes)


def _divide_again(
    rows: ChunkedRows,
    place: Place,
    branching: int,
    folder: Path,
    rng: np.random.RandomState,
    most: int,
    number: int,
) -> tuple[KMeansTree, list[Place]]:
    """A tree for the rows of one leaf, and the places of its leaves."""
    part = place.spilled.chunked(place.cluster, rows)
    n_clusters = -(-2 * place.size // most)
    again = Survey(part, _LEAF_SAMPLE * n_clusters, rng.randint(2**31))
    subtree = kmeans_tree(again.sample, n_clusters, rng, branching=branching)
    if subtree.n_leaves == 1:
        raise KbenchError(
            f"{place.size} rows of a cluster are equal and do not fit into "
            f"memory_mb={rows.memory_mb:g}; at most {most} rows are trained together"
        )
    spilled = spill(
        part,
        subtree.assign,
        subtree.n_leaves,
        folder / f"rows-divided-{number}",
        encode=lambda block: np.asarray(block.y),
        nbytes=again.nbytes + 4 * again.n,
    )
    return subtree, [Place(spilled, leaf) for leaf in range(subtree.n_leaves)]


def train_clusters(
    places: list[Place],
    trainer: Trainer,
    path: Path,
    trace: Trace,
    n_jobs: int | None = None,
) -> tuple[PackedRecords, list[ClusterRecord]]:
    """Train the clusters whose machines are not in the file `path` yet.

    Returns
    -------
    packed : PackedRecords
        Of all clusters, in the file.
    records : list of ClusterRecord, by cluster
        Without the machines.
    """
    with MachineWriter(path) as writer:
        records = {
            cluster: ClusterRecord(**record)._replace(machine=None)
            for cluster, record in writer.written()
        }
        missing = [cluster for cluster in range(len(places)) if cluster not in records]
        jobs = (delayed(_train)(trainer, places[cluster], cluster) for cluster in missing)
        for cluster, record in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
            writer.append(cluster, record._asdict())
            records[cluster] = record._replace(machine=None)
            trace(clusters_done=len(records), n_clusters=len(places))
        return writer.packed(), [records[cluster] for cluster in range(len(places))]


def _train(trainer: Trainer, place: Place, cluster: int) -> tuple[int, ClusterRecord]:
    X, index = place.spilled.cluster(place.cluster)
    return cluster, trainer(X, index, cluster)


def packed_machine(
    tree: KMeansTree, records: PackedRecords, n_centres: np.ndarray, n_outputs: int
) -> PackedLocalMachines:
    """Early prediction: a row is evaluated by the machine of its leaf."""
    machines = PackedMachines(records, n_centres)
    return PackedLocalMachines(tree.assign, machines, n_outputs, float(tree.distances().mean()))
