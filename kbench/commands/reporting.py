"""kbench report [pages|compare|ranking|plot|papers] [format=FORMAT] [out=FILE] [...]

FORMAT is terminal, markdown, csv, json, latex, html or mlflow.

Compares methods on each data set: accuracy or error, seconds of training and prediction, prediction
cost and memory, as means and standard deviations over seeds. Times of different environments or
thread counts stand in different tables, and a failed cell shows its status. The report goes to
standard output or into FILE; format=html makes one page with plots and every row behind its cells,
in report.html unless out=FILE names another file. `kbench report pages` (or `make tables`) writes
every format to results/_report/ instead.

If a method has more than settings=5 parameter settings on a data set, the table shows the best on
the test set and counts the others. dataset=a,b, method=a,b and tag=a,b (labels that commands gave
their runs) choose rows; metric=f1 leads with another score, columns=roc_auc,fit_wall_s shows other
columns beside it; trials=true includes the trials of a tuning, reference=true the rows that came
with kbench, and results_dir=DIR reads another folder. The pages and the tables of the papers have
the rows that came with kbench unless reference=false.

format=mlflow writes the rows as runs of the experiment `kbench` of MLflow: to _mlflow.db in the
results folder, or to the tracking URI out=http://host:5000. It skips rows that the store has
already, and needs kbench[mlflow].

`kbench report compare method=a,b [dataset=...] [tag=...] [metric=...] [format=...]` (all formats
but html and mlflow) compares methods over the data sets on which all of them have runs: mean ranks,
and differences of every pair over the same seeds, with 95 % bootstrap intervals.

`kbench report ranking [task=regression] [n=20000] [d=30] [format=...]` says which method for which
data: distances to the best score, ranks, seconds and failures over data sets of a task within a
factor of ten of n training rows and d features, each method with a setting that no test row chose,
from the rows that came with kbench and your own of the same experiments.

`kbench report plot [x=fit_cpu_s] [y=accuracy] [method=...] [dataset=...] [out=plot.png]` draws a
panel for each data set, as PNG, SVG or PDF: methods over a measured column with the Pareto front,
scores over a swept parameter (x=C), or curves (x=seconds y=objective).

`kbench report papers [table=hss_table5,dcsvm,...] [format=...]` prints every table of the five
papers, each cell as "printed | measured". table=claims gives the papers' claims with verdicts
computed from the rows, table=cells counts the measured cells, table=causes lists why scores differ
from the printed ones, table=systems separates the gain of the idea from that of faster code,
table=budgets compares methods at equal prediction costs, and table=rankings ranks them over data
sets. Other packages may add words like `papers` (entry points of the group kbench.reports).
"""

import sys
from collections.abc import Container, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.commands.arguments import names, one_of, read, results_folder, truth, whole
from kbench.errors import ConfigError

if TYPE_CHECKING:
    from kbench.report.plugins import Plugin
    from kbench.run.results.folder import ResultsFolder


WORDS = ("compare", "pages", "plot", "ranking", *sorted(entry_points(group="kbench.reports").names))
KEYS = ["format", "out", "method", "dataset", "tag", "metric", "columns", "settings", "trials"]
KEYS += ["reference", "results_dir", "table", "task", "n", "d", "x", "y"]
# Key -> the word that takes it.
_OF_ONE = {"table": "papers", "task": "ranking", "n": "ranking", "d": "ranking"}
_OF_ONE |= {"x": "plot", "y": "plot"}


def main(argv: Sequence[str]) -> int:
    """Print or write the report; exit code 0."""
    from kbench.report import COMPARE_FORMATS, FORMATS, SETTINGS, make_comparison, make_report
    from kbench.report.plugins import installed_plugins
    from kbench.report.text.terminal import takes_colour

    bare, values = read(argv, KEYS)
    if not bare and values.get("format") == "mlflow":
        return _mlflow(values)
    folder = results_folder(values)
    if bare == ["pages"]:
        _refuse("pages", values, without=[k for k in KEYS if k not in ("reference", "results_dir")])
        return _pages(folder, reference=_flag(values, "reference", "true"))
    if len(bare) == 1 and bare[0] in installed_plugins():
        return _plugin(bare[0], installed_plugins()[bare[0]], folder, values)
    if bare == ["ranking"]:
        return _ranking(folder, values)
    if bare == ["plot"]:
        return _plot(folder, values)
    if bare not in ([], ["compare"]):
        words = ", ".join(f"`{word}`" for word in WORDS)
        raise ConfigError(f"kbench report takes key=value or one of {words}, not {bare[-1]!r}")
    for key, word in _OF_ONE.items():
        if key in values:
            raise ConfigError(f"kbench report takes no {key}=...; kbench report {word} does")
    format = one_of(
        "format",
        values.get("format", "terminal"),
        COMPARE_FORMATS if bare else (*FORMATS, "mlflow"),
    )
    out = _out(values, format, "report.html")
    options: dict[str, Any] = {
        "format": format,
        "out": out,
        "methods": names(values.get("method")),
        "datasets": names(values.get("dataset")),
        "tags": names(values.get("tag")),
        "metric": values.get("metric"),
        "reference": _flag(values, "reference", "false"),
        "trials": _flag(values, "trials", "false"),
        "colour": out is None and takes_colour(sys.stdout),
    }
    if bare:
        _refuse("compare", values, without=("columns", "settings"))
        text = make_comparison(folder, **options)
    else:
        columns = names(values.get("columns"))
        settings = whole("settings", values.get("settings", str(SETTINGS)))
        text = make_report(folder, columns=columns, settings=settings, **options)
    return _deliver(text, out)


