"""Selection of the runs of a panel's lines, and what is known of the seconds of these runs."""

import itertools
import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbench.papers.cells.readings import of_wall_seconds
from kbench.papers.cells.runs import Runs, made_by, preference, version_of
from kbench.papers.figures.figure import Figure, Panel, PanelLine
from kbench.papers.printed.layout import Choice
from kbench.report.comparisons.tables import Line, Machine, Problem, Row, began, contended

# Label of a panel's line -> its runs: a `Line` for each setting, and the problem that it is of.
Chosen = Mapping[str, Sequence[tuple[Line, Problem]]]

# Runs with more seconds between them are of different days. With six hours the runs of one evening
# (`results/_reference`, 2026-11-23) were of two days, so that no day had all lines of DC-SVM's
# Figure 3.
_NIGHT_S = 12 * 3600.0


def choose(
    figure: Figure, panel: Panel, runs: Runs, machine: Machine, choices: Sequence[Choice]
) -> Chosen:
    """The runs of each line, made by the figure's experiments: of one setting, or all for a front.

    Lines over seconds keep the runs of days that all of them have.
    """
    chosen: dict[str, list[tuple[Line, Problem]]] = {}
    for label, line in panel.lines.items():
        pairs = [
            pair
            for choice in choices
            for pair in runs.lines(machine, line.wanted, choice, figure.experiments)
        ]
        if figure.front:
            chosen[label] = [pair for pair in pairs if made_by(figure.experiments, pair[0])]
        else:
            chosen[label] = _of_one_setting(pairs, line.swept, figure.experiments)
    return _of_same_days(panel, chosen)


def is_disturbed(line: PanelLine, pairs: Iterable[tuple[Line, Problem]]) -> bool:
    """Whether a line is over wall seconds, and other processes disturbed all its runs."""
    names = (*line.wanted.at, line.x.curve, line.y.curve)
    rows = [row for runs, _ in pairs for row in runs.ok]
    return bool(rows) and any(map(of_wall_seconds, names)) and all(map(contended, rows))


def n_contended(panel: Panel, chosen: Chosen) -> int:
    """Number of ok runs that other processes disturbed, of the lines whose axes have seconds."""
    return sum(map(contended, _timed_rows(panel, chosen)))


def _of_one_setting(
    pairs: Iterable[tuple[Line, Problem]], swept: Container[str], experiments: Container[str]
) -> list[tuple[Line, Problem]]:
    """The runs of one setting and one version of the method, one that `experiments` made.

    They differ only in the parameters `swept` and in the data set. Other commands may have made
    some of them: a run that is there is not repeated, and its row names the first command's
    experiment. Of several settings that of the newest version counts, then the one with most
    points, then the one that cells prefer. Of several lines with the same parameters on one data
    set one is left.
    """
    settings: defaultdict[tuple[int, str], list[tuple[Line, Problem]]] = defaultdict(list)
    for line, problem in pairs:
        fixed = {name: value for name, value in line.params.items() if name not in swept}
        settings[version_of(line), json.dumps(fixed, sort_keys=True)].append((line, problem))

    def order(setting: tuple[int, str]) -> tuple[Any, ...]:
        lines = [line for line, _ in settings[setting]]
        n_ok = sum(bool(line.ok) for line in lines)
        return n_ok > 0, setting[0], n_ok, max(map(preference, lines))

    made = [
        setting
        for setting, members in settings.items()
        if any(made_by(experiments, line) for line, _ in members)
    ]
    members = settings[max(made, key=order)] if made else []
    places = {
        (problem.dataset, problem.variant, json.dumps(line.params, sort_keys=True)): (line, problem)
        for line, problem in sorted(members, key=lambda pair: preference(pair[0]))
    }
    return list(places.values())


def _of_same_days(panel: Panel, chosen: dict[str, list[tuple[Line, Problem]]]) -> Chosen:
    """The lines; those over seconds without the runs of days on which another of them has none.

    Seconds of equal runs differ from day to day, so a mean over two days would stand beside one of
    the slower day alone. If there is no day of which all lines over seconds have runs, all stay.
    """
    starts = sorted(map(began, _timed_rows(panel, chosen)))
    mornings = [b for a, b in itertools.pairwise([-math.inf, *starts]) if b - a > _NIGHT_S]

    def day(row: Row) -> int:
        return bisect_right(mornings, began(row))

    labels = _over_seconds(panel)
    days = [{day(row) for line, _ in chosen[label] for row in line.ok} for label in labels]
    common = set[int]().union(*days).intersection(*filter(None, days))
    if not common:
        return chosen

    def of_common_days(line: Line) -> Line:
        rows = [row for row in line.rows if day(row) in common]
        return replace(line, rows=rows) if rows else line

    kept = {
        label: [(of_common_days(line), problem) for line, problem in chosen[label]]
        for label in labels
    }
    return {**chosen, **kept}


def _over_seconds(panel: Panel) -> list[str]:
    """The labels of the lines whose axes have seconds."""
    return [label for label, line in panel.lines.items() if line.x.seconds or line.y.seconds]


def _timed_rows(panel: Panel, chosen: Chosen) -> list[Row]:
    """The ok runs of the lines whose axes have seconds."""
    return [row for label in _over_seconds(panel) for line, _ in chosen[label] for row in line.ok]
