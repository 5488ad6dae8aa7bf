"""kbench import ADDRESS|FOLDER [results_dir=DIR]: copy rows of a site that `kbench publish` wrote.

ADDRESS is the address of the site's first page, with http:// or https://. Existing rows stay
unchanged; reports have separate tables for rows of different machines.
"""

import sys
from collections.abc import Sequence

from kbench.commands.arguments import parse_words
from kbench.errors import ConfigError

KEYS = ("results_dir",)


def main(argv: Sequence[str]) -> int:
    """Copy the rows; exit code 0."""
    from kbench.report.safe import printable
    from kbench.run.results.folder import ResultsFolder
    from kbench.run.results.imported_rows import gather
    from kbench.run.results.publishing import published_rows

    sources, values = parse_words(argv, KEYS)
    if len(sources) != 1:
        raise ConfigError("kbench import takes one address or folder that kbench publish wrote")
    site = sources[0].removesuffix("index.html")
    folder = ResultsFolder(values.get("results_dir") or "results")
    with published_rows(site, lambda line: print(printable(line), file=sys.stderr)) as site_folder:
        for report in gather(folder.path, site_folder):
            print(printable(str(report).replace(str(site_folder), site), keep="\n"))
    return 0
