"""kbench report [pages|compare|ranking|plot|papers] [format=FORMAT] [out=FILE] [...]

FORMAT is terminal, markdown, csv, json, latex, html or mlflow.

The report compares methods on each data set: accuracy or error, seconds of training and prediction,
prediction cost and memory, as means and standard deviations over seeds. Times of different
environments or thread counts stand in different tables, and a failed cell shows its status. The
report goes to standard output or into FILE; format=html makes one page with plots and every row
behind its cells, in report.html unless out=FILE names another file. `kbench report pages` (or `make
tables`) writes every format to results/_report/ instead.

If a method has more than settings=5 parameter settings on a data set, the table shows the best on
the test set and counts the others. dataset=a,b, method=a,b and tag=a,b (labels that commands gave
their runs) choose rows; metric=f1 ranks by another score, columns=roc_auc,fit_wall_s shows other
columns beside the score; trials=true includes the trials of a tuning, reference=true includes the
rows that came with kbench, and results_dir=DIR reads another folder. The pages and the tables of
the papers have the rows that came with kbench unless reference=false.

format=mlflow writes the rows as runs of the experiment `kbench` of MLflow: to _mlflow.db in the
results folder, or to the tracking URI out=http://host:5000. Rows that the store has already are
skipped. This format needs kbench[mlflow].

`kbench report compare method=a,b [dataset=...] [tag=...] [metric=...] [format=...]` (all formats
but html and mlflow) compares methods over the data sets on which all of them have runs: mean ranks,
and differences of every pair over the same seeds, with 95 % bootstrap intervals.

`kbench report ranking [task=regression] [n=20000] [d=30] [classes=5] [format=...]` ranks methods
for data like yours: distances to the best score, ranks, seconds and failures over data sets of a
task within a factor of ten of n training rows and d features, and a factor of three of the classes
(if fewer than two are left, over more sets, as a note says). The settings of the methods were
chosen without test rows. The rows are those that came with kbench, and your own rows of the same
experiments.

`kbench report plot [x=fit_cpu_s] [y=accuracy] [method=...] [dataset=...] [out=plot.png]` draws a
panel for each data set, as PNG, SVG or PDF: methods over a measured column with the Pareto front,
scores over a swept parameter (x=C), or curves (x=seconds y=objective).

`kbench report papers [table=hss_table5,dcsvm,...] [format=...]` prints every table of the five
papers, each cell as "printed | measured". table=claims gives the papers' claims with verdicts
computed from the rows, table=cells counts the measured cells, table=causes lists why measured and
printed scores differ, table=systems separates the gains of the idea and of faster code, and
table=budgets compares methods at equal prediction costs. Other packages may add words like `papers`
(entry points of the group kbench.reports).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.commands.arguments import (
    one_of,
    parse_boolean,
    parse_integer,
    parse_names,
    parse_words,
    results_folder,
)
from kbench.errors import ConfigError
from kbench.mistyped import nearest

if TYPE_CHECKING:
    from kbench.report.plugins import Plugin
    from kbench.run.results.folder import ResultsFolder


WORDS = ("compare", "pages", "plot", "ranking", *sorted(entry_points(group="kbench.reports").names))
KEYS = ["format", "out", "method", "dataset", "tag", "metric", "columns", "settings", "trials"]
KEYS += ["reference", "results_dir", "table", "task", "n", "d", "classes", "x", "y"]
# Key that only one kind of report takes -> the word of the command line for this report.
_REPORT_OF_KEY = {"table": "papers", "task": "ranking", "n": "ranking", "d": "ranking"}
_REPORT_OF_KEY |= {"classes": "ranking", "x": "plot", "y": "plot"}
# Keys that choose rows, and keys of reports that can be printed.
_ROW_KEYS = ("method", "dataset", "tag", "reference", "results_dir")
_PRINT_KEYS = ("format", "out", "reference", "results_dir")
# Keys that a plot does not take -> what to write instead.
_INSTEAD_IN_PLOT = {
    "format": "out=plot.{} chooses it",
    "metric": "write y={}",
    "columns": "write x={}",
}
# Suffix of a file -> the default format of this file.
_FORMAT_OF_SUFFIX = {"txt": "terminal", "md": "markdown", "tex": "latex", "htm": "html"}
# Word -> the keys that this report takes; plug-ins take `_PLUGIN_KEYS`.
_KEYS_OF_REPORT = {
    "": [key for key in KEYS if key not in _REPORT_OF_KEY],
    "compare": (*_ROW_KEYS, "format", "out", "metric", "trials"),
    "format=mlflow": (*_ROW_KEYS, "format", "out", "trials"),
    "pages": ("reference", "results_dir"),
    "plot": (*_ROW_KEYS, "out", "x", "y"),
    "ranking": (*_PRINT_KEYS, "task", "n", "d", "classes"),
}
_PLUGIN_KEYS = (*_PRINT_KEYS, "table")


def main(argv: Sequence[str]) -> int:
    """Print or write the report; exit code 0."""
    from kbench.report.plugins import installed_plugins

    first_word = next((word for word in argv if "=" not in word), "")
    words, values = parse_words(argv, KEYS, _KEYS_OF_REPORT.get(first_word, _PLUGIN_KEYS))
    plugin = installed_plugins().get(words[0]) if words else None
    if unknown := [*words[1:], *(word for word in words[:1] if not plugin and word not in WORDS)]:
        hint = _hint_for(unknown[-1], words[0])
        raise ConfigError(f"kbench report takes no {unknown[-1]!r}{hint}")
    word = words[0] if words else "format=mlflow" if values.get("format") == "mlflow" else ""
    command = " ".join(["report", word]).rstrip()
    for key in values:
        if key not in _KEYS_OF_REPORT.get(word, _PLUGIN_KEYS):
            hint = f"; kbench report {_REPORT_OF_KEY[key]} does" if key in _REPORT_OF_KEY else ""
            if word == "plot" and key in _INSTEAD_IN_PLOT:
                hint = f": {_INSTEAD_IN_PLOT[key].format(values[key])}"
            raise ConfigError(f"kbench {command} takes no {key}=...{hint}")
    folder = results_folder(values)
    if values.get("out") == "-":
        raise ConfigError("out=-: leave it out, the report goes to standard output then")
    for key in ("method", "dataset", "columns", "table"):
        if (value := values.get(key, "")).startswith("["):
            names = value.strip("[]").replace(" ", "")
            raise ConfigError(f"{key}={value}: write a list without brackets, as in {key}={names}")
    if plugin is not None:
        return _plugin_report(word, plugin, folder, values)
    return _REPORTS[word](folder, values)


def _hint_for(word: str, first_word: str) -> str:
    """What to write in place of a word that names no report."""
    from kbench.report import FORMATS
    from kbench.run.results.metrics import METRICS

    if word in (*FORMATS, *_FORMAT_OF_SUFFIX):
        return f": write format={_FORMAT_OF_SUFFIX.get(word, word)}"
    if first_word == "compare":
        return f": write method={word}" + ",..." * ("," not in word)
    if first_word == "papers":
        return f": write table={word}"
    if word in METRICS:
        return f": write kbench report ranking task={word}"
    if word in ("claims", "cells", "causes"):
        return f": write kbench report papers table={word}"
    words = ", ".join(f"`{report}`" for report in WORDS)
    return nearest(word, WORDS) or f", should be key=value or one of {words}"


def _result_tables(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import FORMATS, SETTINGS, make_report

    output = _output_options(values, (*FORMATS, "mlflow"))
    text = make_report(
        folder,
        metric=values.get("metric"),
        columns=parse_names(values.get("columns")),
        settings=parse_integer("settings", values.get("settings", str(SETTINGS))),
        trials=_parse_flag(values, "trials"),
        **_row_filters(values),
        **output,
    )
    return _print_report(text, output)


def _compare(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import COMPARE_FORMATS, make_comparison

    output = _output_options(values, COMPARE_FORMATS)
    text = make_comparison(
        folder,
        metric=values.get("metric"),
        trials=_parse_flag(values, "trials"),
        **_row_filters(values),
        **output,
    )
    return _print_report(text, output)


def _plugin_report(
    word: str, plugin: "Plugin", folder: "ResultsFolder", values: Mapping[str, str]
) -> int:
    output = _output_options(values, plugin.formats, f"{word}.html")
    reference = _parse_flag(values, "reference", "true")
    text = plugin.make(
        folder, tables=parse_names(values.get("table")), reference=reference, **output
    )
    return _print_report(text, output)


def _ranking(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    """`kbench report ranking`; a key that the user leaves out restricts no data set."""
    from kbench.report import COMPARE_FORMATS, make_ranking
    from kbench.run.results.metrics import METRICS

    output = _output_options(values, COMPARE_FORMATS)
    task = values.get("task")
    sizes = {key: parse_integer(key, values[key]) for key in ("n", "d", "classes") if key in values}
    text = make_ranking(
        folder,
        task=None if task is None else one_of("task", task, METRICS),
        n=sizes.get("n"),
        d=sizes.get("d"),
        classes=sizes.get("classes"),
        reference=_parse_flag(values, "reference", "true"),
        **output,
    )
    return _print_report(text, output)


def _plot(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import plot

    out = Path(values.get("out", "plot.png"))
    plot(folder, values.get("x", "fit_cpu_s"), values.get("y"), out=out, **_row_filters(values))
    print(out)
    return 0


def _mlflow(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import export_runs

    store = values.get("out") or f"sqlite:///{folder.path.resolve() / '_mlflow.db'}"
    trials = _parse_flag(values, "trials")
    written, skipped = export_runs(folder, store, trials=trials, **_row_filters(values))
    print(f"{store}: {written:,} runs written, {skipped:,} were there")
    return 0


def _pages(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import write_report

    for path in write_report(folder, reference=_parse_flag(values, "reference", "true")):
        print(path)
    return 0


_REPORTS = {
    "": _result_tables,
    "compare": _compare,
    "format=mlflow": _mlflow,
    "pages": _pages,
    "plot": _plot,
    "ranking": _ranking,
}


def _row_filters(values: Mapping[str, str]) -> dict[str, Any]:
    """The arguments that choose a report's rows."""
    options = {f"{key}s": parse_names(values.get(key)) for key in ("method", "dataset", "tag")}
    return {**options, "reference": _parse_flag(values, "reference")}


