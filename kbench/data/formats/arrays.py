"""Arrays as they are: .npy pairs, .npz archives and MATLAB files.

An .npz holds `X` and `y`, or `X_train`, `y_train`, `X_test` and `y_test`; a plain .npy is mapped
and not loaded, so that it may be larger than memory. `source.arrays` says which variables of a
MATLAB file are X and y.
"""

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.content import read as read_bytes
from kbench.data.formats import Part, row_of
from kbench.data.formats.molecules import sorted_triangle
from kbench.errors import DataError

_NPY = b"\x93NUMPY"
_PARTS = ("train", "test")
_CHECKED_ROWS = 4096
_LIMIT = 2.0**128 - 2.0**103  # from here on rounding to float32 gives inf


def read(parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str) -> dict[str, Part]:
    """Rows of each part; see `kbench.data.formats.read`."""
    options = source.get("arrays") or {}
    found: dict[str, Part] = {}
    for part, paths in parts.items():
        if source["format"] == "npy":
            arrays = {"X": npy(paths[0]), "y": npy(paths[1])}
        else:
            arrays = (_mat if source["format"] == "mat" else _npz)(paths[0])
        if part == "all" and "X_train" in arrays:
            for own in _PARTS:
                found[own] = _part(arrays, {"X": f"X_{own}", "y": f"y_{own}"}, paths[0])
        else:
            found[part] = _part(_with_targets(arrays, options, source), options, paths[0])
    return found


def _with_targets(
    arrays: dict[str, np.ndarray], options: Mapping[str, Any], source: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """The arrays; further rows for a model (`source.known`) may lack targets, which become 0."""
    X, y = (options.get(key) or key for key in ("X", "y"))
    if "known" not in source or y in arrays or X not in arrays:
        return arrays
    return arrays | {y: np.zeros(len(arrays[X]))}


def _part(arrays: Mapping[str, np.ndarray], options: Mapping[str, Any], path: Path) -> Part:
    names = [options.get(key) or key for key in ("X", "y")]
    for name in names:
        if name not in arrays:
            shown = ", ".join(sorted(arrays)) or "nothing"
            raise DataError(f"{path}: no array {name}, there is {shown}")
    X, y = arrays[names[0]], np.ravel(arrays[names[1]])
    if X.ndim == 3 and options.get("matrices") == "sorted_triangle" and X.shape[1] == X.shape[2]:
        X = sorted_triangle(X.astype(np.float64))
    for name, array in zip(names, (X, y), strict=True):
        if array.dtype.kind not in "fiub":
            raise DataError(f"{path}: {name} is of type {array.dtype}, should be numbers")
    if X.ndim != 2 or X.shape[0] != y.size or not X.size:
        raise DataError(
            f"{path}: {names[0]} has shape {X.shape} and {names[1]} {y.shape}, should be (n, d) "
            "and (n,)"
        )
    require_finite_targets(y, row_of(path))
    for begin in range(0, X.shape[0], _CHECKED_ROWS):
        require_finite(X[begin : begin + _CHECKED_ROWS], row_of(path, begin))
    return Part(X, y.astype(np.float64), None, row_of(path))


def require_finite(X: np.ndarray, where: Callable[[int], str]) -> None:
    """Refuse rows with a number that float32 does not hold; X : (rows, d)."""
    if X.dtype.kind != "f" or -_LIMIT < float(X.min()) <= float(X.max()) < _LIMIT:
        return
    row, column = np.argwhere(~(np.abs(X.astype(np.float64)) < _LIMIT))[0]
    raise DataError(
        f"{where(int(row))}: column {column + 1} is {X[row, column]}, should be a finite number"
    )


def require_finite_targets(y: np.ndarray, where: Callable[[int], str]) -> None:
    """Refuse a target that is missing or infinite; y : (rows,)."""
    odd = np.flatnonzero(~np.isfinite(y))
    if odd.size:
        raise DataError(f"{where(int(odd[0]))}: target {y[odd[0]]}, should be a finite number")


def npy(path: Path) -> np.ndarray:
    """The array of an .npy file: mapped where the file is plain, else read."""
    try:
        with open(path, "rb") as raw:
            plain = raw.read(len(_NPY)) == _NPY
        if plain:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        return np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise _damaged(path, "npy", error) from None


def _npz(path: Path) -> dict[str, np.ndarray]:
    # As it lies there where it can be: an .npz is itself a zip archive.
    opened = path if path.suffix == ".npz" else io.BytesIO(read_bytes(path))
    try:
        with np.load(opened, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise _damaged(path, "npz", error) from None


def _mat(path: Path) -> dict[str, np.ndarray]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        arrays = loadmat(io.BytesIO(read_bytes(path)))
    except (MatReadError, ValueError, TypeError, NotImplementedError, OSError) as error:
        raise _damaged(path, "MATLAB", error) from None
    return {name: array for name, array in arrays.items() if not name.startswith("__")}


def _damaged(path: Path, form: str, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{path}: no {form} file of numbers, or damaged ({reason})")
