"""Data sets: raw files found or fetched, read strictly, prepared once, opened as memory maps.

>>> from kbench.data import Folders, open_prepared, prepare
>>> data = open_prepared(prepare(config, Folders.from_environment()))  # doctest: +SKIP

Importing this package is light; numba, SciPy and tqdm come with the first file that is read.
"""

from kbench.data.application import Preparation
from kbench.data.config import by_files, check_config, influence, with_variant
from kbench.data.folders import FileStatus, Folders, locate
from kbench.data.later_rows import read_rows
from kbench.data.preparation import DatasetStatus, fingerprint, prepare, status
from kbench.data.prepared import Dataset, open_prepared
from kbench.data.stream import chunks

__all__ = [
    "Dataset",
    "DatasetStatus",
    "FileStatus",
    "Folders",
    "Preparation",
    "by_files",
    "check_config",
    "chunks",
    "fingerprint",
    "influence",
    "locate",
    "open_prepared",
    "prepare",
    "read_rows",
    "status",
    "with_variant",
]
