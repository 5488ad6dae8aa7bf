"""The row of a run, as an explicit and versioned Arrow schema.

A row is a flat mapping from column to value. Every attempt gets a row, also a failed one. A value
that was not measured is null, never 0. Files of older schema versions stay readable: columns that
such files lack are null. Unknown columns in files of newer versions are ignored.

Functions import pyarrow, so that the command line starts without it.
"""

import datetime
import functools
import json
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kbench.errors import first_line

if TYPE_CHECKING:
    import pyarrow as pa

# Version of the columns. Raise it when a column is added or changes its meaning.
SCHEMA_VERSION = 10

# Beginning of the message of a run with status ok whose model could not be stored.
NOT_KEPT = "the model was not kept"

STATUSES = ("ok", "timeout", "memory", "error", "crashed", "interrupted", "unavailable")

# Column that readers add to rows: "own" or "reference". A copy that a user wrote may have it.
ORIGIN = "origin"

# Two rows with equal values in these columns are attempts of one run.
RUN = ("key", "environment", "threads")
# If two rows have equal values in these columns, the newer one replaces the older one.
IDENTITY = (*RUN, "attempt")

# Columns that every file of rows has, in every schema version.
_IN_EVERY_FILE = (*RUN, "status")
# Columns that have a value in every row.
_NEVER_NULL = (*_IN_EVERY_FILE, "method", "dataset")

# Methods whose `n_parameters` before schema version 10 is today's `kernel_numbers`.
_METHODS_WITH_MATRIX_COUNT = (
    *("bka", "block_spectra", "dckrr", "ensemble_nystrom", "fastfood", "kmeans_nystrom", "krr"),
    *("meka", "meka_galerkin", "meka_psd", "nystrom", "randomized_nystrom", "rks", "svd"),
)

# Statuses that say nothing about the method: the next attempt of the run replaces such a row.
WITHOUT_OUTCOME = ("interrupted", "unavailable")

# Column -> name of its Arrow type, in the order of the file.
_COLUMNS: dict[str, str] = {
    "key": "string",
    "attempt": "int64",
    "status": "string",
    "message": "string",
    "method": "string",
    "method_version": "int64",
    "dataset": "string",
    "variant": "string",
    "experiment": "string",
    "tag": "string",
    "seed": "int64",
    "task": "string",
    "n_train": "int64",
    "n_test": "int64",
    "n_features": "int64",
    "n_classes": "int64",
    "density": "double",
    "data_sha256": "string",
    "preset": "string",
    "params": "string",
    "tuned": "string",
    "tuned_sha256": "string",
    "accuracy": "double",
    "error": "double",
    "balanced_accuracy": "double",
    "f1": "double",
    "roc_auc": "double",
    "average_precision": "double",
    "rmse": "double",
    "mae": "double",
    "r2": "double",
    "pinball": "double",
    "coverage": "double",
    "scores": "map<string, double>",
    "kernel_error": "double",
    "objective": "double",
    "duality_gap": "double",
    "n_support": "int64",
    "n_iter": "int64",
    "converged": "bool",
    "kernel_entries": "int64",
    "kernel_numbers": "int64",
    "fit_wall_s": "double",
    "fit_cpu_s": "double",
    "predict_wall_s": "double",
    "predict_cpu_s": "double",
    "preempted": "int64",
    "other_cpus": "double",
    "load_s": "double",
    "warmup_s": "double",
    "phases": "map<string, double>",
    "phases_cpu": "map<string, double>",
    "prediction_cost": "double",
    "prediction_cost_loop": "double",
    "prediction_flops": "double",
    "model_bytes": "int64",
    "model": "string",
    "n_parameters": "int64",
    "peak_bytes": "int64",
    "threads": "int64",
    "jobs": "int64",
    "environment": "string",
    "kbench_version": "string",
    "commit": "string",
    "dirty": "bool",
    "source_sha256": "string",
    "started_at": "timestamp[us, tz=UTC]",
    "command": "string",
    "log": "string",
    "schema_version": "int64",
}


