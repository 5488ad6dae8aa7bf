"""Data sets: locate or fetch raw files, read them strictly, prepare arrays once, and map them.

>>> from kbench.data import Folders, open_prepared, prepare
>>> data = open_prepared(prepare(config, Folders.from_environment()))  # doctest: +SKIP

`configs` has the keys of a data set's file, `sources` the files, `formats` their readers,
`preparation` the steps from rows to arrays, `chunks` rows that are read piece by piece. The process
in which a run prepares its data, and its limit of memory, are in `kbench.run.execution`. Importing
this package is cheap; numba, SciPy and tqdm are imported when the first file is read.
"""

from kbench.chunked import ChunkedRows
from kbench.data.chunks.chunked import chunked_files, chunked_generator
from kbench.data.chunks.stream import chunks
from kbench.data.configs.dataset import by_files, check_config, influence, with_variant
from kbench.data.configs.own_file import require_rows_for_folds
from kbench.data.preparation.application import Preparation
from kbench.data.preparation.later_rows import read_rows
from kbench.data.preparation.prepare import (
    DatasetStatus,
    fingerprint,
    prepare,
    remove_abandoned,
    status,
    with_task,
)
from kbench.data.preparation.prepared import Dataset, open_prepared
from kbench.data.sources.folders import FileStatus, Folders, locate

__all__ = [
    "ChunkedRows",
    "Dataset",
    "DatasetStatus",
    "FileStatus",
    "Folders",
    "Preparation",
    "by_files",
    "check_config",
    "chunked_files",
    "chunked_generator",
    "chunks",
    "fingerprint",
    "influence",
    "locate",
    "open_prepared",
    "prepare",
    "read_rows",
    "remove_abandoned",
    "require_rows_for_folds",
    "status",
    "with_task",
    "with_variant",
]
