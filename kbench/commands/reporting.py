"""kbench report [pages] [format=terminal|markdown|csv] [out=FILE] [method=a,b] [dataset=c,d]

Methods x data sets: accuracy or error, train and predict seconds, prediction cost, memory; mean
and spread over seeds. Times of different environments or thread counts stand in different tables,
and a failed cell shows its status. Goes to standard output or into FILE; `kbench report pages`
writes results/_report/ instead, as `make tables` does. results_dir=DIR reads another folder.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from kbench.commands.arguments import names, one_of, read
from kbench.errors import ConfigError

FORMATS = ("terminal", "markdown", "csv")


def main(argv: Sequence[str]) -> int:
    """Print or write the report; exit code 0."""
    from kbench.report import make_report, write_report
    from kbench.run.results import ResultsFolder

    bare, values = read(argv, ["format", "out", "method", "dataset", "results_dir"])
    if bare == ["pages"]:
        for path in write_report(ResultsFolder(values.get("results_dir", "results"))):
            print(path)
        return 0
    if bare:
        raise ConfigError(f"kbench report takes key=value or `pages`, not {bare[0]!r}")
    text = make_report(
        ResultsFolder(values.get("results_dir", "results")),
        format=one_of("format", values.get("format", "terminal"), FORMATS),
        out=Path(values["out"]) if "out" in values else None,
        methods=names(values.get("method")),
        datasets=names(values.get("dataset")),
    )
    if "out" not in values:
        sys.stdout.write(text)
    return 0
