"""Prepare the arrays of a data set: obtain, read, check facts, split, scale, write.

The name of a prepared folder is a hash of the content of the raw files and of every key of the
config on which the arrays depend. Two processes that prepare the same data set wait for each other;
if the file system has no locks, the first rename wins.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.configs.dataset import check_config, influence, target_scale, with_variant
from kbench.data.configs.own_file import complete, task_of
from kbench.data.preparation import prepared
from kbench.data.sources.array_file import ArrayWriter
from kbench.data.sources.content import cached_sha256, content_sha256
from kbench.data.sources.fetch import exclusive, fetch, missing_message, writable
from kbench.data.sources.folders import (
    FileStatus,
    Folders,
    absent_message,
    in_catalogue,
    is_file,
    locate,
)
from kbench.errors import ConfigError, DataError, DataNotFoundError, counted

# Keys of `source` by which later rows are read.
_INTERPRETATION = ("format", "columns", "arrays", "zero_based")

# `storage: auto` makes arrays of sparse rows dense if they have at most this number of columns and
# of bytes (2 GiB), or a fraction of nonzero entries above DENSE_DENSITY, where CSR (8 bytes per
# entry) saves less than half of the memory. Dense arrays suit more methods. Set by hand.
DENSE_COLUMNS, DENSE_BYTES, DENSE_DENSITY = 1024, 2 << 30, 0.25


def prepare(
    config: Mapping[str, Any],
    folders: Folders,
    *,
    download: bool = True,
    progress: bool | None = None,
    memory_mb: float | None = None,
) -> Path:
    """Prepare the arrays of a data set, unless they exist.

    Parameters
    ----------
    config : mapping
        The resolved config of the data set.
    folders : Folders
    download : bool
        Whether absent raw files are downloaded.
    progress : bool, optional
        Whether downloads show a progress bar; by default on a terminal.
    memory_mb : float, optional
        Memory, in MiB, for readers that run in a child process (`Format.guarded`); by default the
        machine's memory.

    Returns
    -------
    Path
        The prepared folder, for `open_prepared`.

    Raises
    ------
    ConfigError
        A key or value does not exist, or does not fit the data.
    DataNotFoundError
        A raw file is absent and cannot be fetched.
    DataError
        A raw file is malformed or not the one that the facts describe, or the folder cannot be
        written. No incomplete files are left.

    Notes
    -----
    O(bytes) time, once. Memory for LIBSVM text, uncompressed .npy files and tables of numbers (CSV,
    ARFF, Parquet) of any size: blocks of 32 MiB, about 40 bytes per row, and for Parquet a page and
    a dictionary of each column. During preparation the values are on disk, with 12 bytes each for
    LIBSVM text and 8 for tables. Tables with categories need memory for all values, and other
    formats for all values and the text. Generators need 8 bytes per row.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"config is {config!r}, should be a mapping of a data set's keys")
    if not isinstance(folders, Folders):
        raise ConfigError(
            f"folders is {folders!r}, should be Folders, such as Folders.from_environment()"
        )
    config = check_config(with_task(config, folders, download=download, progress=progress))
    split = config["split"]
    if split.get("repeats") or bool(split.get("folds")) != bool(split.get("fold")):
        raise ConfigError(
            "dataset.split asks for several splits, prepared data are of one: set "
            "dataset.split.folds with fold, and a seed in place of repeats"
        )
    files = obtain(config, folders, download=download, progress=progress)
    sha256 = _sha256(config, files, folders)
    dataset_folder = folders.prepared / config["name"]
    destination = dataset_folder / _key(config, sha256, files)
    if is_file(destination / prepared.META):
        return destination
    temporary = dataset_folder / f".{destination.name}.{os.getpid()}"
    with writable(dataset_folder), exclusive(dataset_folder) as locked:
        if locked:
            _remove_unfinished(dataset_folder)
        if not is_file(destination / prepared.META):
            temporary.mkdir()
            try:
                _build(temporary, config, files, sha256, memory_mb)
                if _sha256(config, files, folders) != sha256:
                    names = " or ".join(str(file.path) for file in files)
                    raise DataError(f"{names} changed while it was read; run the command again")
                _rename(temporary, destination)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    return destination


