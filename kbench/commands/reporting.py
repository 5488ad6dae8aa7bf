"""kbench report [pages] [format=terminal|markdown|csv] [out=FILE] [method=a,b] [settings=N] ...

Methods x data sets: accuracy or error, train and predict seconds, prediction cost, memory; mean
and spread over seeds. Times of different environments or thread counts stand in different tables,
and a failed cell shows its status. Goes to standard output or into FILE; `kbench report pages`
writes results/_report/ instead, as `make tables` does. A method with more than settings=5 parameter
settings on a data set shows the best on the test set, and says so. dataset=a,b and method=a,b
choose, reference=false leaves out the rows that came with kbench, results_dir=DIR reads another
folder.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from kbench.commands.arguments import names, one_of, read, whole
from kbench.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Print or write the report; exit code 0."""
    from kbench.report import FORMATS, SETTINGS, make_report, write_report
    from kbench.run.results import ResultsFolder

    bare, values = read(
        argv, ["format", "out", "method", "dataset", "settings", "reference", "results_dir"]
    )
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
        reference=one_of("reference", values.get("reference", "true"), ["true", "false"]) == "true",
        settings=whole("settings", values.get("settings", str(SETTINGS))),
    )
    if "out" not in values:
        sys.stdout.write(text)
    return 0
