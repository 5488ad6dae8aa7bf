"""The reference rows that come with kbench: run their plan, and collect the rows of a folder.

    python scripts/reference.py plan FOLDER [STAGE ...]
    python scripts/reference.py run FOLDER [--hours H] [STAGE ...]
    python scripts/reference.py collect FOLDER [results/_reference] [--keep-old]
    python scripts/reference.py describe [results/_reference]

`plan` prints, for each command of the stages of `reference.yaml` (or of those that are named), how
many runs have no row in the folder and the seconds that they take by the rows that are there; then
the cells and lines of figures that no run of their experiments fills. `run` runs the stages one
after the other. A stage that has used its hours is interrupted; the same command continues where it
stopped. With --hours no command is begun that would not end in that time by its estimate, so that
any idle hour can be used. A lock of this machine keeps the timed rows of two such runs from
overlapping: the second one waits.

`collect` replaces the reference rows by the newest rows of a folder that were not interrupted, with
their curves and environments. Rows of the same commit stay, of any environment, and those of other
packages' methods, which kbench's code does not change, in the environments of either, unless the
folder has the same run in the same environment; with --keep-old kbench's own of older commits stay,
too, where the folder does not have their run. A row of a longer limit stays beside a new one that
was stopped. All rows name the experiments of `reference.yaml` that ask for their run: of several
commands that do, the first has made it. Curves of more than 500 points keep every k-th point, and
those at the abscissae of the shorter curves of the same run, so that curves can still be joined.
Rows of a work tree with uncommitted changes are refused.
`describe`, which `collect` ends with, writes what the rows say of themselves into the README of the
reference rows.
"""

import fcntl
import functools
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from kbench.config import composer, shipped_root
from kbench.files import atomic_file
from kbench.papers.cells.runs import asking_experiments, fills_cells
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import PAPERS, experiments_of, paper
from kbench.report import make_papers
from kbench.run.planning.plan import make_plan
from kbench.run.planning.task import Run
from kbench.run.results.folder import ResultsFolder, curve_schema
from kbench.run.results.stopped import limit, stopped_at, time_limit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from reference_plan import Costs, asked_for, open_places, planned, words_of

MAX_POINTS = 500
# What tells a run from another one, but for its seed and its machine.
RUN = ["method", "dataset", "variant", "data_sha256", "params", "threads", "jobs"]
# Curves of a solver's progress: figures draw those of a run's first seed, no cell is made of them.
PROGRESS = ["objective", "violation", "n_active", "n_support", "n_visited", "samples"]

PLAN = Path(__file__).with_suffix(".yaml")
REFERENCE = Path(__file__).parents[1] / "results" / "_reference"
KBENCH = (sys.executable, "-m", "kbench")
MEMORY_MB = 8192
# How the files are compressed, which are in every clone and wheel: a second more, a tenth less.
_SMALL: dict[str, Any] = {"compression": "zstd", "compression_level": 19}
README = "README.md"
BEGIN, END = "<!-- written by scripts/reference.py describe -->\n", "<!-- end -->\n"
LOCK = Path(tempfile.gettempdir()) / "kbench-reference.lock"


def run(
    folder: Path,
    stages: Mapping[str, Mapping[str, Any]],
    names: Sequence[str] = (),
    kbench: Sequence[str] = KBENCH,
    hours: float | None = None,
    lock: Path = LOCK,
) -> None:
    """Run the commands of the stages; exit when one is not a command, or on Ctrl-C.

    With `hours` commands are left out whose estimate is longer than what remains of that time, and
    one that takes longer than its estimate is interrupted when the time is up.
    """
    wanted = chosen(stages, names)
    with alone(lock):
        _run_stages(folder, wanted, kbench, hours)


