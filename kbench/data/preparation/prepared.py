"""Prepared arrays on disk: written in blocks, opened as read-only memory maps.

A prepared folder holds `X_train`, `y_train`, `X_test`, `y_test` as .npy files (a CSR matrix as
three), the scaling of its columns and what fills missing numbers, the groups of training rows, if
there are any, and `meta.json`. It is made under another name and renamed, so
that a folder that can be opened is complete.
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

FORMAT = 3  # raised when the files of a prepared folder change their meaning
META = "meta.json"
SCALING = "scaling.npy"  # shift, factor and base : (3, d), where columns were scaled
FILL, INDICATED = "fill.npy", "indicated.npy"  # `Imputation`, where numbers are filled
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
        binary: int32 in {-1, +1}; outlier: likewise, -1 for outliers; multiclass: int32;
        regression: float64.
    n_classes : int or None
        None for regression.
    sha256 : str
        Checksum of the raw content.
    preparation : Preparation
        Prepares later rows in the same way.
    groups_train : ndarray of int64 or None, shape (n,)
        Training rows with equal numbers stay on one side of a random split.
    notes : tuple of str
        What was assumed of the files, left out, filled or rounded, one sentence each.
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
        """Training rows."""
        return int(self.X_train.shape[0])

    @property
    def n_test(self) -> int:
        """Test rows."""
        return int(self.X_test.shape[0])

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X_train.shape[1])


def open_prepared(path: str | Path, holdout: Mapping[str, Any] | None = None) -> Dataset:
    """Open what `prepare` wrote; reads headers only.

    Parameters
    ----------
    path : str or Path
    holdout : mapping, optional
        `holdout` of the data set's config: the training rows are divided again by `holdout_rows`
        and copied into memory. The files of the test rows are not opened.

    Raises
    ------
    DataError
        The folder is absent, or of another version of kbench.
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
        filled = [mapped(folder / name) for name in (FILL, INDICATED)] if meta["filled"] else None
        groups = mapped(folder / GROUPS) if meta["grouped"] else None
        preparation = Preparation.from_plain(meta | {"scaling": scaling, "imputation": filled})
    except (OSError, ValueError, KeyError, DataError) as error:
        raise DataError(
            f"{folder}: not a prepared data set ({error}); delete the folder, it is made again"
        ) from None
    if holdout:
        X, y = arrays["X_train"], arrays["y_train"]
        classes = meta["n_classes"] is not None
        divided = holdout_rows(y, holdout, classes=classes, groups=groups)
        groups = None if groups is None else groups[divided[0]]
        for part, rows in zip(("train", "test"), divided, strict=True):
            arrays |= {f"X_{part}": _rows(X, rows), f"y_{part}": _rows(y, rows)}
    fields = ("name", "variant", "task", "n_classes", "sha256")
    known = {name: meta[name] for name in fields}
    notes = tuple(meta["notes"])
    return Dataset(**known, **arrays, preparation=preparation, groups_train=groups, notes=notes)


def _open(folder: Path, part: str, meta: dict[str, Any]) -> Any:
    if meta["storage"] == "dense":
        return mapped(folder / f"{part}.npy")
    from scipy.sparse import csr_matrix

    shape = (meta["n_train" if part == "X_train" else "n_test"], meta["n_features"])
    csr = csr_matrix(shape, dtype=np.float32)
    # The constructor would check every index and convert arrays of other index types.
    csr.data, csr.indices, csr.indptr = (mapped(folder / f"{part}.{name}.npy") for name in _CSR)
    csr.has_canonical_format = True
    return csr


def _rows(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array, copied and read-only like the maps."""
    part = X[rows]
    dense = isinstance(part, np.ndarray)
    for array in [part] if dense else [getattr(part, name) for name in _CSR]:
        array.flags.writeable = False
    return part


def save(path: Path, array: np.ndarray) -> None:
    """A whole array as .npy file."""
    with ArrayWriter(path, array.shape, array.dtype) as out:
        out.write(array)
