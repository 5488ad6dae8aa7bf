"""Trained landmarks on rows that are larger than memory.

The tree is grown on a sample. As for the other divided models (`out_of_core`), one pass then writes
the rows to disk in the order of the leaves, and each leaf is trained from its rows alone. The
models of all leaves are small and stay in memory.
"""

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from kbench.chunked import ChunkedRows
from kbench.clustering.axis_tree import AxisTree
from kbench.clustering.shuffle_on_disk import spill
from kbench.methods.base.survey import Survey
from kbench.methods.out_of_core.out_of_core import (
    StoredCluster,
    Trainer,
    train_clusters,
    working_folder,
)
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import float32_rows
from kbench.trace import Trace


class LeafRecord(NamedTuple):
    """The model of a leaf, and the number of kernel values that its training took."""

    machine: dict[str, np.ndarray | None]  # fields of a LandmarkMachine
    kernel_entries: int = 0


def make_record(machine: LandmarkMachine, kernel_entries: int = 0) -> LeafRecord:
    return LeafRecord(dict(vars(machine)), kernel_entries)


class LeavesFit(NamedTuple):
    """Result of training all leaves."""

    machines: list[LandmarkMachine]
    sizes: np.ndarray  # (n_leaves,) rows of each leaf
    kernel_entries: int
    notes: list[str]


def train_leaves(
    model: BaseEstimator,
    rows: ChunkedRows,
    survey: Survey,
    tree: AxisTree,
    offset: np.ndarray | None,  # (d,), subtracted from rows before the tree assigns them
    trainer: Trainer,
    seed: int,
    trace: Trace,
) -> LeavesFit:
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
        stored_clusters = [StoredCluster(spilled, leaf) for leaf in range(tree.n_leaves)]
        with trace.phase("train"):
            packed, records, notes = train_clusters(
                stored_clusters, trainer, folder / "machines", trace, model.n_jobs
            )
        machines = [LandmarkMachine(**packed[leaf]["machine"]) for leaf in range(tree.n_leaves)]
    n_entries = sum(record.kernel_entries for record in records)
    return LeavesFit(machines, spilled.sizes, n_entries, notes)