def chosen(
    stages: Mapping[str, Mapping[str, Any]], names: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
    """The stages that are named, or all of them; exit where a name is none."""
    for name in names:
        if name not in stages:
            sys.exit(f"no stage is called {name!r}; they are {', '.join(stages)}")
    return {name: stages[name] for name in names or stages}


def words_to_run(folder: Path, stage: Mapping[str, Any], command: str) -> list[str]:
    """The words after `kbench`, with those of the stage's limits that the command does not give."""
    words = words_of(command, stage)
    limits = {"limits.wall_s": stage["wall_s"], "limits.memory_mb": MEMORY_MB}
    given = {word.partition("=")[0] for word in words}
    missing = [f"{name}={value}" for name, value in limits.items() if name not in given]
    return [*missing, *words, f"results_dir={folder}"]


def costs(folder: Path) -> Costs:
    """Costs by the rows of the folder and the reference rows."""
    known = [ResultsFolder(folder).read(reference=False)]
    if REFERENCE.exists():
        known.append(ResultsFolder(REFERENCE).read(reference=False))
    return Costs(pd.concat([rows for rows in known if len(rows)] or known))


def show_plan(folder: Path, stages: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> None:
    """Print what is to run and how long it takes, and what none of the commands fills."""
    known, runs, total = costs(folder), [], 0.0
    with composer() as hydra:
        for name, stage in chosen(stages, names).items():
            of_stage = 0.0
            for command in stage["commands"]:
                one = planned(hydra, words_to_run(folder, stage, command), known)
                runs += one.runs
                of_stage += one.seconds
                print(f"{one.seconds:6.0f} s  {one.n_todo:4} of {len(one.runs)} runs  {command}")
            total += of_stage
            print(f"{name}: {of_stage / 3600:.2f} of {stage['hours']:g} h\n", flush=True)
    print(f"{total / 3600:.2f} h in all")
    for place in open_places(runs):
        print(f"no command fills {place}")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of this machine; wait while another process holds it."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: another run holds {path}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_stages(
    folder: Path,
    stages: Mapping[str, Mapping[str, Any]],
    kbench: Sequence[str],
    hours: float | None,
) -> None:
    last = math.inf if hours is None else time.monotonic() + 3600.0 * hours
    known = None if hours is None else costs(folder)
    for name, stage in stages.items():
        end = min(last, time.monotonic() + 3600.0 * stage["hours"])
        for number, command in enumerate(stage["commands"], start=1):
            place = f"{name} {number}/{len(stage['commands'])}"
            words = words_to_run(folder, stage, command)
            if known is not None:
                with composer() as hydra:
                    seconds = planned(hydra, words, known).seconds
                left = last - time.monotonic()
                if seconds > left:
                    print(f"{place}: left out, {seconds:.0f} s of {max(left, 0.0):.0f} s")
                    continue
            print(f"{place}: kbench {command}", flush=True)
            if not _in_time([*kbench, *words], end):
                print(f"{name}: the time is up; the same command goes on from here")
                break


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


@functools.cache  # it is asked for every row
def foreign(method: str) -> bool:
    """Whether a method is another package's: its results do not change with kbench's code."""
    path = shipped_root() / "method" / f"{method}.yaml"
    if not path.exists():
        return False
    estimators = yaml.safe_load(path.read_text(encoding="utf-8"))["estimator"]
    names = estimators.values() if isinstance(estimators, dict) else [estimators]
    # A name without a dot is an entry point of kbench.
    return all("." in name and not name.startswith("kbench.") for name in names)


def staying(target: Path, fresh: pa.Table, *, keep_old: bool = False) -> pa.Table | None:
    """The rows of `target` that stay beside `fresh`; None if it has no rows.

    Those of kbench's own methods of the commits of `fresh`, and those of other packages' methods in
    the environments of all these; with `keep_old` all. A row goes if `fresh` has its run, that of
    the method, parameters, data, seed, threads and jobs, and takes its place (`_replaces`). One of
    the same code stays if an experiment asked for it, with another limit, that did not ask for the
    new one.
    """
    path = target / "reference.parquet"
    if not path.exists():
        return None
    names = [*RUN, "seed"]
    read = [*names, "commit", "experiment", "message", "command", "environment"]
    run_of = itemgetter(*names)
    news, olds = fresh.select(read).to_pylist(), pq.read_table(path)
    again: defaultdict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in news:
        again[run_of(row)].append(row)
    commits = {row["commit"] for row in news if row["commit"] and not foreign(row["method"])}
    rows = olds.select(read).to_pylist()
    environments = {
        row["environment"] for row in [*news, *(one for one in rows if one["commit"] in commits)]
    }

    def stays(row: Mapping[str, Any]) -> bool:
        others = foreign(row["method"])
        present = row["environment"] in environments if others else row["commit"] in commits
        if not present and not keep_old:
            return False
        # Another machine's row is as good as a new one, unless kbench's code has changed since.
        lasting = others or present
        return not any(
            _replaces(new, row)
            for new in again[run_of(row)]
            if not lasting or new["environment"] == row["environment"]
            if not (others or new["commit"] == row["commit"])
            or set(asking_experiments(row)) <= set(asking_experiments(new))
        )

    return olds.filter(pa.array([stays(row) for row in rows], pa.bool_()))


def _replaces(fresh: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether a new row takes the place of an old one of the same run.

    One that was stopped leaves rows of longer limits, and one that fills no cell leaves those of
    another machine that do.
    """
    if old["environment"] != fresh["environment"] and fills_cells(old) and not fills_cells(fresh):
        return False
    seconds = stopped_at(fresh)
    return seconds is None or time_limit(old) <= seconds


def thinned(curves: pd.DataFrame) -> pd.DataFrame:
    """Curves of more than `MAX_POINTS` points with every k-th one, and those of shorter curves."""
    if curves.empty:
        return curves
    run = ["key", "environment", "threads", "x_name"]
    each = curves.groupby([*run, "curve"])
    length, place = each["x"].transform("size"), each.cumcount()
    step = (length / MAX_POINTS).map(math.ceil)
    places = pd.MultiIndex.from_frame(curves[[*run, "x"]])
    shared = places.isin(places[length <= MAX_POINTS])
    return curves[(place % step == 0) | (place == length - 1) | shared]


def of_first_seeds(curves: pa.Table, rows: pa.Table) -> pa.Table:
    """Curves without those of progress (`PROGRESS`) of the further seeds of a run on a machine.

    rows : the rows of all curves; the first seed is the smallest that has a curve of progress.
    """
    place = ["key", "environment"]
    progress = pc.is_in(curves["curve"], pa.array(PROGRESS))
    runs = rows.select([*place, *RUN, "seed"]).to_pandas().drop_duplicates(place)
    runs = curves.filter(progress).select(place).to_pandas().drop_duplicates().merge(runs, on=place)
    first = runs.groupby(["environment", *RUN], dropna=False)["seed"].transform("min")
    further = pd.MultiIndex.from_frame(runs.loc[runs["seed"] > first, place])
    of_further = pd.MultiIndex.from_frame(curves.select(place).to_pandas()).isin(further)
    return curves.filter(pc.invert(pc.and_(progress, pa.array(of_further))))


def named(rows: pa.Table, asked: Mapping[str, str]) -> pa.Table:
    """Rows that name all experiments which ask for their run: key -> names, `asked_for`."""
    experiments = []
    for row in rows.select(["key", "experiment"]).to_pylist():
        names = [*asking_experiments(row), *filter(None, asked.get(row["key"], "").split(","))]
        experiments.append(",".join(dict.fromkeys(names)) or None)
    place = rows.schema.get_field_index("experiment")
    field = rows.schema.field("experiment")
    return rows.set_column(place, field, pa.array(experiments, field.type))


def experiments_by_key(stages: Mapping[str, Mapping[str, Any]], folder: Path) -> dict[str, str]:
    """Key -> experiments, of all commands of the stages that make rows of the papers."""
    layouts = [*(t for one in PAPERS for t in paper(one).tables.values()), *figures()]
    of_papers = {name for one in layouts for name in experiments_of(one.run)}
    runs: list[Run] = []
    with composer() as hydra:
        for stage in stages.values():
            for command in stage["commands"]:
                words = words_to_run(folder, stage, command)
                if of_papers & experiments_of(command):
                    overrides = [word for word in words if word != "-m"]
                    runs += make_plan(hydra, overrides, multirun=True).runs
    return asked_for(runs)


def collect(
    source: Path, target: Path, *, keep_old: bool = False, asked: Mapping[str, str] | None = None
) -> None:
    """Make the rows of a folder the reference rows, beside those that stay (`staying`).

    asked : key -> experiments of the run in the plan (`named`).
    """
    folder = ResultsFolder(source)
    rows = folder.read(reference=False)
    rows = rows[rows["status"] != "interrupted"]  # which says nothing of the method
    if rows.empty:
        sys.exit(f"{source}: no rows")
    if dirty := int((~rows["dirty"].isin([False])).sum()):
        sys.exit(f"{source}: {dirty} rows are of a work tree with changes, or of unknown code")
    merged = folder.merge().path
    assert merged is not None
    finished = pq.read_table(merged, filters=pc.field("status") != "interrupted")
    finished = named(finished, asked or {})  # before `staying`, which compares experiments
    curves = thinned(folder.read_curves(reference=False))
    curves = curves[curves["key"].isin(finished["key"].to_pylist())]
    table = pa.Table.from_pandas(curves, schema=curve_schema(), preserve_index=False)
    environments = dict.fromkeys(rows["environment"], source / "_environments")
    if (stay := staying(target, finished, keep_old=keep_old)) is not None:
        kept = pq.read_table(target / "_curves").cast(table.schema)
        of_theirs = pc.is_in(kept["key"], stay["key"].combine_chunks())
        table = pa.concat_tables([table, kept.filter(of_theirs)])
        n_before = pq.read_metadata(target / "reference.parquet").num_rows
        own = sum(not foreign(name) for name in stay["method"].to_pylist())
        print(
            f"of {n_before} rows that were there {len(stay) - own} of other packages' methods and"
            f" {own} of kbench's stay, {n_before - len(stay)} go; {len(finished)} are new"
        )
        finished = pa.concat_tables([finished, named(stay, asked or {})], promote_options="default")
        for name in stay["environment"].to_pylist():
            environments.setdefault(name, target / "_environments")
    table = of_first_seeds(table, finished)
    texts = {name: (place / f"{name}.json").read_bytes() for name, place in environments.items()}
    # Old files go last: rows that an interruption leaves have their curves and environments.
    files = {target / "_environments" / f"{name}.json": text for name, text in texts.items()}
    for path, text in files.items():
        with atomic_file(path) as file:
            file.write(text)
    of_curves = target / "_curves" / "curves.parquet"
    with atomic_file(of_curves) as file:
        pq.write_table(
            table.replace_schema_metadata(None),
            file,
            **_SMALL,
            use_dictionary=["key", "environment", "curve", "x_name"],
            use_byte_stream_split=["x", "value"],  # their equal bytes beside each other
        )
    with atomic_file(target / "reference.parquet") as file:
        pq.write_table(finished, file, **_SMALL)
    for name in ("_curves", "_environments"):
        for path in (target / name).iterdir():
            if path != of_curves and path not in files:
                path.unlink()
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
    table = pq.read_table(target / "reference.parquet")
    rows = table.to_pandas()
    limits = [limit(row, "wall_s") for row in table.select(["command"]).to_pylist()]
    columns = {
        "status": rows["status"],
        "environment": rows["environment"],
        "commit": rows["commit"].str[:7],
        "limit, seconds": [f"{one:g}" for one in limits],
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
    words = list(arguments)
    hours = None
    if "--hours" in words[:-1]:
        place = words.index("--hours")
        try:
            hours = float(words[place + 1])
        except ValueError:
            sys.exit(f"--hours takes a number, not {words[place + 1]!r}")
        del words[place : place + 2]
    keep_old = "--keep-old" in words
    words = [word for word in words if word != "--keep-old"]
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    match words:
        case ["plan", folder, *names] if hours is None and not keep_old:
            show_plan(Path(folder), yaml.safe_load(PLAN.read_text(encoding="utf-8")), names)
        case ["run", folder, *names] if not keep_old:
            plan = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
            run(Path(folder), plan, names, hours=hours)
        case ["collect", folder, *rest] if len(rest) <= 1 and hours is None:
            target = Path(rest[0] if rest else "results/_reference")
            plan = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
            asked = experiments_by_key(plan, Path(folder))
            collect(Path(folder), target, keep_old=keep_old, asked=asked)
        case ["describe", *rest] if len(rest) <= 1 and hours is None and not keep_old:
            describe(Path(rest[0] if rest else "results/_reference"))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main(sys.argv[1:])
