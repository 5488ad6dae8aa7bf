"""Trained landmarks on rows that are larger than memory.

The tree is grown on a sample. Then, as for the other divided machines (`_out_of_core`), one pass
writes the rows to disk in the order of the leaves, and each leaf is trained from its rows alone.
Unlike theirs, the machines of all leaves stay in memory: they are small.
"""

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kbench.chunked import ChunkedRows
from kbench.clustering.axis_tree import AxisTree
from kbench.clustering.rows_by_cluster import spill
from kbench.errors import KbenchError
from kbench.methods.base.sizes import number_of_groups
from kbench.methods.base.survey import Survey
from kbench.methods.out_of_core.out_of_core import Place, Trainer, train_clusters, working_folder
from kbench.prediction.landmarks import float32_rows
from kbench.prediction.packing import LandmarkMachine
from kbench.trace import Trace

if TYPE_CHECKING:
    from kbench.methods.fast_prediction.trained_leaves import TrainedLeaves

# Rows of the sample on which the tree is grown.
SAMPLE = 20_000
# Fraction of the memory that the training of a leaf may take.
_LEAF = 1 / 2
# Bytes for each row of a leaf and each landmark: kernel values in float64, thrice in the ridge
# regression that gives the initial coefficients.
_VALUES = 24
# Bytes for each row of a leaf beside its features and kernel values: vectors of the solver.
_VECTORS = 100
# Standard deviations by which a leaf may have more rows than its part of the sample says.
_DEVIATIONS = 3.0


class LeafRecord(NamedTuple):
    """The machine of a leaf."""

    machine: dict[str, np.ndarray | None]  # fields of a LandmarkMachine
    kernel_entries: int = 0


def record_of(machine: LandmarkMachine, kernel_entries: int = 0) -> LeafRecord:
    return LeafRecord(dict(vars(machine)), kernel_entries)


class TrainedOutOfCore(NamedTuple):
    """What the training of all leaves gives."""

    machines: list[LandmarkMachine]
    sizes: np.ndarray  # (n_leaves,) rows of each leaf
    kernel_entries: int
    notes: list[str]


def sampled_tree(
    model: "TrainedLeaves",
    rows: ChunkedRows,
    survey: Survey,
    X: np.ndarray,
    Y: np.ndarray,
    weight: np.ndarray,
    rng: np.random.RandomState,
) -> tuple[AxisTree, list[str]]:
    """A tree for all rows, grown on the sample X : (s, d) float32, Y : (s, m), weight : (s,).

    It gets more leaves than the model asks for if one of them would not fit into memory; a note
    says so.

    Raises
    ------
    KbenchError
        No tree has leaves that fit.
    """
    n, s = survey.n, len(X)
    most = _most_rows(model, rows)
    asked = n_leaves = number_of_groups(model.n_leaves, n)
    min_rows = max(1, model.min_rows * s // n)
    while True:
        tree = model._tree(X, Y, weight, n_leaves, min_rows, rng)
        largest = np.bincount(tree.assign(X)).max()
        expected = n * (largest + (_DEVIATIONS * np.sqrt(largest) if s < n else 0.0)) / s
        if expected <= most:
            break
        if tree.n_leaves < n_leaves:
            raise KbenchError(
                f"about {expected:.0f} rows of a leaf do not fit into "
                f"memory_mb={rows.memory_mb:g}, at most {most} are trained together, and the "
                f"tree divides no further with min_rows={model.min_rows}"
            )
        n_leaves *= 2
    if n_leaves == asked:
        return tree, []
    note = (
        f"n_leaves is {n_leaves}, not {asked}, because larger leaves do not fit into "
        f"memory_mb={rows.memory_mb:g}"
    )
    warnings.warn(note, UserWarning, stacklevel=5)
    return tree, [note]


def _most_rows(model: "TrainedLeaves", rows: ChunkedRows) -> int:
    """Rows of the largest leaf that is trained."""
    width = 3 * rows.n_features * 4 + _VALUES * (model.n_landmarks + 1) + _VECTORS
    return max(1, int(_LEAF * rows.memory_mb * 2**20 / width))


def train_leaves(
    model: "TrainedLeaves",
    rows: ChunkedRows,
    survey: Survey,
    tree: AxisTree,
    offset: np.ndarray | None,
    trainer: Trainer,
    seed: int,
    trace: Trace,
) -> TrainedOutOfCore:
    """Write the rows in the order of the leaves, and train each leaf from its rows."""
    parameters = model.get_params(deep=False)
    identity = {
        "rows": survey.checksum,
        "seed": seed,
        "block_rows": rows.block_rows,
        "n_leaves_": tree.n_leaves,
        "trainer": type(trainer).__name__,
        **{name: value for name, value in parameters.items() if name != "n_jobs"},
    }
    with working_folder(rows, identity) as folder:
        with trace.phase("divide"):
            spilled = spill(
                rows,
                lambda X, _: tree.assign(float32_rows(X, offset)),
                tree.n_leaves,
                folder / "rows",
                encode=survey.targets.encode,
                nbytes=survey.nbytes + 8 * survey.n * survey.targets.n_outputs,
            )
        places = [Place(spilled, leaf) for leaf in range(tree.n_leaves)]
        with trace.phase("train"):
            packed, records, notes = train_clusters(
                places, trainer, folder / "machines", trace, model.n_jobs
            )
        machines = [LandmarkMachine(**packed[leaf]["machine"]) for leaf in range(tree.n_leaves)]
    n_entries = sum(record.kernel_entries for record in records)
    return TrainedOutOfCore(machines, spilled.sizes, n_entries, notes)
