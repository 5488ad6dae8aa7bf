"""Read raw rows for a trained model in the same way as its training file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.configs.dataset import check_config, with_variant
from kbench.data.configs.keys import CSV_KEYS
from kbench.data.configs.own_file import complete, format_by_suffix
from kbench.data.formats import FORMATS, MISSING_REMEDY, listed
from kbench.data.preparation import obtain as loading
from kbench.data.preparation.application import Preparation
from kbench.data.preparation.imputation import rows_with_missing
from kbench.data.preparation.prepare import fingerprint, obtain
from kbench.data.sources.folders import Folders
from kbench.data.sources.rows import Rows, join
from kbench.errors import ConfigError, DataError, counted

_NO_IMPUTATION_REMEDY = (
    "the model was trained without missing numbers; a model trained with "
    "dataset.missing=mean, median or indicator fills them"
)


def _merge_options(
    trained: Mapping[str, Any], source: Mapping[str, Any], name: str
) -> dict[str, Any]:
    """`columns` and `arrays` of the training, overridden by the command for later rows.

    A column is dropped if the training or the command drops it. Places of columns are those of the
    training file, whose layout names the columns that it left out.

    name : The format of the later rows
    """
    options: dict[str, Any] = {}
    for options_key in ("columns", "arrays"):
        old, new = trained.get(options_key) or {}, source.get(options_key) or {}
        new = {key: value for key, value in new.items() if value not in (None, [], "error")}
        if name != "csv":
            old = {k: v for k, v in old.items() if f"source.{options_key}.{k}" not in CSV_KEYS}
        options[options_key] = {**old, **new}
    options["columns"]["drop"] = [
        *(c for c in (trained.get("columns") or {}).get("drop") or [] if isinstance(c, str)),
        *((source.get("columns") or {}).get("drop") or []),
    ]
    return options


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
        The preparation of the training data. Columns of a table are matched by name and encoded
        with its categories.
    scratch : Path
        A folder for arrays that may be larger than memory; made if needed, deleted by the caller
        when the rows are no longer used.
    download : bool
        Whether absent files of a data set are downloaded.
    own_source : bool
        Whether `config` may set a format of another kind than the training file's.
    trained_on : str, optional
        `data_sha256` of the training. If the file is the training file, a note says so.

    Raises
    ------
    ConfigError, DataError
        As in `kbench.data.prepare`; or the rows lack a column of the training file, or have a
        column or category that it lacks.
    """
    target, config = preparation.target, with_variant(config)
    task = target.task
    request = {**config, "task": task if config.get("task") is None else config["task"]}
    source = dict(config["source"])
    is_file = source["kind"] == "file"
    trained = preparation.source
    name = trained.get("format")
    new_format = source.get("format") or format_by_suffix(str(config.get("path")))
    # If the training data had no format (a bundled data set), the format of the new file counts.
    if is_file and name is not None and not (FORMATS[name].pieces or FORMATS[name].splits):
        # A format that does not exist is refused with the other keys.
        alike = new_format not in FORMATS or FORMATS[new_format].options == FORMATS[name].options
        if alike:  # CSV, Parquet and ARFF are alike, because columns are matched by name
            name = new_format or name
            source |= {**trained, **_merge_options(trained, source, name), "format": name}
        elif not own_source:
            raise DataError(
                f"dataset.path={config['path']} is a {new_format} file, the model was trained on "
                f"{name}; should be rows of the same kind, or dataset.source.format=... reads them"
            )
    request = complete({**request, "source": source})
    source = dict(request["source"])
    name = source.get("format") or "libsvm"
    if name == "libsvm" and is_file and source.get("zero_based") is None:
        source["zero_based"] = preparation.source.get("zero_based")
    request["source"] = dict(source)
    source |= {
        "known": {"layout": preparation.layout, "labels": preparation.target.texts},
        "missing": "error" if preparation.imputation is None else "filled",
        "missing_target": "drop",
    }
    if name == "libsvm" and is_file:
        imputation = preparation.imputation
        width = preparation.n_features if imputation is None else imputation.fill.size
        request["n_features"] = width
    if request["task"] == task == "outlier" and not (request.get("target") or {}).get("outlier"):
        outlier = [label for label in target.labels if label not in target.positive]
        texts = outlier if target.texts is None else [target.texts[int(k)] for k in outlier]
        request["target"] = {**(request.get("target") or {}), "outlier": texts}
    if request["task"] != task:
        raise ConfigError(f"dataset.task is {request['task']}, the model's is {task}")
    if request.get("holdout"):
        raise ConfigError("dataset.holdout divides training rows, a kept model takes test rows")
    checked = check_config(request)
    files = obtain(checked, folders, download=download, progress=None)
    checked["source"] = source
    if preparation.imputation is not None:
        checked["missing"] = None  # the model's imputation fills missing numbers
    if is_file:
        try:
            raw = loading.read_parts(checked, files, scratch)
        except DataError as error:
            raise DataError(str(error).replace(MISSING_REMEDY, _NO_IMPUTATION_REMEDY)) from None
        rows: Rows = join(raw.parts)
        rows.notes = raw.notes
        if trained_on is not None and fingerprint(checked, folders) == trained_on:
            rows.notes += (
                "the model was trained on rows of this file: its scores say nothing about new rows",
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
        rows = loading.load(checked, files, scratch).test
    n_missing = 0 if preparation.imputation is None else int(rows_with_missing(rows).sum())
    if n_missing:
        note = f"missing numbers in {counted(n_missing, 'row')} are filled"
        rows.notes = (*rows.notes, f"{note} with what the model learnt from its training rows")
    return rows
