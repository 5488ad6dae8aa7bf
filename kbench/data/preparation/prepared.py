"""Prepared arrays on disk: written in blocks, opened as read-only memory maps.

A prepared folder holds `X_train`, `y_train`, `X_test` and `y_test` as .npy files (three files for a
CSR matrix), `meta.json`, and, if they exist, the scaling of columns, the imputation and the groups
of training rows. The folder is made under a temporary name and renamed, so that a folder of the
final name is complete.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.preparation.application import Preparation
from kbench.data.preparation.split import holdout_rows
from kbench.data.sources.array_file import ArrayWriter
from kbench.errors import DataError
from kbench.files import mapped

FORMAT = 3  # raise it when the files of a prepared folder change their meaning
META = "meta.json"
SCALING = "scaling.npy"  # (3, d): shift, factor and base of scaled columns
FILL, INDICATED = "fill.npy", "indicated.npy"  # the arrays of `Imputation`
GROUPS = "groups_train.npy"
_CSR = ("data", "indices", "indptr")


@dataclass(frozen=True)
class Dataset:
    """A data set ready for a method.

    Attributes
    ----------
    name, variant, task : str
        variant is None for the data set itself.
    X_train, X_test : ndarray of float32 or csr_matrix of float32, shape (n, d)
        C-ordered, read-only, backed by memory maps.
    y_train, y_test : ndarray, shape (n,)
        binary: int32, -1 or +1; outlier: int32, -1 for outliers and +1 for normal rows; multiclass:
        int32; regression: float64.
    n_classes : int or None
        None for regression.
    sha256 : str
        Checksum of the raw content.
    preparation : Preparation
        The parameters with which later rows are prepared in the same way.
    groups_train : ndarray of int64 or None, shape (n,)
        Training rows with equal numbers stay on one side of a random split.
    notes : tuple of str
        Sentences about data that were assumed, left out, filled or rounded.
    """

    name: str
    variant: str | None
    task: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    n_classes: int | None
    sha256: str
    preparation: Preparation
    groups_train: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return int(self.X_train.shape[0])

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return int(self.X_test.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X_train.shape[1])


def open_prepared(path: str | Path, holdout: Mapping[str, Any] | None = None) -> Dataset:
    """Open a prepared folder; reads only headers of the arrays.

    Parameters
    ----------
    path : str or Path
    holdout : mapping, optional
        `holdout` of a config: `holdout_rows` divides the training rows into new training and test
        rows, which are copied into memory. The files of the test rows are not opened.

    Raises
    ------
    DataError
        The folder is absent, or another version of kbench wrote it.
    """
    folder = Path(path)
    try:
        meta = json.loads((folder / META).read_bytes())
        if meta["format"] != FORMAT:
            raise ValueError(f"format {meta['format']}, this kbench reads {FORMAT}")
        parts = ("train",) if holdout else ("train", "test")
        arrays = {f"X_{part}": _open(folder, f"X_{part}", meta) for part in parts}
        arrays |= {f"y_{part}": mapped(folder / f"y_{part}.npy") for part in parts}
        scaling = list(mapped(folder / SCALING)) if meta["scaled"] else None
        fills = [mapped(folder / name) for name in (FILL, INDICATED)] if meta["filled"] else None
        groups = mapped(folder / GROUPS) if meta["grouped"] else None
        preparation = Preparation.from_plain(meta | {"scaling": scaling, "imputation": fills})
    except (OSError, ValueError, KeyError, DataError) as error:
        raise DataError(
            f"{folder}: not a prepared data set ({error}); delete the folder, it is made again"
        ) from None
    if holdout:
        X, y = arrays["X_train"], arrays["y_train"]
        classes = meta["n_classes"] is not None
        row_numbers = holdout_rows(y, holdout, classes=classes, groups=groups)
        groups = None if groups is None else groups[row_numbers[0]]
        for part, rows in zip(("train", "test"), row_numbers, strict=True):
            arrays |= {f"X_{part}": _read_only_rows(X, rows), f"y_{part}": _read_only_rows(y, rows)}
    fields = ("name", "variant", "task", "n_classes", "sha256")
    facts = {name: meta[name] for name in fields}
    notes = tuple(meta["notes"])
    return Dataset(**facts, **arrays, preparation=preparation, groups_train=groups, notes=notes)


def _open(folder: Path, array: str, meta: dict[str, Any]) -> Any:
    """X_train or X_test, as `array` says."""
    if meta["storage"] == "dense":
        return mapped(folder / f"{array}.npy")
    from scipy.sparse import csr_matrix

    shape = (meta["n_train" if array == "X_train" else "n_test"], meta["n_features"])
    csr = csr_matrix(shape, dtype=np.float32)
    # The constructor would check every index and convert arrays of other index types.
    csr.data, csr.indices, csr.indptr = (mapped(folder / f"{array}.{name}.npy") for name in _CSR)
    csr.has_canonical_format = True
    return csr


def _read_only_rows(X: Any, rows: np.ndarray) -> Any:
    """A read-only copy of rows of an array; the memory maps are read-only, too."""
    part = X[rows]
    dense = isinstance(part, np.ndarray)
    for array in [part] if dense else [getattr(part, name) for name in _CSR]:
        array.flags.writeable = False
    return part


def save(path: Path, array: np.ndarray) -> None:
    """Write an array to an .npy file."""
    with ArrayWriter(path, array.shape, array.dtype) as writer:
        writer.write(array)
