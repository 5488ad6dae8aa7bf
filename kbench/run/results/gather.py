"""Bringing the rows of other folders into a results folder, with their curves and environments.

    for each row of the other folder, by attempt and start:
        the same run began here at the same time  ->  it is here already
        its number of attempt is free             ->  it keeps it
        another row has that number               ->  the next free number, and the report says so

Environments, curves, logs and models are copied before the rows, which are written in one step: a
kill leaves no row without its parts, and the same command goes on. Nothing of the other folder is
changed. Its files are data of a stranger: names are made of checked keys, never taken over.
"""

import re
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, KbenchError
from kbench.files import atomic_file
from kbench.run.results import rows
from kbench.run.results.files import read_parquet_files, write_merged
from kbench.run.results.folder import MODELS, TRIALS, file_name
from kbench.run.results.merge import lock, rows_of

_NAME = re.compile(r"[A-Za-z0-9]+")


@dataclass
class Gathered:
    """What came from another folder."""

    source: Path
    brought: int = 0  # rows that were written
    here: int = 0  # rows that were in the folder before
    # Runs that both folders have, with different rows under one number of attempt.
    renumbered: list[str] = field(default_factory=list)
    environments: Counter[str] = field(default_factory=Counter)  # -> rows that were written
    # Environments whose description differs from the one here, or is in neither folder.
    unknown: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # files and rows that were left, a line each

    def __str__(self) -> str:
        machines = ", ".join(f"{n} of {name}" for name, n in sorted(self.environments.items()))
        text = f"{self.source}: {self.brought} rows brought"
        text += f" (environments: {machines})" if machines else ""
        text += f", {self.here} are here already" if self.here else ""
        lines = [text]
        if self.renumbered:
            n = len(self.renumbered)
            lines.append(
                f"{n} rows are further attempts of runs that both folders have, as "
                f"{self.renumbered[0]}; reports show the medians"
            )
        return "\n".join([*lines, *self.unknown, *self.skipped])


def gather(folder: Path, source: Path) -> list[Gathered]:
    """Bring the rows of `source`, and those of its trials, into `folder`.

    Memory for all rows of both; O(rows log rows) time.

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


def _gather(folder: Path, source: Path) -> Gathered:
    """Copy the rows that `folder` lacks, in order of attempts, with curves, logs and models."""
    import pyarrow as pa

    report = Gathered(source)
    content = read_parquet_files(source)
    _, tables, skipped = rows_of(content.files)
    report.skipped = [*content.skipped, *skipped]
    theirs = rows.newest(pa.concat_tables([rows.schema().empty_table(), *tables]))
    held = _attempts(folder)
    chosen, attempts = [], []
    order = theirs.select([*rows.IDENTITY, "started_at"]).to_pylist()
    for place in sorted(range(len(order)), key=lambda i: (order[i]["attempt"], i)):
        row = order[place]
        run = tuple(row[name] for name in rows.RUN)
        if not (_NAME.fullmatch(str(row["key"])) and _NAME.fullmatch(str(row["environment"]))):
            report.skipped.append(f"{source}: left a row whose key is {str(row['key'])[:40]!r}")
            continue
        taken = held[run]
        if row["started_at"] in taken.values():
            report.here += 1
            continue
        attempt = row["attempt"]
        if attempt in taken:
            attempt = max(taken) + 1
            report.renumbered.append(f"{row['key'][:8]} in {row['environment']}")
        taken[attempt] = row["started_at"]
        chosen.append(place)
        attempts.append(attempt)
        report.environments[row["environment"]] += 1
        key, machine, threads = run
        copied = folder / "_curves" / file_name(key, machine, threads, attempt)
        _copy(source / "_curves" / file_name(key, machine, threads, row["attempt"]), copied)
        for part in (f"_logs/{row['key']}.txt", f"{MODELS}/{row['key']}.npz"):
            _copy(source / part, folder / part)
    report.brought = len(chosen)
    _describe(report, folder, source)
    if chosen:
        brought = theirs.take(pa.array(chosen))
        place = brought.schema.get_field_index("attempt")
        brought = brought.set_column(place, "attempt", pa.array(attempts, pa.int64()))
        write_merged(brought, folder)
    return report


def _attempts(folder: Path) -> defaultdict[tuple[Any, ...], dict[int, Any]]:
    """run -> number of attempt -> when it began, of the rows of a folder."""
    held: defaultdict[tuple[Any, ...], dict[int, Any]] = defaultdict(dict)
    _, tables, _ = rows_of(read_parquet_files(folder).files)
    for table in tables:
        for row in table.select([*rows.IDENTITY, "started_at"]).to_pylist():
            run = tuple(row[name] for name in rows.RUN)
            held[run][row["attempt"]] = row["started_at"]
    return held


def _describe(report: Gathered, folder: Path, source: Path) -> None:
    """Copy the descriptions of environments; name those that differ or are missing."""
    for name in report.environments:
        theirs = source / "_environments" / f"{name}.json"
        ours = folder / "_environments" / f"{name}.json"
        _copy(theirs, ours)
        if not ours.is_file():
            report.unknown.append(f"{source}: no description of environment {name}")
        elif theirs.is_file() and theirs.read_bytes() != ours.read_bytes():
            report.unknown.append(f"{source}: environment {name} is described otherwise here")


def _copy(source: Path, target: Path) -> None:
    """Copy a regular file where there is none."""
    if target.exists() or source.is_symlink() or not source.is_file():
        return
    try:
        with source.open("rb") as read, atomic_file(target) as file:
            shutil.copyfileobj(read, file)
    except OSError as error:
        raise KbenchError(f"cannot copy {source} to {target}: {error.strerror}") from error
