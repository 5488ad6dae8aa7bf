"""The reference rows that come with kbench: run their plan, and collect the rows of a folder.

    python scripts/reference.py run FOLDER [STAGE ...]
    python scripts/reference.py collect FOLDER [results/_reference]
    python scripts/reference.py describe [results/_reference]

`run` runs the stages of `reference.yaml`, or those that are named, one after the other. A stage
that has used its hours is interrupted; the same command continues where it stopped. A lock of this
machine keeps the timed rows of two such runs from overlapping: the second one waits.

`collect` replaces the reference rows by the newest rows of a folder that were not interrupted, with
their curves and environments. Rows of other packages' methods, which kbench's code does not change,
stay if the folder has the same environment and no newer row of the same run. Curves of more than
500 points keep every k-th point, and those at the abscissae of the shorter curves of the same run,
so that curves can still be joined. Rows of a work tree with uncommitted changes are refused.
`describe`, which `collect` ends with, writes what the rows say of themselves into the README of the
reference rows.
"""

import fcntl
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from kbench.config import shipped_root
from kbench.files import atomic_file
from kbench.report import make_papers
from kbench.run.results import ResultsFolder

MOST_POINTS = 500

PLAN = Path(__file__).with_suffix(".yaml")
KBENCH = (sys.executable, "-m", "kbench")
MEMORY_MB = 8192
README = "README.md"
BEGIN, END = "<!-- written by scripts/reference.py describe -->\n", "<!-- end -->\n"
LOCK = Path(tempfile.gettempdir()) / "kbench-reference.lock"


def run(
    folder: Path,
    stages: Mapping[str, Mapping[str, Any]],
    names: Sequence[str] = (),
    kbench: Sequence[str] = KBENCH,
) -> None:
    """Run the commands of the stages; exit when one is no command, or on Ctrl-C."""
    for name in names:
        if name not in stages:
            sys.exit(f"no stage is called {name!r}; they are {', '.join(stages)}")
    with alone():
        _run_stages(folder, {name: stages[name] for name in names or stages}, kbench)


