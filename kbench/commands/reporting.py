"""kbench report [pages|compare|papers] [format=FORMAT] [out=FILE] [...]

FORMAT is terminal, markdown, csv, json, latex, html or mlflow.

Methods x data sets: accuracy or error, train and predict seconds, prediction cost, memory; mean
and spread over seeds. Times of different environments or thread counts stand in different tables,
and a failed cell shows its status. Goes to standard output or into FILE; format=html is one page
with plots and every row behind its cells, in report.html unless out=FILE. `kbench report pages`
writes every format to results/_report/ instead, as `make tables` does.

A method with more than settings=5 parameter settings on a data set shows the best on the test set,
and says so. dataset=a,b and method=a,b choose rows; metric=f1 leads with another score, and
columns=roc_auc,fit_wall_s shows other columns beside it; trials=true takes the trials of a tuning
in, reference=false leaves out the rows that came with kbench, results_dir=DIR reads another folder.

format=mlflow writes the rows as runs of the experiment `kbench` of MLflow, without the rows that
came with kbench unless reference=true: to _mlflow.db in the results folder, or to the tracking URI
out=http://host:5000. Rows that the store has already are left out. It needs kbench[mlflow].

`kbench report compare method=a,b [dataset=...] [metric=...] [format=...]` (no HTML)
compares any methods over the data sets on which all of them have runs: mean ranks, and differences
of every pair over the same seeds, with 95 % bootstrap intervals.

`kbench report papers [table=hss_table5,dcsvm,...] [format=...]` is every table of the
five papers, each cell as "printed | measured", what the papers claim with verdicts computed from
the rows (table=claims), how many cells are measured (table=cells), what part of a gain is the idea
and what faster code (table=systems), what a budget for predictions buys (table=budgets), and how
methods rank over data sets (table=rankings).
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.commands.arguments import names, one_of, read, whole
from kbench.errors import ConfigError

if TYPE_CHECKING:
    from kbench.run.results.folder import ResultsFolder


WORDS = ("compare", "pages", "papers")
KEYS = ["format", "out", "method", "dataset", "metric", "columns", "settings", "trials"]
KEYS += ["reference", "results_dir", "table"]


def main(argv: Sequence[str]) -> int:
    """Print or write the report; exit code 0."""
    from kbench.report import COMPARE_FORMATS, FORMATS, SETTINGS, make_comparison, make_report
    from kbench.report.text.terminal import takes_colour
    from kbench.run.results.folder import ResultsFolder

    bare, values = read(argv, KEYS)
    if not bare and values.get("format") == "mlflow":
        return _mlflow(values)
    folder = ResultsFolder(values.get("results_dir", "results"))
    if bare == ["pages"]:
        return _pages(folder)
    if bare == ["papers"]:
        return _papers(folder, values)
    if bare not in ([], ["compare"]):
        raise ConfigError(
            f"kbench report takes key=value, `pages`, `compare` or `papers`, not {bare[-1]!r}"
        )
    if "table" in values:
        raise ConfigError("table=... is of kbench report papers")
    format = one_of(
        "format",
        values.get("format", "terminal"),
        COMPARE_FORMATS if bare else (*FORMATS, "mlflow"),
    )
    out = Path(values["out"]) if "out" in values else None
    if out is None and format == "html":
        out = Path("report.html")
    options: dict[str, Any] = {
        "format": format,
        "out": out,
        "methods": names(values.get("method")),
        "datasets": names(values.get("dataset")),
        "metric": values.get("metric"),
        "reference": _flag(values, "reference", "true"),
        "trials": _flag(values, "trials", "false"),
        "colour": out is None and takes_colour(sys.stdout),
    }
    if bare:
        for key in ("columns", "settings"):
            if key in values:
                raise ConfigError(f"kbench report compare takes no {key}=...")
        text = make_comparison(folder, **options)
    else:
        columns = names(values.get("columns"))
        settings = whole("settings", values.get("settings", str(SETTINGS)))
        text = make_report(folder, columns=columns, settings=settings, **options)
    return _deliver(text, out)


def _papers(folder: "ResultsFolder", values: Mapping[str, str]) -> int:
    from kbench.report import PAPER_FORMATS, make_papers
    from kbench.report.text.terminal import takes_colour

    takes = ("format", "out", "table", "reference", "results_dir")
    if other := [key for key in values if key not in takes]:
        raise ConfigError(f"kbench report papers takes no {other[0]}=...")
    format = one_of("format", values.get("format", "terminal"), PAPER_FORMATS)
    out = Path(values["out"]) if "out" in values else None
    if out is None and format == "html":
        out = Path("papers.html")
    text = make_papers(
        folder,
        tables=names(values.get("table")),
        format=format,
        out=out,
        reference=_flag(values, "reference", "true"),
        colour=out is None and takes_colour(sys.stdout),
    )
    return _deliver(text, out)


def _mlflow(values: Mapping[str, str]) -> int:
    from kbench.report import export_runs
    from kbench.run.results.folder import ResultsFolder

    takes = ("format", "out", "method", "dataset", "trials", "reference", "results_dir")
    if other := [key for key in values if key not in takes]:
        raise ConfigError(f"kbench report format=mlflow takes no {other[0]}=...")
    folder = ResultsFolder(values.get("results_dir", "results"))
    store = values.get("out") or f"sqlite:///{folder.path.resolve() / '_mlflow.db'}"
    written, skipped = export_runs(
        folder,
        store,
        methods=names(values.get("method")),
        datasets=names(values.get("dataset")),
        trials=_flag(values, "trials", "false"),
        reference=_flag(values, "reference", "false"),
    )
    print(f"{store}: {written:,} runs written, {skipped:,} were there")
    return 0


def _deliver(text: str, out: Path | None) -> int:
    if out is None:
        sys.stdout.write(text)
    else:
        print(out)
    return 0


def _pages(folder: "ResultsFolder") -> int:
    from kbench.report import write_report

    for path in write_report(folder):
        print(path)
    return 0


def _flag(values: Mapping[str, str], key: str, default: str) -> bool:
    return one_of(key, values.get(key, default), ["true", "false"]) == "true"
