"""Import functions of users, named `package.module:function` in a command or an experiment: added
scores, and callbacks that get every finished row.

The functions are imported only from `PYTHONPATH` and installed packages (SECURITY.md).
"""

import functools
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbench.errors import ConfigError, one_line, quoted, with_type


def load_function(key: str, name: str) -> Callable[..., Any]:
    """Import the function `package.module:function`, which the key `key` of a command names.

    Raises ConfigError: there is no such module or function, or the import of the module fails.
    """
    module, _, attributes = name.partition(":")
    try:
        function = functools.reduce(getattr, attributes.split("."), importlib.import_module(module))
    except Exception as error:
        raise ConfigError(
            f"{key} names {name}: {one_line(error)}; a module of your own is found in PYTHONPATH"
        ) from None
    if not callable(function):
        raise ConfigError(f"{key} names {name}, which is not a function")
    return function


class Callbacks:
    """Calls functions with each row, in the runner's process, after the row has been written.

    An error of a function is printed once, and the function is called again with the next row.

    Raises ConfigError: a function cannot be imported.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._functions = {name: load_function("callbacks", name) for name in names}
        self._shown: set[str] = set()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Call each function with a copy of the row."""
        for name, function in self._functions.items():
            try:
                function(dict(row))
            except (Exception, SystemExit) as error:
                text = f"callback {name}: {quoted(with_type(error))}"
                if text not in self._shown:
                    self._shown.add(text)
                    print(f"{text} (shown once; the rows are written)", file=sys.stderr)
