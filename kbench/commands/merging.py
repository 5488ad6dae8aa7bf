"""kbench merge [OTHER ...] [results_dir=DIR]: compact the Parquet files of many runs into one.

No row is lost, even if a sweep writes to the folder at the same time. First, rows of all attempts,
curves, environments, logs, models and trials are copied from the folders OTHER, which another
machine or an older kbench may have written. OTHER stays unchanged; the same command repeated copies
what is new.
"""

from collections.abc import Sequence
from pathlib import Path

from kbench.commands.arguments import parse_words, results_folder
from kbench.errors import ConfigError

KEYS = ("results_dir",)


def main(argv: Sequence[str]) -> int:
    """Merge and print what was done; exit code 0."""
    others, values = parse_words(argv, KEYS)
    if not others:
        print(results_folder(values).merge())
        return 0
    from kbench.report.safe import printable
    from kbench.run.results.folder import ResultsFolder
    from kbench.run.results.imported_rows import gather

    folder = ResultsFolder(values.get("results_dir") or "results")
    for other in others:
        if not Path(other).is_dir():
            raise ConfigError(f"kbench merge takes results folders, and {other!r} is not one")
    for other in others:
        for report in gather(folder.path, Path(other)):
            print(printable(str(report), keep="\n"))
    print(folder.merge())
    return 0
