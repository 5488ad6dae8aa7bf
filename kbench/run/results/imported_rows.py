"""Copy the rows of other folders into a results folder, with their curves and environments.

    for each row of the other folder, sorted by attempt:
        the folder has a row of the run with the same start  ->  the row is not copied
        the number of its attempt is free                    ->  the row keeps the number
        another row has the number                           ->  the row gets the next free number

Environments, curves, logs and models are copied before the rows, which are written in one step. A
killed command therefore leaves no row without its parts; the same command copies the rest. The
other folder is not changed. Its files are not trusted: names of new files are made of checked keys.
"""

import re
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, KbenchError
from kbench.files import atomic_file
from kbench.run.results import rows
from kbench.run.results.files import read_parquet_files, write_merged
from kbench.run.results.folder import MODELS, OLDEST, TRIALS, file_name
from kbench.run.results.merge import lock, rows_of

_NAME_PATTERN = re.compile(r"[A-Za-z0-9]+")


@dataclass
class CopyReport:
    """The result of copying the rows of one folder."""

    source: Path
    n_copied: int = 0  # rows that were written
    n_present: int = 0  # rows that the folder already had
    # Rows whose attempt got another number, because both folders have the run.
    renumbered: list[str] = field(default_factory=list)
    environments: Counter[str] = field(default_factory=Counter)  # environment -> rows written
    # Lines about environments whose descriptions differ, or that neither folder describes.
    unknown: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # lines about files and rows not copied

    def __str__(self) -> str:
        machines = ", ".join(f"{n} of {name}" for name, n in sorted(self.environments.items()))
        text = f"{self.source}: {self.n_copied} rows brought"
        text += f" (environments: {machines})" if machines else ""
        text += f", {self.n_present} are here already" if self.n_present else ""
        lines = [text]
        if self.renumbered:
            n = len(self.renumbered)
            lines.append(
                f"{n} rows are further attempts of runs that both folders have, as "
                f"{self.renumbered[0]}; reports show the medians"
            )
        return "\n".join([*lines, *self.unknown, *self.skipped])


def gather(folder: Path, source: Path) -> list[CopyReport]:
    """Copy the rows of `source`, and the rows of its trials, into `folder`.

    Takes memory for all rows of both folders, and O(rows log rows) time.

    Raises ConfigError: `source` is not a folder, or is `folder`.
    Raises KbenchError: the folder cannot be written.
    """
    if not source.is_dir():
        raise ConfigError(f"there is no folder {source}")
    if folder.exists() and source.samefile(folder):
        raise ConfigError(f"{source} is the folder that rows are brought to")
    pairs = [(folder, source)]
    pairs += [(folder / TRIALS, source / TRIALS)] if (source / TRIALS).is_dir() else []
    reports = []
    for target, origin in pairs:
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KbenchError(f"cannot write {target}: {error.strerror}") from error
        with lock(target):
            reports.append(_gather(target, origin))
    return reports


def _gather(folder: Path, source: Path) -> CopyReport:
    """Copy the rows that `folder` lacks, with curves, logs and models."""
    import pyarrow as pa

    report = CopyReport(source)
    content = read_parquet_files(source)
    _, tables, skipped = rows_of(content.files)
    report.skipped = [*content.skipped, *skipped]
    source_rows = rows.newest(pa.concat_tables([rows.schema().empty_table(), *tables]))
    starts_of_run = _attempts(folder)
    newest: defaultdict[str, datetime] = defaultdict(lambda: OLDEST)  # key -> its last start here
    for (key, *_), starts in starts_of_run.items():
        newest[key] = max(newest[key], *(start or OLDEST for start in starts.values()))
    selected, attempts = [], []
    identities = source_rows.select([*rows.IDENTITY, "started_at"]).to_pylist()
    for index in sorted(range(len(identities)), key=lambda i: (identities[i]["attempt"], i)):
        row = identities[index]
        run = tuple(row[name] for name in rows.RUN)
        if not (
            _NAME_PATTERN.fullmatch(str(row["key"]))
            and _NAME_PATTERN.fullmatch(str(row["environment"]))
        ):
            report.skipped.append(f"{source}: left a row whose key is {str(row['key'])[:40]!r}")
            continue
        starts = starts_of_run[run]
        if row["started_at"] in starts.values():
            report.n_present += 1
            continue
        attempt = row["attempt"]
        if attempt in starts:
            attempt = max(starts) + 1
            report.renumbered.append(f"{row['key'][:8]} in {row['environment']}")
        starts[attempt] = row["started_at"]
        selected.append(index)
        attempts.append(attempt)
        report.environments[row["environment"]] += 1
        key, environment, threads = run
        curves = folder / "_curves" / file_name(key, environment, threads, attempt)
        _copy(source / "_curves" / file_name(key, environment, threads, row["attempt"]), curves)
        is_newest = (row["started_at"] or OLDEST) > newest[key]
        for name in (f"_logs/{key}.txt", f"{MODELS}/{key}.npz"):  # of the newest attempt
            _copy(source / name, folder / name, replace=is_newest)
    report.n_copied = len(selected)
    _describe(report, folder, source)
    if selected:
        copied_rows = source_rows.take(pa.array(selected))
        index = copied_rows.schema.get_field_index("attempt")
        copied_rows = copied_rows.set_column(index, "attempt", pa.array(attempts, pa.int64()))
        write_merged(copied_rows, folder)
    return report


def _attempts(folder: Path) -> defaultdict[tuple[Any, ...], dict[int, Any]]:
    """run -> (number of attempt -> start), for the rows of a folder."""
    starts: defaultdict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)
    _, tables, _ = rows_of(read_parquet_files(folder).files)
    for table in tables:
        for row in table.select([*rows.IDENTITY, "started_at"]).to_pylist():
            run = tuple(row[name] for name in rows.RUN)
            starts[run][row["attempt"]] = row["started_at"]
    return starts


def _describe(report: CopyReport, folder: Path, source: Path) -> None:
    """Copy descriptions of environments, and report differing and missing ones."""
    for name in report.environments:
        source_file = source / "_environments" / f"{name}.json"
        target_file = folder / "_environments" / f"{name}.json"
        _copy(source_file, target_file)
        if not target_file.is_file():
            report.unknown.append(f"{source}: no description of environment {name}")
        elif source_file.is_file() and source_file.read_bytes() != target_file.read_bytes():
            report.unknown.append(f"{source}: environment {name} is described otherwise here")


def _copy(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy a regular file unless the target exists and should not be replaced."""
    if (target.exists() and not replace) or source.is_symlink() or not source.is_file():
        return
    try:
        with source.open("rb") as reader, atomic_file(target) as file:
            shutil.copyfileobj(reader, file)
    except OSError as error:
        raise KbenchError(f"cannot copy {source} to {target}: {error.strerror}") from error