def _output_options(
    values: Mapping[str, str], formats: Iterable[str], page_name: str = "report.html"
) -> dict[str, Any]:
    """Arguments of a report that say how and where it is written: `format`, `out` and `colour`.

    `out` is None for standard output; a page goes to the file `page_name` by default.
    """
    from kbench.report.text.terminal import takes_colour

    format = one_of("format", values.get("format") or _format_of(values.get("out")), formats)
    name = values.get("out") or (page_name if format == "html" else None)
    out = None if name is None else Path(name)
    return {"format": format, "out": out, "colour": out is None and takes_colour(sys.stdout)}


def _format_of(out: str | None) -> str:
    """The format that belongs to the suffix of `out`."""
    from kbench.report import FORMATS

    suffix = Path(out or "").suffix.lower().removeprefix(".")
    format = _FORMAT_OF_SUFFIX.get(suffix, suffix) or "terminal"
    if format not in FORMATS:
        raise ConfigError(
            f"out={out}: no report has the suffix .{suffix}; write format=NAME too, one of "
            f"{', '.join(FORMATS)}"
        )
    return format


def _print_report(text: str, output: Mapping[str, Any]) -> int:
    """Print the report, or the name of the file to which it has been written."""
    if output["out"] is None:
        sys.stdout.write(text)
    else:
        print(output["out"])
    return 0


def _parse_flag(values: Mapping[str, str], key: str, default: str = "false") -> bool:
    return parse_boolean(key, values.get(key, default))