@contextmanager
def alone(path: Path = LOCK) -> Iterator[None]:
    """Hold the lock of this machine; wait while another process holds it."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another run holds {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_stages(
    folder: Path, stages: Mapping[str, Mapping[str, Any]], kbench: Sequence[str]
) -> None:
    for name, stage in stages.items():
        end = time.monotonic() + 3600.0 * stage["hours"]
        for number, command in enumerate(stage["commands"], start=1):
            print(f"{name} {number}/{len(stage['commands'])}: kbench {command}", flush=True)
            limits = [f"limits.wall_s={stage['wall_s']}", f"limits.memory_mb={MEMORY_MB}"]
            # Of two limits the last counts, the command's own.
            own = [*command.split(), *others(command, stage.get("leave_out", ()))]
            words = [*limits, *own, f"results_dir={folder}"]
            if not _in_time([*kbench, *words], end):
                print(f"{name}: {stage['hours']:g} h are spent; again goes on from here")
                break


def others(command: str, left_out: Collection[str]) -> list[str]:
    """The word `method=` with the methods of the command's experiment that are not left out.

    Empty if the command names its methods, or none of them is left out.
    """
    words = dict(word.partition("=")[::2] for word in command.split())
    if "method" in words or "experiment" not in words:
        return []
    for experiment in words["experiment"].split(","):
        path = shipped_root() / "experiment" / f"{experiment}.yaml"
        listed = yaml.safe_load(path.read_text(encoding="utf-8"))["plan"]["methods"]
        names = list(
            dict.fromkeys(one if isinstance(one, str) else next(iter(one)) for one in listed)
        )
        if set(names) & set(left_out):
            if experiment != words["experiment"]:
                sys.exit(f"a command of several experiments cannot leave out methods: {command}")
            return [f"method={','.join(name for name in names if name not in left_out)}"]
    return []


def _in_time(command: Sequence[str], end: float) -> bool:
    """Run a command that is interrupted at `end`; whether it came to its own end before."""
    process = subprocess.Popen(command)
    try:
        code = process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # which ends the run in progress and keeps the others
        process.wait()
        return False
    except KeyboardInterrupt:  # the command has it from the terminal, too
        process.wait()
        sys.exit(130)
    if code not in (0, 1):  # 1: some runs failed, which is a result
        sys.exit(code)
    return True


def renamed(rows: pa.Table) -> pa.Table:
    """Rows of kbench's own form of MEKA under its present name, `meka_galerkin`.

    They were made when `meka` meant links by Galerkin projection; since then that name means the
    papers' sampled links. Method and command change, the key remains that of the run as it was
    made: nothing else of a row depends on the name.
    """
    columns = rows.select(["method", "params", "command"]).to_pylist()
    ours = [
        row["method"] == "meka" and json.loads(row["params"] or "{}").get("link") == "galerkin"
        for row in columns
    ]
    for name, old, new in (
        ("method", "meka", "meka_galerkin"),
        ("command", "method=meka ", "method=meka_galerkin "),
    ):
        values = [
            row[name].replace(old, new) if own else row[name]
            for row, own in zip(columns, ours, strict=True)
        ]
        place = rows.schema.get_field_index(name)
        field = rows.schema.field(name)
        rows = rows.set_column(place, field, pa.array(values, field.type))
    return rows


def foreign(method: str) -> bool:
    """Whether a method is another package's: its results do not change with kbench's code."""
    path = shipped_root() / "method" / f"{method}.yaml"
    if not path.exists():
        return False
    estimators = yaml.safe_load(path.read_text(encoding="utf-8"))["estimator"]
    names = estimators.values() if isinstance(estimators, dict) else [estimators]
    # A name without a dot is an entry point of kbench.
    return all("." in name and not name.startswith("kbench.") for name in names)


def staying(target: Path, fresh: pa.Table) -> pa.Table | None:
    """The rows of other packages' methods of `target` that stay beside `fresh`, if there are any.

    A run is that of its method, parameters, data and seed: its limit may be another one now.
    """
    path = target / "reference.parquet"
    if not path.exists():
        return None
    names = ["method", "dataset", "variant", "data_sha256", "seed", "params", "environment"]
    again = {tuple(row.values()) for row in fresh.select(names).to_pylist()}
    environments = set(fresh["environment"].to_pylist())
    old = pq.read_table(path)
    stay = [
        foreign(row["method"])
        and row["environment"] in environments
        and tuple(row.values()) not in again
        for row in old.select(names).to_pylist()
    ]
    return old.filter(pa.array(stay, pa.bool_())) if any(stay) else None


def collect(source: Path, target: Path) -> None:
    """Make the rows of a folder the reference rows, beside those of other packages' methods."""
    folder = ResultsFolder(source)
    rows = folder.read(reference=False)
    rows = rows[rows["status"] != "interrupted"]  # which says nothing of the method
    if rows.empty:
        sys.exit(f"{source}: no rows")
    if rows["dirty"].fillna(True).any():
        sys.exit(f"{source}: {int(rows['dirty'].sum())} rows are of a work tree with changes")
    merged = folder.merge().path
    assert merged is not None
    curves = folder.read_curves(reference=False)
    run = ["key", "environment", "threads", "x_name"]
    each = curves.groupby([*run, "curve"])
    length, place = each["x"].transform("size"), each.cumcount()
    step = (length / MOST_POINTS).map(math.ceil)
    places = pd.MultiIndex.from_frame(curves[[*run, "x"]])
    shared = places.isin(places[length <= MOST_POINTS])
    curves = curves[(place % step == 0) | (place == length - 1) | shared]
    finished = renamed(pq.read_table(merged, filters=pc.field("status") != "interrupted"))
    schema = pq.read_schema(next((source / "_curves").glob("*.parquet")))
    table = pa.Table.from_pandas(curves, schema=schema, preserve_index=False)
    if (stay := staying(target, finished)) is not None:
        kept = pq.read_table(target / "_curves").cast(table.schema)
        of_theirs = pc.is_in(kept["key"], stay["key"].combine_chunks())
        table = pa.concat_tables([table, kept.filter(of_theirs)])
        finished = pa.concat_tables([finished, stay], promote_options="default")
        print(f"{len(stay)} rows of other packages' methods stay")
    for name in ("_curves", "_environments"):
        shutil.rmtree(target / name, ignore_errors=True)
        (target / name).mkdir(parents=True)
    with atomic_file(target / "reference.parquet") as file:
        pq.write_table(finished, file, compression="zstd")
    with atomic_file(target / "_curves" / "curves.parquet") as file:
        pq.write_table(table.replace_schema_metadata(None), file, compression="zstd")
    for environment in sorted(set(rows["environment"])):
        name = f"{environment}.json"
        shutil.copyfile(source / "_environments" / name, target / "_environments" / name)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    describe(target)
    print(
        f"{len(finished)} rows, {len(table)} points of curves, {size / 2**20:.2f} MiB in {target}"
    )


