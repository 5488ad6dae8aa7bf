"""Raw rows for a trained model, read in the same way as its training file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.configs.dataset import check_config, with_variant
from kbench.data.configs.own_file import complete, format_by_suffix
from kbench.data.formats import FORMATS, MISSING_REMEDY, listed
from kbench.data.preparation import obtain as sources
from kbench.data.preparation.application import Preparation
from kbench.data.preparation.imputation import rows_with_missing
from kbench.data.preparation.prepare import fingerprint, obtain
from kbench.data.sources.folders import Folders
from kbench.data.sources.rows import Rows, join
from kbench.errors import ConfigError, DataError, counted

_TRAINED_WITHOUT = (
    "the model was trained without missing numbers; one that is trained with "
    "dataset.missing=mean, median or indicator fills them"
)


def _merged(trained: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """`columns` and `arrays` of the training with what a command says of later rows.

    Columns that either leaves out are left out.
    """
    merged: dict[str, Any] = {}
    for group in ("columns", "arrays"):
        before, now = trained.get(group) or {}, source.get(group) or {}
        now = {key: value for key, value in now.items() if value not in (None, [], "error")}
        merged[group] = {**before, **now}
    merged["columns"]["drop"] = [
        *((trained.get("columns") or {}).get("drop") or []),
        *((source.get("columns") or {}).get("drop") or []),
    ]
    return merged


def read_rows(
    config: Mapping[str, Any],
    folders: Folders,
    preparation: Preparation,
    scratch: Path,
    *,
    download: bool = True,
    own_source: bool = False,
    trained_on: str | None = None,
) -> Rows:
    """Raw rows for a trained model: all rows of a file, or the test rows of a named data set.

    Parameters
    ----------
    config : mapping
        The resolved config of a data set; source kind `file` for a file of the user.
    folders : Folders
    preparation : Preparation
        That of the data set on which the model was trained. Columns of a table are matched by name
        and encoded with its categories.
    scratch : Path
        A folder for arrays that may be larger than memory. It is made if it is needed; the caller
        deletes it when the rows are no longer used.
    download : bool
    own_source : bool
        Whether `config` says that a file is of another kind than the training file. What it says
        of columns is added to what was said of the training file's columns.
    trained_on : str, optional
        `data_sha256` of the training: a note says that a file of the user is the training file.

    Raises
    ------
    ConfigError, DataError
        As in `kbench.data.prepare`; or a column or category that the training file lacks.
    """
    target, config = preparation.target, with_variant(config)
    task = target.task
    merged = {**config, "task": task if config.get("task") is None else config["task"]}
    source = dict(config["source"])
    single = source["kind"] == "file"
    trained = preparation.source
    name = trained.get("format")
    kind = source.get("format") or format_by_suffix(str(config.get("path")))
    # Without a format, as of a bundled data set, the new file decides.
    if single and name is not None and not (FORMATS[name].pieces or FORMATS[name].splits):
        alike = kind is None or FORMATS[kind].options == FORMATS[name].options
        if alike:  # a table is read by the names of its columns, whatever file holds it
            source |= {**trained, **_merged(trained, source), "format": kind or name}
        elif not own_source:
            raise DataError(
                f"dataset.path={config['path']} is a {kind} file, the model was trained on {name}; "
                "should be rows of the same kind, or dataset.source.format=... reads them"
            )
    merged = complete({**merged, "source": source})
    source = dict(merged["source"])
    name = source.get("format") or "libsvm"
    if name == "libsvm" and single and source.get("zero_based") is None:
        source["zero_based"] = preparation.source.get("zero_based")
    merged["source"] = dict(source)
    source |= {
        "known": {"layout": preparation.layout, "labels": preparation.target.texts},
        "missing": "error" if preparation.imputation is None else "filled",
        "missing_target": "drop",
    }
    if name == "libsvm" and single:
        filled = preparation.imputation
        merged["n_features"] = preparation.n_features if filled is None else filled.fill.size
    if merged["task"] == task == "outlier" and not (merged.get("target") or {}).get("outlier"):
        outlier = [label for label in target.labels if label not in target.positive]
        named = outlier if target.texts is None else [target.texts[int(k)] for k in outlier]
        merged["target"] = {**(merged.get("target") or {}), "outlier": named}
    if merged["task"] != task:
        raise ConfigError(f"dataset.task is {merged['task']}, the model's is {task}")
    if merged.get("holdout"):
        raise ConfigError("dataset.holdout divides training rows, a kept model takes test rows")
    checked = check_config(merged)
    files = obtain(checked, folders, download=download, progress=None)
    checked["source"] = source
    if preparation.imputation is not None:
        checked["missing"] = None  # the model fills them, with what it learnt
    if single:
        try:
            raw = sources.read_parts(checked, files, scratch)
        except DataError as error:
            raise DataError(str(error).replace(MISSING_REMEDY, _TRAINED_WITHOUT)) from None
        rows: Rows = join(raw.parts)
        rows.notes = raw.notes
        if trained_on is not None and fingerprint(checked, folders) == trained_on:
            rows.notes += (
                "the model was trained on rows of this file: scores of them say nothing of others",
            )
        if raw.layout is not None and preparation.layout is None:
            columns = listed(raw.layout["columns"])
            rows.notes += (
                f"the columns are taken in their order, as the model knows no names: {columns}",
            )
        rows.has_targets = name != "libsvm" or bool(np.any(rows.y))
        if rows.has_targets and (line := target.unknown_labels(rows.y, raw.labels or ())):
            rows.notes += (line,)
    else:
        rows = sources.load(checked, files, scratch).test
    n_missing = 0 if preparation.imputation is None else int(rows_with_missing(rows).sum())
    if n_missing:
        note = f"missing numbers in {counted(n_missing, 'row')} are filled"
        rows.notes = (*rows.notes, f"{note} with what the model learnt of its training rows")
    return rows
