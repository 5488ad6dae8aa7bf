"""kbench merge [results_dir=DIR]: compact the Parquet files of many runs into one.

No row is lost, even if a sweep writes to the folder at the same time.
"""

from collections.abc import Sequence

from kbench.commands.arguments import read, results_folder
from kbench.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Merge and print what was done; exit code 0."""
    bare, values = read(argv, ["results_dir"])
    if bare:
        raise ConfigError(f"kbench merge takes results_dir=..., not {bare[0]!r}")
    print(results_folder(values).merge())
    return 0