def describe(target: Path) -> None:
    """Write the description of the rows into their README."""
    path = target / README
    text = path.read_text(encoding="utf-8") if path.exists() else f"{BEGIN}{END}"
    before, _, rest = text.partition(BEGIN)
    written = f"{before}{BEGIN}{description(target)}{END}{rest.partition(END)[2]}"
    with atomic_file(path) as file:
        file.write(written.encode())


def description(target: Path) -> str:
    """Markdown: counts of the rows by status, machine, code and limit, and of measured cells."""
    rows = pq.read_table(target / "reference.parquet").to_pandas()
    limit = rows["command"].str.extract(r"limits\.wall_s=(\d+)")[0].fillna("default")
    columns = {
        "status": rows["status"],
        "environment": rows["environment"],
        "commit": rows["commit"].str[:7],
        "limit, seconds": limit,
    }
    lines = [f"{len(rows):,} rows; {overlapping(rows):,} of them overlap another one in time."]
    for name, values in columns.items():
        counts = sorted(Counter(values).items(), key=lambda one: (-one[1], one[0]))
        lines.append(f"- {name}: {', '.join(f'{value} {n:,}' for value, n in counts)}")
    cells = make_papers(ResultsFolder(target), tables=["cells"], format="markdown", reference=False)
    return "\n".join([*lines, "", re.sub(r"(?m)^## .*\n\n", "", cells)])


def overlapping(rows: pd.DataFrame) -> int:
    """How many rows share a part of their time, from start to the end of prediction, with another.

    Both must be of one environment. Starting the worker is not counted, so the true number is no
    smaller.
    """
    parts = ["load_s", "warmup_s", "fit_wall_s", "predict_wall_s"]
    seconds = rows[parts].fillna(0.0).sum(axis=1)
    begin = rows["started_at"]
    spans = pd.DataFrame(
        {
            "place": rows["environment"],
            "begin": begin,
            "end": begin + pd.to_timedelta(seconds, unit="s"),
        }
    ).sort_values("begin")
    shared: set[Any] = set()
    for _, here in spans.groupby("place"):
        last: tuple[Any, Any] | None = None  # the row that ends last, and its end
        for index, start, end in zip(here.index, here["begin"], here["end"], strict=True):
            if last is not None and start < last[1]:
                shared |= {index, last[0]}
            if last is None or end > last[1]:
                last = index, end
    return len(shared)


def main(arguments: Sequence[str]) -> None:
    match list(arguments):
        case ["run", folder, *names]:
            run(Path(folder), yaml.safe_load(PLAN.read_text(encoding="utf-8")), names)
        case ["collect", folder]:
            collect(Path(folder), Path("results/_reference"))
        case ["collect", folder, target]:
            collect(Path(folder), Path(target))
        case ["describe"]:
            describe(Path("results/_reference"))
        case ["describe", target]:
            describe(Path(target))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
