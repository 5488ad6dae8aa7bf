"""kbench publish [out=public] [results_dir=DIR]: a site of the results for any web server.

The folder has the pages of `kbench report pages`, and the rows with their curves and environments,
without logs, models and trials. `python -m http.server -d public` shows the site, GitHub Pages
accepts the folder unchanged, and `kbench import ADDRESS` copies the rows to another results folder.
reference=true adds the rows that come with kbench to the pages.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from kbench.commands.arguments import parse_boolean, parse_words, results_folder
from kbench.errors import ConfigError

KEYS = ("out", "results_dir", "reference")


def main(argv: Sequence[str]) -> int:
    """Write the site; exit code 0."""
    from kbench.report import write_report
    from kbench.run.results.publishing import publish_rows

    bare_words, values = parse_words(argv, KEYS)
    if bare_words:
        raise ConfigError(f"kbench publish takes out=FOLDER, not {bare_words[0]!r}")
    reference = parse_boolean("reference", values.get("reference", "false"))
    folder, site = results_folder(values), Path(values.get("out", "public"))
    if site.is_dir() and any(site.iterdir()) and not (site / ".nojekyll").exists():
        raise ConfigError(f"out={site} holds other files, should be a new or a published folder")
    report_folder = folder.path / "_report"
    for path in write_report(folder, reference=reference):
        target = site / path.relative_to(report_folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    # Without this file, GitHub Pages would leave out names that begin with _.
    (site / ".nojekyll").touch()
    print(f"{publish_rows(folder.path, site):,} rows and their pages: {site / 'index.html'}")
    return 0
