"""Functions of the user's own, which a command or an experiment names as `package.module:function`.

They are imported from `PYTHONPATH` and installed packages: processes of kbench have Python's safe
path (SECURITY.md).
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

from kbench.errors import ConfigError, one_line


def load_function(key: str, name: str) -> Callable[..., Any]:
    """The function `package.module:function`, which the key `key` of a command names.

    Raises
    ------
    ConfigError
        There is no such module or function, or the import of the module fails.
    """
    module, _, path = name.partition(":")
    try:
        found = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except Exception as error:
        raise ConfigError(
            f"{key} names {name}: {one_line(error)}; a module of your own is found in PYTHONPATH"
        ) from None
    if not callable(found):
        raise ConfigError(f"{key} names {name}, which is no function")
    return found
