"""The results folder: one Parquet file per run, which is written completely or not at all.

`pandas.read_parquet(folder)` reads the user's rows, as Arrow ignores names with `_` and `.`:

    <key>-<environment>-<threads>.parquet   the row of a run's first attempt
    <key>-<environment>-<threads>-<n>.parquet   the row of its n-th attempt, n > 1
    merged-<hex>.parquet                    rows that `merge` compacted
    0-columns/columns.parquet               no rows, but all columns, for programs that take the
                                            columns of the first file
    _curves/ _environments/ _logs/          parts of a row that are not scalars
    _models/<key>.npz                       fitted model of a run's last attempt (keep_model=true)
    _reference/                             rows that come with kbench; never written. If it is
                                            absent, the rows in kbench's package or clone are read
    _tune/                                  results folder of the trials of `kbench tune`, which
                                            are scored on held-out training rows
    .<name>.<hex>.tmp                       file that is being written

Many processes and machines may write to one folder at the same time: a file is complete before it
gets its name, and two different runs never have the same name. Files that are damaged or hold no
rows of kbench are not changed; `ResultsFolder.warnings` names them.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from kbench.errors import ConfigError, KbenchError
from kbench.files import atomic_file
from kbench.run.results import rows
from kbench.run.results.environment import environment_id
from kbench.run.results.files import CLAIMED, MERGED, read_parquet_files, write_parquet
from kbench.run.results.rows import schema

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kbench.run.results.merge import MergeReport

MODELS = "_models"
TRIALS = "_tune"
# The digit sorts before the names of all files of rows, which begin with a key or a word.
COLUMNS = "0-columns/columns.parquet"

OLDEST = datetime.fromtimestamp(0, UTC)  # used for rows without a start time
# Columns of an attempt that decide whether its run is done again, and others that name the attempt.
_OUTCOME_COLUMNS = ["status", "message", "source_sha256", "model", "tag", "scores"]
_ATTEMPT_COLUMNS = ["attempt", *_OUTCOME_COLUMNS, "started_at"]
_RUN_AND_ATTEMPT_COLUMNS = [*rows.RUN, *_ATTEMPT_COLUMNS]


class Curve(TypedDict):
    """One curve of a run, such as the objective against seconds."""

    curve: str  # name of the ordinate
    x_name: str  # name of the abscissa
    x: Sequence[float]
    value: Sequence[float]


# The rows that come with kbench lie in the package of a wheel, and in results/ of a source tree.
_REFERENCE_FOLDERS = (
    Path(__file__).parents[2] / "_reference",
    Path(__file__).parents[3] / "results" / "_reference",
)


class ResultsFolder:
    """Rows, curves, logs and environments in one folder, which the first write creates."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Files that the last call of a reading method skipped, one line each: `file: reason`.
        self.warnings: list[str] = []
        self._merged: dict[str, list[dict[str, Any]]] = {}  # key -> its rows in merged files
        self._merges_read: set[str] = set()
        self._has_columns = False

    @property
    def _reference_folder(self) -> Path:
        """Folder of the rows that come with kbench."""
        candidates = (self.path / "_reference", *_REFERENCE_FOLDERS)
        return next(filter(Path.is_dir, candidates), candidates[0])

    @property
    def has_reference(self) -> bool:
        """Whether there are rows that come with kbench."""
        return self._reference_folder.is_dir()

    def write(self, row: Mapping[str, Any], curves: Sequence[Curve] = ()) -> Path:
        """Store the row of one attempt, replacing an earlier row and curves of the same attempt.

        row : column -> value, as `rows.to_table` takes them. If the clock went back and an earlier
        attempt has the same start or a later one, `started_at` is set one microsecond after that
        start, because readers take the attempt with the latest start for the newest.

        Returns the row's file.

        Raises ValueError, TypeError: as in `rows.to_table`, or a curve has points without values.
        Raises KbenchError: a file cannot be written.
        """
        table = rows.to_table(row)
        run = row["key"], row["environment"], int(row["threads"])
        name = file_name(*run, row.get("attempt") or 1)
        previous_start = None
        with contextlib.suppress(ConfigError):  # the write below raises an error about the folder
            previous_start = (self.latest(*run) or {}).get("started_at")
        if previous_start is not None and previous_start >= (row.get("started_at") or OLDEST):
            started_at = previous_start + timedelta(microseconds=1)
            table = rows.to_table({**row, "started_at": started_at})
        self._write_columns()
        curve_file = self.path / "_curves" / name
        if curves:
            write_parquet(_curve_table(row, curves), curve_file)
        write_parquet(table, self.path / name)
        if not curves:
            try:
                curve_file.unlink(missing_ok=True)
            except OSError as exc:
                raise KbenchError(f"cannot remove {curve_file}: {exc.strerror}") from exc
        return self.path / name

    def _write_columns(self) -> None:
        """Write the file of all columns, unless it exists and has every column of this version."""
        if self._has_columns:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.path / COLUMNS
        with contextlib.suppress(OSError, pa.ArrowException):
            self._has_columns = set(schema().names) <= set(pq.read_schema(path).names)
        if not self._has_columns:
            write_parquet(schema().empty_table(), path)
            self._has_columns = True

    def model_path(self, key: str) -> Path:
        """The file of the fitted model of a run."""
        return self.path / MODELS / f"{key}.npz"

    def write_log(self, key: str, text: str) -> Path:
        """Store the whole output of the last attempt at `key`."""
        path = self.path / "_logs" / f"{key}.txt"
        with atomic_file(path) as file:
            file.write(text.encode(errors="backslashreplace"))
        return path

    def store_environment(self, env: Mapping[str, Any]) -> str:
        """Store the description of an environment unless it is stored; return its id."""
        name = environment_id(env)
        path = self.path / "_environments" / f"{name}.json"
        if not path.exists():
            with atomic_file(path) as file:
                file.write((json.dumps(env, indent=2, sort_keys=True) + "\n").encode())
        return name

    def environments(self) -> dict[str, dict[str, Any]]:
        """The stored descriptions by id, including those of the reference rows."""
        descriptions = {}
        for folder in (self._reference_folder, self.path):
            for path in sorted((folder / "_environments").glob("[!.]*.json")):
                try:
                    descriptions[path.stem] = json.loads(path.read_text())
                except (OSError, ValueError) as exc:
                    self.warnings.append(f"{path}: no description of an environment ({exc})")
        return descriptions

    def finished(self, environment: str | None, threads: int) -> dict[str, dict[str, Any]]:
        """Outcomes of the user's own runs in an environment (None: any) with a thread count.

        Returns key -> `_OUTCOME_COLUMNS` of the newest attempt. Reads every file, so that merged
        rows are faster.
        """
        import pyarrow.compute as pc

        table = self._read_rows(self.path, _RUN_AND_ATTEMPT_COLUMNS)
        mask = pc.equal(table["threads"], threads)
        if environment is not None:
            mask = pc.and_(mask, pc.equal(table["environment"], environment))
        newest = rows.newest(table.filter(mask)).sort_by("started_at")
        newest = newest.select(["key", *_OUTCOME_COLUMNS])
        return {row.pop("key"): row for row in newest.to_pylist(maps_as_pydicts="strict")}

    def measured(self, columns: Sequence[str]) -> list[dict[str, Any]]:
        """These columns of every attempt with status ok, of the user's and the reference rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = [*dict.fromkeys([*rows.RUN, "status", *columns])]
        table = pa.concat_tables(
            [self._read_rows(folder, names) for folder in (self.path, self._reference_folder)]
        )
        return table.filter(pc.equal(table["status"], "ok")).to_pylist()

    def latest(self, key: str, environment: str | None, threads: int) -> dict[str, Any] | None:
        """Outcome, "attempt" and "started_at" of a run's newest attempt; None if it has no row.

        Reads the run's files, and files of merged rows that appeared since the last call.
        """
        prefix = f"{key}-"

        def is_needed(name: str) -> bool:
            is_merged = name.startswith((MERGED, CLAIMED)) and name not in self._merges_read
            return is_merged or name.startswith(prefix)

        attempts = []
        for file in read_parquet_files(self.path, _RUN_AND_ATTEMPT_COLUMNS, is_needed).files:
            file_rows: list[dict[str, Any]] = []
            with contextlib.suppress(rows.ForeignFileError):
                table = rows.conform(file.table, _RUN_AND_ATTEMPT_COLUMNS)
                file_rows = table.to_pylist(maps_as_pydicts="strict")
            if file.path.name.startswith(prefix):
                attempts += file_rows
                continue
            self._merges_read.add(file.path.name)
            for row in file_rows:
                self._merged.setdefault(row["key"], []).append(row)
        matches = [
            {name: row[name] for name in _ATTEMPT_COLUMNS}
            for row in [*attempts, *self._merged.get(key, ())]
            if row["threads"] == threads and environment in (None, row["environment"])
        ]
        return max(matches, key=lambda row: row["started_at"] or OLDEST, default=None)

    def next_attempt(self, key: str, environment: str, threads: int) -> int:
        """The number of a run's next attempt.

        An attempt that was interrupted or could not begin does not count: its number is used again.
        """
        last = self.latest(key, environment, threads)
        if last is None:
            return 1
        return int(last["attempt"]) + (last["status"] not in rows.WITHOUT_OUTCOME)

    def read(self, *, reference: bool = False) -> "pd.DataFrame":
        """The user's rows of all attempts, and with `reference` also the rows of kbench.

        Returns the columns of `schema()` and `origin` ("own" or "reference"); the order of rows is
        not defined. Integer and boolean columns have pandas' nullable types, and `phases` and
        `scores` hold dicts.
        """
        import pandas as pd
        import pyarrow as pa

        table = self._read_all(reference=reference)
        nullable = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        return table.to_pandas(maps_as_pydicts="strict", types_mapper=nullable.get)

    def read_curves(self, *, reference: bool = False) -> "pd.DataFrame":
        """A long table with the curves of each run's newest attempt that has curves.

        Curves of a reference row are omitted if the user has a row of the same run.
        """
        import pandas as pd

        if not reference:
            return self._read_curves(self.path)
        identity = list(rows.RUN)
        replaced = self._read_rows(self.path, [*identity, "status"]).to_pandas()
        shipped = self._read_curves(self._reference_folder)
        warnings = self.warnings
        user_curves = self._read_curves(self.path)
        self.warnings = warnings + self.warnings
        not_replaced = ~pd.MultiIndex.from_frame(shipped[identity]).isin(
            pd.MultiIndex.from_frame(replaced[identity])
        )
        return pd.concat([shipped[not_replaced], user_curves], ignore_index=True)

    def _read_curves(self, folder: Path) -> "pd.DataFrame":
        import pyarrow as pa

        newest: dict[str, tuple[int, str]] = {}  # run -> its newest attempt with curves
        for path in (folder / "_curves").glob("*.parquet"):
            run, attempt = _run_and_attempt(path.name)
            newest[run] = max(newest.get(run, (0, "")), (attempt, path.name))
        names = {name for _, name in newest.values()}
        content = read_parquet_files(folder / "_curves", is_wanted=names.__contains__)
        self.warnings = content.skipped
        tables = [file.table for file in content.files if file.table.schema.equals(curve_schema())]
        return pa.concat_tables([curve_schema().empty_table(), *tables]).to_pandas()

    def row(self, key_prefix: str) -> dict[str, Any]:
        """The newest row (own, reference or trial) whose key begins with `key_prefix`.

        Returns column -> Python value (None for null), and `origin`.

        Raises ConfigError: no key or several keys begin with `key_prefix`.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        trials = ResultsFolder(self.path / TRIALS)
        table = pa.concat_tables(
            [self._read_all(reference=True), trials._read_all(reference=False)]
        )
        table = table.filter(pc.starts_with(table["key"], key_prefix))
        keys = sorted(set(table["key"].to_pylist()))
        if not keys:
            raise ConfigError(f"{self.path}: no row's key begins with {key_prefix!r}")
        if len(keys) > 1:
            # 5 keys of 12 letters show which letters are missing, and fit into a line. Set by hand.
            prefixes = ", ".join(key[:12] for key in keys[:5]) + (", ..." if len(keys) > 5 else "")
            raise ConfigError(
                f"{len(keys)} keys begin with {key_prefix!r}: {prefixes}; give more of it"
            )
        order = pc.sort_indices(table, [("started_at", "descending")])
        return table.take(order[:1]).to_pylist(maps_as_pydicts="strict")[0]

    def merge(self) -> "MergeReport":
        """Compact the user's rows into one file."""
        from kbench.run.results.merge import merge

        return merge(self.path)

    def _read_all(self, *, reference: bool) -> "pa.Table":
        import pyarrow as pa

        table = self._read_rows(self.path)
        tables = [table.append_column("origin", pa.array(["own"] * len(table), pa.string()))]
        if reference:
            warnings = self.warnings
            shipped = self._read_rows(self._reference_folder)
            self.warnings = warnings + self.warnings
            origin = pa.array(["reference"] * len(shipped), pa.string())
            tables.insert(0, shipped.append_column("origin", origin))
        return rows.newest(pa.concat_tables(tables))

    def _read_rows(self, folder: Path, columns: Sequence[str] | None = None) -> "pa.Table":
        """Every row of the files in `folder`, including rows that a newer one replaces."""
        import pyarrow as pa

        if any(folder.glob(f"{CLAIMED}*")):
            from kbench.run.results.merge import finish_killed_merge

            finish_killed_merge(folder)
        content = read_parquet_files(folder, columns)
        self.warnings = content.skipped
        target = schema() if columns is None else pa.schema([schema().field(c) for c in columns])
        tables = [target.empty_table()]
        for file in content.files:
            try:
                tables.append(rows.conform(file.table, columns))
            except rows.ForeignFileError as exc:
                self.warnings.append(f"{file.path}: skipped, {exc}")
        return pa.concat_tables(tables)


