"""The rows of a report as compact columns for its web page."""

import json
import math
from collections.abc import Sequence
from typing import Any

from kbench.report.comparisons.tables import REPEATS, SCORES, Row

# Largest number of characters of all logs of failed runs together, which bounds the size of a page
# with many failures. Set by hand.
_MAX_ALL_LOGS_CHARS = 250_000

# Largest number of characters from the end of a log. Set by hand.
_MAX_LOG_CHARS = 2000

# Columns that map phases to seconds.
_PHASE_COLUMNS = ("phases", "phases_cpu")

# Number of significant digits of numbers that are not whole, which gives accuracies to a thousandth
# of a point. A further digit makes the page a fiftieth larger. Set by hand.
_DIGITS = 5

# Number of significant digits of seconds, bytes and costs, whose fourth digit differs between equal
# runs, set by hand; and the ends of the names of their columns.
_COST_DIGITS = 3
_COST_SUFFIXES = ("_s", "_bytes", "prediction_cost", "prediction_cost_loop")

# Number of hexadecimal digits of a run's key: their 64 bits identify its row in Parquet files.
_KEY_DIGITS = 16


def packed_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as a JSON object of columns.

    The object is `{"n": rows, "columns": {name: [value, ...]}, "words": [...]}`. A column of few
    values is `{"of": [value, ...], "at": [index, ...]}`, and of a single value `{"all": value}`;
    `command` has lists of indices into `words`, phases are an object of columns, and each added
    score is a column. Columns without values are left out; floats have five digits, seconds, bytes
    and costs have three; keys are cut to their beginnings and logs of failed runs to their ends.
    """
    failures = sum(row["status"] != "ok" for row in rows)
    max_log_chars = min(_MAX_LOG_CHARS, _MAX_ALL_LOGS_CHARS // max(failures, 1))
    command_words: dict[str, int] = {}
    columns: dict[str, Any] = {}
    # Rows that `over_splits` returns have columns that other rows lack.
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        values = [_page_value(name, row, max_log_chars) for row in rows]
        if name == "command":
            columns[name] = [
                [
                    command_words.setdefault(word, len(command_words))
                    for word in (value or "").split(" ")
                ]
                for value in values
            ]
        elif name in _PHASE_COLUMNS:
            phases = sorted({phase for value in values for phase in value or ()})
            columns[name] = {p: _packed([(value or {}).get(p) for value in values]) for p in phases}
        elif name == SCORES:
            for score in sorted({score for value in values for score in value or ()} - {*names}):
                column = [(value or {}).get(score) for value in values]
                columns[score] = _packed([x if x is None else _rounded(x, _DIGITS) for x in column])
        elif any(value is not None for value in values):
            columns[name] = _packed(values)
    return {"n": len(rows), "columns": columns, "words": list(command_words)}


def _page_value(name: str, row: Row, max_log_chars: int) -> Any:
    value = row.get(name)
    if (
        value is None
        or name in ("schema_version", REPEATS)
        or (name == "log" and row["status"] == "ok")
    ):
        return None
    if name == "log":
        return value[-max_log_chars:]
    if name == "key":
        return value[:_KEY_DIGITS]
    if name == "params" and ("NaN" in value or "Infinity" in value):
        return json.dumps(json.loads(value, parse_constant=str))  # browsers' JSON has no NaN
    if name == "started_at":
        return value.strftime("%Y-%m-%d %H:%M:%S UTC")
    if name in _PHASE_COLUMNS:
        return {phase: _rounded(seconds, _COST_DIGITS) for phase, seconds in value.items()}
    if isinstance(value, (bool, str)) or name == SCORES:
        return value
    number = float(value)
    if name.endswith(_COST_SUFFIXES):
        return _rounded(number, _COST_DIGITS)
    return int(value) if number.is_integer() else _rounded(number, _DIGITS)


def _rounded(value: float, digits: int) -> int | float | str:
    # JSON has neither NaN nor infinities.
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def _packed(values: list[Any]) -> Any:
    """A column; it stores equal values once if a value occurs twice or more on average."""
    # The types are part of the keys, because 1 and True are equal, and so are 0 and False.
    distinct = {(type(value), value): value for value in values}
    if len(distinct) == 1:
        return {"all": values[0]}
    if 2 * len(distinct) > len(values):
        return values
    index_of = {kind: i for i, kind in enumerate(distinct)}
    return {"of": list(distinct.values()), "at": [index_of[type(value), value] for value in values]}