def remove_abandoned(config: Mapping[str, Any], folders: Folders) -> None:
    """Remove the folders that killed preparations of a data set left, unless one is in progress.

    `prepare` does the same before it begins; a parent calls this after a child was killed.
    """
    # Any task will do: without a task, `complete` would read the file.
    name = complete(with_variant(config) | {"task": "regression"})["name"]
    dataset_folder = folders.prepared / name
    with suppress(OSError), exclusive(dataset_folder, wait=False) as locked:
        if locked:
            _remove_unfinished(dataset_folder)


def _remove_unfinished(dataset_folder: Path) -> None:
    """Remove temporary folders; the caller holds the lock, so no other process uses them."""
    for folder in dataset_folder.glob(".*"):
        shutil.rmtree(folder, ignore_errors=True)


def with_task(
    config: Mapping[str, Any], folders: Folders, *, download: bool, progress: bool | None = None
) -> Mapping[str, Any]:
    """The config; an OpenML data set without a task gets the task that its targets suggest.

    Raises
    ------
    DataNotFoundError
        The table of the OpenML data set is absent and cannot or may not be downloaded.
    """
    if config.get("task") is not None or not in_catalogue(str(config.get("path"))):
        return config
    (file,) = obtain(complete(config), folders, download=download, progress=progress)
    assert file.path is not None
    task = task_of("parquet", {"all": [file.path]}, config["source"])
    return {**config, "task": task, "assumed": ["task"]}


def fingerprint(config: Mapping[str, Any], folders: Folders) -> str:
    """The checksum `data_sha256` that identifies the raw content of a data set.

    The checksum of one raw file is the sha256 of its decompressed bytes; of several files it is the
    sha256 of their concatenated hexadecimal checksums; of a generator it is the sha256 of name,
    version and parameters. Checksums of files are cached.

    Raises
    ------
    DataNotFoundError
        A raw file is absent.
    """
    config = with_variant(config)
    return _sha256(config, _present(config, folders), folders)


@dataclass(frozen=True)
class DatasetStatus:
    """Which files of a data set are present.

    Attributes
    ----------
    name, task : str
    present : bool
        Whether every raw file is present, so that no download is needed.
    files : tuple of FileStatus
    prepared : Path or None
        The prepared folder of this config, if it exists.
    """

    name: str
    task: str
    present: bool
    files: tuple[FileStatus, ...]
    prepared: Path | None


def status(config: Mapping[str, Any], folders: Folders) -> DatasetStatus:
    """Which files of a data set are present; reads and hashes no data."""
    config = with_variant(config)
    files = locate(config, folders)
    present = all(f.path is not None for f in files)
    folder = None
    if present:
        cache = _checksum_cache(folders)
        checksums = [cached_sha256(f.path, cache) for f in files if f.path is not None]
        if None not in checksums:
            sha256 = _sha256(config, files, folders)
            destination = folders.prepared / config["name"] / _key(config, sha256, files)
            folder = destination if is_file(destination / prepared.META) else None
    return DatasetStatus(config["name"], config["task"], present, tuple(files), folder)


def obtain(
    config: Mapping[str, Any], folders: Folders, *, download: bool, progress: bool | None
) -> list[FileStatus]:
    """The raw files of a checked config; absent files are downloaded if `download` is true."""
    if not download:
        return _present(config, folders)
    return [
        f if f.path or f.url is None else replace(f, path=fetch(f, folders, progress=progress))
        for f in _present(config, folders, but_fetchable=True)
    ]


def _present(
    config: Mapping[str, Any], folders: Folders, *, but_fetchable: bool = False
) -> list[FileStatus]:
    """The raw files; DataNotFoundError if one is absent (`but_fetchable`: and has no URL)."""
    files = locate(config, folders)
    for file in files:
        if file.rival is not None:
            raise DataError(
                f"{config['name']}: there are {file.path} and {file.rival}; the right one "
                f"should be in a folder called {config['name']}"
            )
        if file.path is not None or (but_fetchable and file.url is not None):
            continue
        kind = config["source"]["kind"]
        if kind == "file" and file.url is None:
            key = "test_path" if file.role == "test" else "path"
            raise DataNotFoundError(f"dataset.{key}: {absent_message(Path(file.candidates[0]))}")
        if kind == "sklearn":
            raise DataNotFoundError(
                f"{config['name']}: the installed scikit-learn has no file {file.name}; "
                f"looked for {' and '.join(file.candidates) or 'scikit-learn itself'}"
            )
        raise DataNotFoundError(f"{config['name']}: {missing_message(file, folders)}")
    return files


