"""The runs behind the stages of `reference.yaml`: their costs, and the cells that they leave empty.

Costs are CPU seconds of rows that are there, with loading and the warm-up fit; a run that ended at
its limit of seconds costs that limit, or a longer one that the new run has. A run without a row
costs as much as the mean of its method on the same data, then on any data. No run costs more than
its limit.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import yaml

from kbench.config import Composer, shipped_root
from kbench.papers.cells.runs import Runs, asked_by
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import PAPERS, CellPlace, Paper, Selector, experiments_of, paper
from kbench.report.comparisons.tables import TimingConditions
from kbench.report.statistics.growth import MIN_SIZES
from kbench.run.execution.runner import finished_here, todo_and_done
from kbench.run.planning.plan import make_plan
from kbench.run.planning.task import Run
from kbench.run.results.stopped import stopped_at

# Seconds between two runs of one command that are in no column of a row: the start of the worker.
STARTING = 0.35
# Seconds of a run whose method has no row at all, set by hand.
UNKNOWN = 10.0


class Costs:
    """Seconds of runs, from rows as a results folder reads them."""

    def __init__(self, rows: pd.DataFrame) -> None:
        # Seconds, and whether the run was stopped after them.
        self._known: defaultdict[tuple[Any, ...], list[tuple[float, bool]]] = defaultdict(list)
        columns = ["load_s", "warmup_s", "fit_cpu_s", "predict_cpu_s"]
        names = ["method", "dataset", "variant", "params", "message", *columns]
        for row in rows[names].astype(object).where(rows[names].notna(), None).to_dict("records"):
            limit = stopped_at(row)
            seconds = sum(row[name] or 0.0 for name in columns) if limit is None else limit
            params = json.loads(row["params"] or "{}")
            for place in _places(row["method"], row["dataset"], row["variant"], params):
                self._known[place].append((seconds, limit is not None))

    def of(self, run: Run) -> float:
        """The mean over the rows most like the run."""
        limit = run.limits.wall_s
        for place in _places(run.method, run.dataset, run.variant, run.params):
            if known := self._known.get(place):
                seconds = [limit if stopped else min(one, limit) for one, stopped in known]
                return STARTING + sum(seconds) / len(seconds)
        return STARTING + min(UNKNOWN, limit)


def _places(
    method: str, dataset: str, variant: str | None, params: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    yield method, dataset, variant, json.dumps(dict(params), sort_keys=True)
    yield method, dataset, variant
    yield method, dataset
    yield (method,)


def words_of(command: str, stage: Mapping[str, Any]) -> list[str]:
    """A command's words, with `method=` where the stage leaves out methods of its experiment.

    Raises
    ------
    ValueError
        It names several experiments, of which one has such methods.
    """
    words = command.split()
    left_out = set(stage.get("leave_out", ()))
    experiments = experiments_of(command)
    if not any(word.startswith("method=") for word in words):
        for experiment in sorted(experiments):
            path = shipped_root() / "experiment" / f"{experiment}.yaml"
            listed = yaml.safe_load(path.read_text(encoding="utf-8"))["plan"]["methods"]
            names = dict.fromkeys(
                one if isinstance(one, str) else next(iter(one)) for one in listed
            )
            if left_out & set(names):
                if len(experiments) > 1:
                    raise ValueError(
                        f"a command of several experiments cannot leave out methods: {command}"
                    )
                kept = ",".join(name for name in names if name not in left_out)
                return [*words, f"method={kept}"]
    return words


@dataclass(frozen=True)
class Planned:
    """All runs of a command, the number of those without a row in the folder, and their seconds."""

    runs: Sequence[Run]
    n_todo: int
    seconds: float


def planned(composer: Composer, words: Sequence[str], costs: Costs) -> Planned:
    """The runs that a command of these words, the ones after `kbench`, would make."""
    overrides = [word for word in words if word != "-m"]
    plan = make_plan(composer, overrides, multirun="-m" in words)
    todo, _ = todo_and_done(plan, finished_here(plan))
    return Planned(plan.runs, len(todo), sum(map(costs.of, todo)))


def asked_for(runs: Sequence[Run]) -> dict[str, str]:
    """By key of a run: the experiments that ask for it in any command, separated by commas.

    A run that another command has made is not repeated, so that its row names the first command's
    experiments alone.
    """
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for run in runs:
        found[run.key] |= dict.fromkeys(filter(None, (run.experiment or "").split(",")))
    return {key: ",".join(names) for key, names in found.items()}


def open_places(runs: Sequence[Run]) -> list[str]:
    """Cells and lines of figures that no run of their experiments fills.

    Those without data or without a method are left out.
    """
    machine = TimingConditions("planned", 1, None)
    asked = asked_for(runs)
    rows = [
        {
            "key": run.key,
            "experiment": asked[run.key],
            "environment": machine.environment,
            "threads": machine.threads,
            "jobs": machine.jobs,
            "method": run.method,
            "dataset": run.dataset,
            "variant": run.variant,
            "params": json.dumps(dict(run.params)),
        }
        for run in {run.key: run for run in runs}.values()
    ]
    known = Runs(rows)

    def n_sizes(of: Paper, wanted: Selector) -> int:
        of_choices = (known.matching(machine, wanted, one) for one in of.data[wanted.data or ""])
        return sum(any(asked_by(wanted.experiments, row) for row in rows) for rows in of_choices)

    found = []
    for of in map(paper, PAPERS):
        for table in of.tables.values():
            for row in table.rows:
                if row in table.lacking:
                    continue
                for column in table.columns:
                    cells = [CellPlace(table, row, column, label) for label in table.measures]
                    wanted = table.wanted[row, column]
                    if wanted.data is None or cells[0].absent:
                        continue
                    n = n_sizes(of, wanted)
                    found += [
                        " | ".join(filter(None, (table.id, row, column, cell.label)))
                        for cell in cells
                        if cell.measure.is_readable
                        and cell.printed
                        and n < (MIN_SIZES if cell.measure.over else 1)
                    ]
    for figure in figures():
        of = paper(figure.paper)
        for panel in figure.panels:
            if panel.data not in of.absent:
                least = 2 if panel.x.size else 1
                missing = [
                    label
                    for label, (wanted, *_) in panel.lines.items()
                    if n_sizes(of, wanted) < least
                ]
                found += [f"{figure.name} | {panel.title} | {label}" for label in missing]
    return found