def file_name(key: str, environment: str, threads: int, attempt: int) -> str:
    number = f"-{attempt}" if attempt > 1 else ""
    return f"{key}-{environment}-{threads}{number}.parquet"


def _run_and_attempt(name: str) -> tuple[str, int]:
    """The name of a file without the number of the attempt, and the number of the attempt."""
    match = re.fullmatch(r"(.+-.+-\d+)-(\d+)\.parquet", name)
    return (match[1], int(match[2])) if match else (name.removesuffix(".parquet"), 1)


def curve_schema() -> "pa.Schema":
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    run = [("key", text), ("environment", text), ("threads", pa.int64())]
    return pa.schema([*run, ("curve", text), ("x_name", text), ("x", number), ("value", number)])


def _curve_table(row: Mapping[str, Any], curves: Sequence[Curve]) -> "pa.Table":
    """One row per point of each curve; ValueError if a curve has points without values."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [] for name in curve_schema().names}
    for curve in curves:
        n = len(curve["x"])
        if len(curve["value"]) != n:
            raise ValueError(
                f"curve {curve['curve']!r}: {n} abscissae but {len(curve['value'])} values"
            )
        columns["x"].extend(curve["x"])
        columns["value"].extend(curve["value"])
        columns["curve"] += [curve["curve"]] * n
        columns["x_name"] += [curve["x_name"]] * n
        for name in rows.RUN:
            columns[name] += [row[name]] * n
    return pa.table(columns, schema=curve_schema())
