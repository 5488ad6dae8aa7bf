"""Readers of arrays: pairs of .npy files, .npz archives and MATLAB files.

An .npz file holds `X` and `y`, or `X_train`, `y_train`, `X_test` and `y_test`; `source.arrays` says
which arrays are X and y if they have other names. X of a MATLAB file may be sparse. Rows with equal
numbers in an array `groups`, if there is one, stay on one side of a random split. A plain .npy file
is mapped and not loaded, so that it may be larger than memory.
"""

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import (
    FLOAT32_OVERFLOW,
    FORMATS,
    INFINITE_REMEDY,
    MISSING_REMEDY,
    PartRows,
    listed,
    parsing,
    place_in_file,
    require_present,
)
from kbench.data.formats.molecules import sorted_triangle
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError

_NPY = b"\x93NUMPY"
# Number of rows whose values are checked at a time: more take more memory, fewer cost more calls.
# Set by hand.
_CHECKED_ROWS = 4096
# Type of the placeholder for a struct of a MATLAB file, which is not read.
_STRUCT = np.dtype([("struct", object)])


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str
) -> dict[str, PartRows]:
    """Rows of each part; see `kbench.data.formats.read`."""
    options = source.get("arrays") or {}
    names = tuple(options.get(key) or key for key in ("X", "y", "groups"))
    sides: dict[str, tuple[Mapping[str, Any], tuple[str, ...], list[Path]]] = {}
    for part, paths in parts.items():
        if source["format"] == "npy":
            arrays = dict(zip(names[:2], map(npy, paths), strict=True))
        else:
            arrays = _mat(paths[0], names) if source["format"] == "mat" else _npz(paths[0])
        splits = FORMATS[source["format"]].splits
        if part == "all" and splits and f"{names[0]}_train" in arrays:
            for side in ("train", "test"):
                side_names = tuple(f"{name}_{side}" for name in names)
                sides[side] = arrays, side_names, paths
            continue
        if "known" in source and names[1] not in arrays and names[0] in arrays:
            # Rows for a trained model need no targets.
            arrays = arrays | {names[1]: np.full(arrays[names[0]].shape[:1], np.nan)}
        sides[part] = arrays, names, paths
    groups = [np.ravel(arrays[name]) for arrays, (*_, name), _ in sides.values() if name in arrays]
    # Equal groups of training and test rows get the same number.
    distinct = np.unique(np.concatenate(groups)) if groups else np.zeros(0)
    return {
        part: _part(arrays, names, source, paths, distinct)
        for part, (arrays, names, paths) in sides.items()
    }


def _part(
    arrays: Mapping[str, Any],
    names: tuple[str, ...],
    source: Mapping[str, Any],
    paths: list[Path],
    distinct: np.ndarray,
) -> PartRows:
    """Features, targets and groups from the arrays `names`.

    paths : Files of X and of y. distinct : The groups of all parts, sorted.
    """
    for name in names[:2]:
        if name not in arrays:
            key = "X" if name == names[0] else "y"
            remedy = f"dataset.source.arrays.{key}=NAME takes another"
            train_name = next((n for n in sorted(arrays) if n.endswith("_train")), None)
            if FORMATS[source["format"]].splits and train_name is not None:
                prefix = train_name.removesuffix("_train")
                remedy += f", as {prefix} for {prefix}_train and {prefix}_test"
                if f"{prefix}_test" not in arrays:
                    remedy = f"dataset.source.arrays.{key}={train_name} reads it alone; set X and y"
            if struct := next((n for n in sorted(arrays) if arrays[n].dtype == _STRUCT), None):
                remedy = _fields_remedy(struct)
            if {"indptr", "indices", "data"} <= set(arrays):
                remedy = (
                    "it is one sparse matrix, without targets: sklearn's dump_svmlight_file writes "
                    "both"
                )
            raise DataError(
                f"{paths[0]}: no array {name}, there is {listed(sorted(arrays))}; {remedy}"
            )
    X, y = arrays[names[0]], arrays[names[1]]
    for path, name, array in zip((paths[0], paths[-1]), names[:2], (X, y), strict=True):
        require_numbers(array, path, name)
    if not isinstance(X, np.ndarray):
        X = _as_csr(X, paths[0], names[0])
    if not isinstance(y, np.ndarray):  # a sparse vector
        y = y.toarray() if min(y.shape) == 1 else np.empty((0, 0))
    if y.ndim == 2 and min(y.shape) > 1:
        one_hot = np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all()
        remedy = ".argmax(axis=1) makes classes of columns" if one_hot else "[:, 0] is the first"
        raise DataError(
            f"{paths[-1]}: {names[1]} has shape {y.shape}, should be one target a row; "
            f"{names[1]}{remedy}"
        )
    y = np.ravel(y)
    matrices = (source.get("arrays") or {}).get("matrices")
    if matrices == "sorted_triangle":
        if X.ndim != 3 or X.shape[1] != X.shape[2]:
            raise DataError(
                f"{paths[0]}: {names[0]} has shape {X.shape}, should be (n, m, m), as "
                "dataset.source.arrays.matrices is sorted_triangle"
            )
        X = sorted_triangle(X.astype(np.float64))
    require_shapes(X, y, paths, names)
    require_present(y, place_in_file(paths[-1]), source)
    for begin in range(0, X.shape[0], _CHECKED_ROWS):
        rows = slice(begin, begin + _CHECKED_ROWS)
        # A row without a target is left out, so its numbers may be missing.
        no_target = None if "known" in source else np.isnan(y[rows].astype(np.float64))
        require_numbers_in(X[rows], place_in_file(paths[0], begin), source, no_target)
    group = (source.get("arrays") or {}).get("groups")
    if group and names[2] not in arrays and "known" not in source and names[2] != f"{group}_test":
        raise DataError(
            f"{paths[0]}: no array {names[2]}, which dataset.source.arrays.groups names; there is "
            f"{listed(sorted(arrays))}"
        )
    groups = _groups(arrays, names[2], X.shape[0], paths[0], distinct)
    notes = _note_unread(arrays, names) if source.get("kind") == "file" else ()
    if groups is not None and groups.min() < 0:
        n_single = np.count_nonzero(groups < 0)
        notes = (*notes, f"each of {n_single} rows without a group is a group of its own")
    return PartRows(
        X, y.astype(np.float64), None, place_in_file(paths[-1]), groups=groups, notes=notes
    )