def _checksum_cache(folders: Folders) -> Path:
    return folders.prepared / "checksums.json"


def _sha256(config: Mapping[str, Any], files: list[FileStatus], folders: Folders) -> str:
    if config["source"]["kind"] == "generator":
        from kbench.data.preparation.obtain import generator

        return generator(config).fingerprint(config["n"], config["n_test"])
    checksums = [
        content_sha256(f.path, _checksum_cache(folders)) for f in files if f.path is not None
    ]
    return (
        checksums[0]
        if len(checksums) == 1
        else hashlib.sha256("".join(checksums).encode()).hexdigest()
    )


def _key(config: Mapping[str, Any], sha256: str, files: list[FileStatus]) -> str:
    key_parts = influence(config)
    key_parts.pop("holdout", None)  # applied to the arrays when they are opened
    key_parts["sha256"] = sha256
    key_parts["files"] = [[f.role, f.sample] for f in files]
    if config.get("assumed"):  # the notes say so
        key_parts["assumed"] = config["assumed"]
    key_parts["format"] = prepared.FORMAT
    text = json.dumps(key_parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]  # 96 bits: no equal names by chance


def _shared_groups(train: np.ndarray | None, test: np.ndarray | None) -> str | None:
    """A note about groups with rows on both sides, as given test rows may have; None without any.

    train, test : (n,), (u,) numbers of the groups; negative ones are of a single row
    """
    if train is None or test is None:
        return None
    shared = test[np.isin(test, train) & (test >= 0)]
    if not shared.size:
        return None
    groups = counted(len(np.unique(shared)), "group")
    return (
        f"training rows have groups of test rows, too: {groups}, in {shared.size} of {len(test)} "
        "test rows"
    )


def _rename(temporary: Path, destination: Path) -> None:
    try:
        os.rename(temporary, destination)
    except OSError:
        if not is_file(destination / prepared.META):
            shutil.rmtree(destination)  # META is written last, so the folder is incomplete
            os.rename(temporary, destination)