def _plugin(word: str, plugin: "Plugin", folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report.text.terminal import takes_colour

    taken = ("format", "out", "table", "reference", "results_dir")
    _refuse(word, values, without=[key for key in KEYS if key not in taken])
    format = one_of("format", values.get("format", "terminal"), plugin.formats)
    out = _out(values, format, f"{word}.html")
    text = plugin.make(
        folder,
        tables=names(values.get("table")),
        format=format,
        out=out,
        reference=_flag(values, "reference", "true"),
        colour=out is None and takes_colour(sys.stdout),
    )
    return _deliver(text, out)


def _ranking(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import COMPARE_FORMATS, make_ranking
    from kbench.report.text.terminal import takes_colour
    from kbench.run.results.metrics import METRICS

    taken = ("task", "n", "d", "format", "out", "reference", "results_dir")
    _refuse("ranking", values, without=[key for key in KEYS if key not in taken])
    format = one_of("format", values.get("format", "terminal"), COMPARE_FORMATS)
    out = _out(values, format, "report.html")
    task = values.get("task")
    text = make_ranking(
        folder,
        task=None if task is None else one_of("task", task, METRICS),
        n=whole("n", values["n"]) if "n" in values else None,
        d=whole("d", values["d"]) if "d" in values else None,
        format=format,
        out=out,
        reference=_flag(values, "reference", "true"),
        colour=out is None and takes_colour(sys.stdout),
    )
    return _deliver(text, out)


def _plot(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import plot

    taken = ("x", "y", "method", "dataset", "tag", "reference", "out", "results_dir")
    _refuse("plot", values, without=[key for key in KEYS if key not in taken])
    out = Path(values.get("out", "plot.png"))
    plot(
        folder,
        values.get("x", "fit_cpu_s"),
        values.get("y"),
        methods=names(values.get("method")),
        datasets=names(values.get("dataset")),
        tags=names(values.get("tag")),
        reference=_flag(values, "reference", "false"),
        out=out,
    )
    print(out)
    return 0


def _mlflow(values: Mapping[str, str]) -> int:
    from kbench.report import export_runs

    _refuse("format=mlflow", values, without=("metric", "columns", "settings", "table"))
    folder = results_folder(values)
    store = values.get("out") or f"sqlite:///{folder.path.resolve() / '_mlflow.db'}"
    written, skipped = export_runs(
        folder,
        store,
        methods=names(values.get("method")),
        datasets=names(values.get("dataset")),
        tags=names(values.get("tag")),
        trials=_flag(values, "trials", "false"),
        reference=_flag(values, "reference", "false"),
    )
    print(f"{store}: {written:,} runs written, {skipped:,} were there")
    return 0


def _refuse(word: str, values: Mapping[str, str], *, without: Container[str]) -> None:
    """Raise a ConfigError for the first key of the command line that is among `without`."""
    for key in values:
        if key in without:
            raise ConfigError(f"kbench report {word} takes no {key}=...")


def _out(values: Mapping[str, str], format: str, page: str) -> Path | None:
    """The file to write, None for standard output; a page goes to the file `page` by default."""
    name = values.get("out") or (page if format == "html" else None)
    return None if name is None else Path(name)


def _deliver(text: str, out: Path | None) -> int:
    if out is None:
        sys.stdout.write(text)
    else:
        print(out)
    return 0


def _pages(folder: "ResultsFolder", *, reference: bool) -> int:
    from kbench.report import write_report

    for path in write_report(folder, reference=reference):
        print(path)
    return 0


def _flag(values: Mapping[str, str], key: str, default: str) -> bool:
    return truth(key, values.get(key, default))
