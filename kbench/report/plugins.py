"""Reports of other packages: additions to the pages, and words of `kbench report`.

A package registers a `Plugin` as an entry point of the group `kbench.reports`:

    [project.entry-points."kbench.reports"]
    papers = "kbench.papers.report:PLUGIN"

`kbench report papers` then prints the text of `Plugin.make`, and `kbench report pages` adds lists
to the page and files to the folder, which `Plugin.read` provides. `kbench.papers` is such a
plug-in; nothing in `kbench.report` imports `kbench.papers`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from kbench.errors import ConfigError
from kbench.report.comparisons.reading import Content
from kbench.report.page.additions import Contribution

GROUP = "kbench.reports"


@dataclass(frozen=True)
class Plugin:
    """A report of another package.

    Attributes
    ----------
    formats : Values of `format=` that `make` takes
    make : `make(folder, *, tables, format, out, reference, colour)` returns the text of a report,
        and also writes the text to the file `out` unless that is None. Parameters are as in
        `kbench.report.make_report`; `tables` are names, or None for all tables.
    read : Makes a `Contribution` from the `Content` of a results folder
    """

    formats: Sequence[str]
    make: Callable[..., str]
    read: Callable[[Content], Contribution]


@cache
def installed_plugins() -> dict[str, Plugin]:
    """Word of `kbench report` -> the plug-in with that name, in alphabetical order.

    Raises ConfigError: an entry point cannot be imported, or is not a `Plugin`.
    """
    from importlib.metadata import entry_points

    plugins = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            plugin = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"entry point {point.name!r} of group {GROUP} names {point.value!r}: {error}"
            ) from error
        if not isinstance(plugin, Plugin):
            raise ConfigError(
                f"entry point {point.name!r} of group {GROUP} names {point.value!r}, which is "
                f"{plugin!r}; it should be a kbench.report.plugins.Plugin"
            )
        plugins[point.name] = plugin
    return plugins
