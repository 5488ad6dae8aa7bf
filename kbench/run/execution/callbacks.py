"""The user's functions that get every finished row, `callbacks=[package.module:function]`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.errors import with_type
from kbench.run.results.user_functions import load_function

# Characters of a callback's error that are printed, a few lines of a terminal; set by hand.
_MESSAGE_CHARS = 300


class Callbacks:
    """Calls functions with each row, in the runner's process, after the row has been written.

    An error is a warning: the row is there, and the next one is passed on again. A warning with the
    same text is shown once.

    Parameters
    ----------
    names : sequence of str
        `package.module:function`.

    Raises
    ------
    ConfigError
        One cannot be imported.
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