class ForeignFileError(Exception):
    """A Parquet file holds no rows of kbench; the text of the exception gives the reason."""


@functools.cache
def schema() -> "pa.Schema":
    """The Arrow schema of a results file of this version."""
    import pyarrow as pa

    arrow_types = {
        "map<string, double>": pa.map_(pa.string(), pa.float64()),
        "timestamp[us, tz=UTC]": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema(
        [(name, arrow_types.get(type_name, type_name)) for name, type_name in _COLUMNS.items()]
    )


def to_table(row: Mapping[str, Any]) -> "pa.Table":
    """One row as an Arrow table; columns that `row` lacks are null, but `attempt` is then 1.

    Values of map columns are mappings from names to numbers, `params` is JSON text with sorted
    keys, and times are datetimes with a time zone.

    Raises ValueError: a column does not exist, a required one is null, or a status is unknown.
    Raises TypeError: a value has the wrong type; the message names the column.
    """
    import pyarrow as pa

    _check(row)
    complete = {**row, "attempt": row.get("attempt") or 1, "schema_version": SCHEMA_VERSION}
    arrays = [_array(field, complete.get(field.name)) for field in schema()]
    return pa.Table.from_arrays(arrays, schema=schema())


def _check(row: Mapping[str, Any]) -> None:
    if unknown := sorted(set(row) - set(_COLUMNS)):
        raise ValueError(f"results have no column {unknown[0]!r}; columns: {', '.join(_COLUMNS)}")
    for name in _NEVER_NULL:
        if row.get(name) is None:
            raise ValueError(f"column {name!r} of a row must not be null")
    if row["status"] not in STATUSES:
        raise ValueError(f"column 'status': found {row['status']!r}, not of {', '.join(STATUSES)}")
    for name in ("key", "environment"):  # parts of a file name
        if not re.fullmatch(r"[A-Za-z0-9]+", str(row[name])):
            raise ValueError(
                f"column {name!r}: found {row[name]!r}, letters and digits are allowed"
            )
    if row.get("params") is not None:
        params = _json_mapping(row["params"])
        if params is None or list(params) != sorted(params):
            raise ValueError("column 'params' must be the JSON text of an object with sorted keys")


def _json_mapping(text: Any) -> dict[str, Any] | None:
    """The content of a JSON text; None if it is not a mapping."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


# Name of an Arrow type -> whether a Python value fits it. Arrow itself would truncate 1.5 to an
# integer and accept True as 1.
_FITS_TYPE: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "int64": lambda value: isinstance(value, numbers.Integral) and not isinstance(value, bool),
    "double": lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool",
    "map<string, double>": lambda value: isinstance(value, Mapping),
    "timestamp[us, tz=UTC]": lambda value: (
        isinstance(value, datetime.datetime) and value.tzinfo is not None
    ),
}


def _array(field: "pa.Field", value: Any) -> "pa.Array":
    import pyarrow as pa

    if value is not None and not _FITS_TYPE[_COLUMNS[field.name]](value):
        raise TypeError(f"column {field.name!r} is {field.type}, found {value!r}")
    try:
        entry = sorted(value.items()) if isinstance(value, Mapping) else value
        return pa.array([entry], type=field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as exc:
        raise TypeError(f"column {field.name!r} is {field.type}, found {value!r}") from exc


def conform(table: "pa.Table", columns: Iterable[str] | None = None) -> "pa.Table":
    """`table` with the columns of this version: unknown columns are dropped, missing ones null.

    Rows of older versions, which lack `attempt`, are the first attempts of their runs.

    Raises ForeignFileError: a column of `_IN_EVERY_FILE` is missing, a column occurs twice or
    cannot be converted to its type, a value of `_NEVER_NULL` is null, or a text of `params` is not
    the JSON text of a mapping.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if missing := [name for name in _IN_EVERY_FILE if name not in table.column_names]:
        raise ForeignFileError(f"no rows of kbench (no column {missing[0]!r})")
    target = schema()
    if columns is not None:
        target = pa.schema([target.field(name) for name in columns])
    for name in target.names:
        if table.column_names.count(name) > 1:
            raise ForeignFileError(f"no rows of kbench (two columns {name!r})")
    if not table.schema.equals(target):
        try:
            table = _with_kernel_numbers(table)
            arrays = [
                _cast(table.column(field.name), field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in target
            ]
            if (index := target.get_field_index("attempt")) >= 0:
                arrays[index] = pc.fill_null(arrays[index], 1)
        except (pa.ArrowException, NotImplementedError) as exc:
            raise ForeignFileError(f"columns of other types ({first_line(exc)})") from exc
        table = pa.Table.from_arrays(arrays, schema=target)
    _check_values(table)
    return table


def _cast(column: "pa.ChunkedArray", kind: "pa.DataType") -> Any:
    """The column in another type; pandas writes mappings as structs, with null for absent names."""
    import pyarrow as pa
    from pyarrow import types

    if not (types.is_map(kind) and types.is_struct(column.type)):
        return column.cast(kind)
    pairs = (sorted((row or {}).items()) for row in column.to_pylist())
    return pa.array([[pair for pair in row if pair[1] is not None] or None for row in pairs], kind)


def _with_kernel_numbers(table: "pa.Table") -> "pa.Table":
    """The rows; if they lack the column `kernel_numbers`, it is made from `n_parameters`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = table.column_names
    if "kernel_numbers" in names or not {"method", "n_parameters"} <= {*names}:
        return table
    counts_matrix = pc.is_in(table["method"], pa.array(_METHODS_WITH_MATRIX_COUNT))
    counts, index = table["n_parameters"], names.index("n_parameters")
    null = pa.scalar(None, counts.type)
    table = table.set_column(index, "n_parameters", pc.if_else(counts_matrix, null, counts))
    return table.append_column("kernel_numbers", pc.if_else(counts_matrix, counts, null))


def _check_values(table: "pa.Table") -> None:
    """Refuse values that no row of kbench has, because readers of rows do not check values."""
    for name in _NEVER_NULL:
        if name in table.column_names and table[name].null_count:
            raise ForeignFileError(f"no rows of kbench (no value of {name!r} in some rows)")
    if "params" not in table.column_names:
        return
    for text in table["params"].unique().to_pylist():
        if text is not None and _json_mapping(text) is None:
            raise ForeignFileError(f"params {text[:40]!r} is not the JSON text of a mapping")


def newer_column(names: Iterable[str]) -> str | None:
    """A column that this version lacks, in a file of kbench's rows; None if it has none."""
    names = list(names)
    unknown = [name for name in names if name not in (*_COLUMNS, ORIGIN)]
    return unknown[0] if unknown and set(_IN_EVERY_FILE) <= set(names) else None


def newest(table: "pa.Table") -> "pa.Table":
    """`table` without the rows that a newer row of the same identity replaces.

    The row with the later `started_at` is newer, and null is the oldest. Of rows with the same
    `started_at`, the last in the table stays. The order of rows does not change. O(n log n).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    table = table.combine_chunks()
    oldest = pa.scalar(0, table.schema.field("started_at").type)
    identities = table.select(list(IDENTITY))
    identities = identities.append_column("age", pc.fill_null(table["started_at"], oldest))
    identities = identities.append_column("position", pa.array(range(len(table)), pa.int64()))
    order = pc.sort_indices(identities, sort_keys=[("age", "ascending"), ("position", "ascending")])
    sorted_rows = identities.take(order).group_by(list(IDENTITY), use_threads=False)
    positions = sorted_rows.aggregate([("position", "last")])["position_last"]
    return table.take(positions.take(pc.sort_indices(positions)))
