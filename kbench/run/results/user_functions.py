"""Functions of the user's own, which a command or an experiment names as `package.module:function`:
added scores, and callbacks that get every finished row.

They are imported from `PYTHONPATH` and installed packages: processes of kbench have Python's safe
path (SECURITY.md).
"""

import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbench.errors import ConfigError, one_line, with_type

# Characters of a callback's error that are printed, a few lines of a terminal; set by hand.
_MESSAGE_CHARS = 300


def load_function(key: str, name: str) -> Callable[..., Any]:
    """The function `package.module:function`, which the key `key` of a command names.

    Raises ConfigError: there is no such module or function, or the import of the module fails.
    """
    module, _, path = name.partition(":")
    try:
        function = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:
        raise ConfigError(
            f"{key} names {name}: {one_line(error)}; a module of your own is found in PYTHONPATH"
        ) from None
    if not callable(function):
        raise ConfigError(f"{key} names {name}, which is not a function")
    return function


class Callbacks:
    """Calls functions with each row, in the runner's process, after the row has been written.

    An error is a warning, shown once: the row is there, and the next one is passed on again.

    Raises ConfigError: a function cannot be imported.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._functions = {name: load_function("callbacks", name) for name in names}
        self._shown: set[str] = set()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Pass on a copy of the row that each function may change."""
        for name, function in self._functions.items():
            try:
                function(dict(row))
            except (Exception, SystemExit) as error:
                text = f"callback {name}: {with_type(error, _MESSAGE_CHARS)}"
                if text not in self._shown:
                    self._shown.add(text)
                    print(f"{text} (shown once; the rows are written)", file=sys.stderr)