def _groups(
    arrays: Mapping[str, Any], name: str, n: int, path: Path, distinct: np.ndarray
) -> np.ndarray | None:
    """(n,) place of each row's group in `distinct`; None if the file has no array `name`."""
    if name not in arrays:
        return None
    groups = np.ravel(arrays[name])
    if groups.shape != (n,):
        raise DataError(
            f"{path}: {name} has {groups.size} entries, should be {n}, one for each row"
        )
    numbers = np.searchsorted(distinct, groups.astype(distinct.dtype)).astype(np.int64)
    missing = np.isnan(groups) if groups.dtype.kind == "f" else np.zeros(n, dtype=bool)
    # A row without a group forms a group of its own, as in tables.
    return np.where(missing, -1 - np.arange(n), numbers)


def _note_unread(arrays: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """A note about arrays that are not read; empty if all are read."""
    # If a file holds training and test rows, the arrays of both are read.
    base = names[0].removesuffix("_train").removesuffix("_test")
    split = base != names[0] and f"{base}_test" in arrays
    bases = {name.removesuffix("_train").removesuffix("_test") for name in names}
    read = {f"{base}_{part}" for base in bases for part in ("train", "test")} if split else {*names}
    unread = sorted(set(arrays) - read)
    return (f"arrays of the file that are not used: {listed(unread)}",) if unread else ()


def _as_csr(X: Any, path: Path, name: str) -> Any:
    """A SciPy matrix of any sparse format as CSR, after a check of its indices.

    The indices of a damaged file may point outside the matrix, and SciPy's compiled conversion
    would access memory there.
    """
    with parsing(path, f"a MATLAB file whose sparse matrix {name} has indices within its shape"):
        if hasattr(X, "check_format"):
            X.check_format(full_check=True)
        csr = X.tocsr()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _fields_remedy(name: str) -> str:
    return f"in MATLAB, `save(FILE, '-struct', '{name}')` saves the fields of a struct as arrays"


def require_numbers(array: Any, path: Path, name: str) -> None:
    """Refuse an array that holds neither real numbers nor truth values."""
    if array.dtype.kind not in "fiub":
        remedy = {
            "U": f"; numpy.unique({name}, return_inverse=True)[1] are numbers of texts",
            "M": f"; {name}.astype('int64') makes numbers of dates",
            "m": f"; {name}.astype('int64') makes numbers of times",
            "V": f"; numpy.lib.recfunctions.structured_to_unstructured({name}) makes columns",
            "O": f"; in MATLAB, `[~, ~, {name}] = unique({name})` makes numbers of cells of texts",
        }
        remedy["S"] = remedy["U"]
        if array.dtype.hasobject and array.dtype.names:
            remedy["V"] = f"; {_fields_remedy(name)}"
        raise DataError(
            f"{path}: {name} is of type {array.dtype}, should be numbers"
            + remedy.get(array.dtype.kind, "")
        )


def require_shapes(X: Any, y: np.ndarray, paths: list[Path], names: tuple[str, ...]) -> None:
    """Refuse arrays that are not X : (n, d) and y : (n,) with n and d of at least 1."""
    if X.ndim != 2 or y.shape != X.shape[:1] or 0 in X.shape:
        files = " and ".join(dict.fromkeys(str(path) for path in paths))
        remedy = ""
        if X.ndim > 2:
            remedy = f"; {names[0]}.reshape(len({names[0]}), -1) makes rows of images"
        elif X.ndim == 1 and X.size == y.size:
            remedy = f"; {names[0]}.reshape(-1, 1) is one column"
        elif X.ndim == 2 and X.shape[1] == y.size:
            remedy = f"; {names[0]}.T has a row for each target"
        raise DataError(
            f"{files}: {names[0]} has shape {X.shape} and {names[1]} {y.shape}, should be (n, d) "
            f"and (n,){remedy}"
        )


def require_numbers_in(
    X: Any, where: Callable[[int], str], source: Mapping[str, Any], no_target: Any = None
) -> None:
    """Refuse numbers that are infinite in float32, and missing numbers unless they are allowed.

    X : (rows, d). source : As in `kbench.data.formats.read`. no_target : (rows,) bool, rows in
    which any number may be missing.
    """
    values = X if isinstance(X, np.ndarray) else X.data
    if values.dtype.kind != "f" or not values.size:
        return
    if -FLOAT32_OVERFLOW < float(values.min()) <= float(values.max()) < FLOAT32_OVERFLOW:
        return
    allowed = source.get("missing", "error") != "error"
    dense = (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
    may_lack = (
        np.full((len(dense), 1), allowed) if no_target is None else allowed | no_target[:, None]
    )
    wrong = np.argwhere(~(np.abs(dense) < FLOAT32_OVERFLOW) & ~(np.isnan(dense) & may_lack))
    if not wrong.size:
        return
    row, column = wrong[0]
    value = dense[row, column]
    remedy = MISSING_REMEDY if np.isnan(value) else INFINITE_REMEDY
    raise DataError(
        f"{where(int(row))}: column {column + 1} is {value:g}, should be a finite number; {remedy}"
    )


def npy(path: Path) -> np.ndarray:
    """The array of an .npy file: mapped if the file is not compressed, else read."""
    with parsing(path, "an .npy file of numbers"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy warns of files that Python 2 wrote
        with open(path, "rb") as raw:
            plain = raw.read(len(_NPY)) == _NPY
        if plain:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        array = np.load(io.BytesIO(read_bytes(path)), allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise DataError(f"{path}: an .npz archive, should be an .npy file of numbers")
        return array


def _npz(path: Path) -> dict[str, np.ndarray]:
    with parsing(path, "an .npz file of numbers"):
        # An .npz file is itself a zip archive, which `read_bytes` would decompress.
        opened = path if path.suffix == ".npz" else io.BytesIO(read_bytes(path))
        with np.load(opened, allow_pickle=False) as archive:
            return {name: _array_of_numbers(archive, name, path) for name in archive.files}


def _array_of_numbers(archive: Any, name: str, path: Path) -> np.ndarray:
    try:
        array: np.ndarray = archive[name]
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
        raise DataError(
            f"{path}: {name} holds Python objects, which are not unpickled, should be numbers; "
            f"{name}.astype(float) converts numbers, numpy.unique({name}.astype(str), "
            "return_inverse=True)[1] converts texts"
        ) from None
    return array


def _mat(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The variables `names` of a MATLAB file.

    If one of them is absent, the result also has an empty array for each other variable, so that
    errors can list all variables.
    """
    from scipy.io import loadmat, whosmat

    with parsing(path, "a MATLAB file of numbers, version 4, 6 or 7"), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # SciPy warns of content it may misread
        content = read_bytes(path)
        if content.startswith(b"MATLAB 7.3 "):
            raise DataError(
                f"{path}: a MATLAB file of version 7.3; in MATLAB, `save(FILE, 'X', 'y', '-v7')` "
                "writes a version that kbench reads"
            )
        arrays = loadmat(io.BytesIO(content), variable_names=names, spmatrix=False)
        variables = {name: array for name, array in arrays.items() if name in names}
        if len(variables) < len(names):
            for name, _, kind in whosmat(io.BytesIO(content)):
                variables.setdefault(name, np.zeros(0, _STRUCT if kind == "struct" else None))
        return variables