def _build(
    folder: Path,
    config: Mapping[str, Any],
    files: list[FileStatus],
    sha256: str,
    memory_mb: float | None,
) -> None:
    """Write every file of a prepared folder."""
    from kbench.data.preparation import obtain as loading
    from kbench.data.preparation import scaling, target
    from kbench.data.preparation.precision import merged_columns, whole_and_huge

    scratch = folder / "scratch"
    loaded = loading.load(config, files, scratch, memory_mb)
    train, test, imputation = loaded.train, loaded.test, loaded.imputation
    notes = list(loaded.notes)
    dense = _is_dense(config, train, test)
    kind = config.get("scale") or "none"
    fitted_on = [train, test] if config.get("scale_over") == "all" else [train]
    column_scaling = scaling.fit_scaling(kind, fitted_on)
    if column_scaling is None and len(fitted_on) > 1:
        notes.append("dataset.scale_over is all, but dataset.scale is none: no column is scaled")
    if column_scaling is not None and not dense:
        column_scaling.require_zeros(kind)
    n_train = min(config.get("first_train") or train.n, train.n)
    n_test = min(config.get("first_test") or test.n, test.n)
    for part, rows in (("train", train), ("test", test)):
        if (first_rows := config.get(f"first_{part}") or 0) > rows.n:
            notes.append(f"dataset.first_{part} is {first_rows}, there are {rows.n} such rows")
    if merged_note := merged_columns(train, column_scaling, loading.column_names(loaded.layout)):
        notes.append(merged_note)
    write = _write_dense if dense else _write_csr
    write(folder, "X_train", train, n_train, column_scaling)
    write(folder, "X_test", test, n_test, column_scaling)
    # Targets are written after features, because a generator makes them in a pass over the rows.
    rule = {**loaded.rule, "scale": target_scale(config)}
    targets, n_classes = target.learn(config["task"], train.y, test.y, rule, loaded.labels)
    y_train, y_test = targets.encode(train.y)[:n_train], targets.encode(test.y)[:n_test]
    prepared.save(folder / "y_train.npy", y_train)
    prepared.save(folder / "y_test.npy", y_test)
    if n_classes and (classes_note := targets.unseen_classes(y_train, y_test)):
        notes.append(classes_note)
    if not n_classes and whole_and_huge(train.y):
        notes.append("targets are whole numbers from 2^53 on, which float64 rounds")
    if column_scaling is not None:
        parts = (column_scaling.shift, column_scaling.factor, column_scaling.base)
        prepared.save(folder / prepared.SCALING, np.stack(parts))
    if imputation is not None:
        prepared.save(folder / prepared.FILL, imputation.fill)
        prepared.save(folder / prepared.INDICATED, imputation.indicated)
    if groups_note := _shared_groups(train.groups, test.groups):
        notes.append(groups_note)
    grouped = train.groups is not None and (config.get("split") or {}).get("group") is not False
    if grouped and train.groups is not None:
        prepared.save(folder / prepared.GROUPS, train.groups[:n_train])
    source = {k: v for k, v in config["source"].items() if k in _INTERPRETATION}
    if loaded.zero_based is not None:
        source["zero_based"] = loaded.zero_based
    meta = {
        "format": prepared.FORMAT,
        "name": config["name"],
        "variant": config.get("variant"),
        "task": config["task"],
        "n_classes": n_classes,
        "sha256": sha256,
        "storage": "dense" if dense else "csr",
        "n_train": n_train,
        "n_test": n_test,
        "n_features": train.d,
        "target": asdict(targets),
        "scaled": column_scaling is not None,
        "filled": imputation is not None,
        "grouped": grouped,
        "source": source,
        "layout": loaded.layout,
        "notes": notes,
    }
    shutil.rmtree(scratch, ignore_errors=True)
    (folder / prepared.META).write_text(json.dumps(meta, indent=1))


def _is_dense(config: Mapping[str, Any], train: Any, test: Any) -> bool:
    from kbench.data.sources.rows import SparseRows

    storage = config.get("storage") or "auto"
    if not isinstance(train, SparseRows):
        if storage == "csr":
            raise ConfigError(
                f"dataset.storage is csr, but {config['name']} is dense: auto or dense"
            )
        return True
    if storage != "auto":
        return bool(storage == "dense")
    narrow = train.d <= DENSE_COLUMNS and 4 * train.d * (train.n + test.n) <= DENSE_BYTES
    return narrow or train.density > DENSE_DENSITY


def _write_dense(folder: Path, name: str, rows: Any, n: int, scaling: Any) -> None:
    """Write the first n rows, scaled unless `scaling` is None."""
    with ArrayWriter(folder / f"{name}.npy", (n, rows.d), np.float32) as writer:
        n_left = n
        for X in rows.blocks():
            block = X[:n_left]
            writer.write(block if scaling is None else scaling.apply(block))
            n_left -= block.shape[0]
            if n_left == 0:
                break


def _write_csr(folder: Path, name: str, rows: Any, n: int, scaling: Any) -> None:
    """Write the first n rows; `scaling` is None or leaves zeros unchanged."""
    rows = rows.take(np.arange(n))
    nnz = rows.nnz
    index_dtype = np.int32 if nnz <= np.iinfo(np.int32).max else np.int64
    with (
        ArrayWriter(folder / f"{name}.data.npy", (nnz,), np.float32) as data,
        ArrayWriter(folder / f"{name}.indices.npy", (nnz,), np.int32) as indices,
        ArrayWriter(folder / f"{name}.indptr.npy", (n + 1,), index_dtype) as indptr,
    ):
        indptr.write(np.zeros(1))
        n_written = 0
        for csr in rows.csr_blocks():
            data.write(csr.data if scaling is None else csr.data * scaling.factor[csr.indices])
            indices.write(csr.indices)
            indptr.write(csr.indptr[1:].astype(np.int64) + n_written)
            n_written += csr.nnz
