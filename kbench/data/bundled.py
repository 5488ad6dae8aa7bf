"""scikit-learn's bundled data sets, read from the files of the installed package.

The package itself is not imported: its files are short CSV tables, and a second of start-up is
worth more than its readers.
"""

from pathlib import Path

import numpy as np

from kbench.data.content import read
from kbench.errors import DataError

_SHAPE = {
    # name: (header lines, separator)
    "digits": (0, ","),
    "iris": (1, ","),
    "wine": (1, ","),
    "breast_cancer": (1, ","),
    "diabetes": (0, None),
}


def load(name: str, paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Features and target of a bundled set, in the package's units and order.

    Parameters
    ----------
    name : {"digits", "iris", "wine", "breast_cancer", "diabetes"}
    paths : list of Path
        Its files; the target is the last column, or a file of its own.

    Returns
    -------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    """
    header, separator = _SHAPE[name]
    tables = []
    for path in paths:
        lines = read(path).decode().splitlines()[header:]
        try:
            tables.append(np.loadtxt(lines, delimiter=separator, ndmin=2))
        except ValueError as error:
            raise DataError(
                f"{path}: not the table that kbench knows ({error}); another scikit-learn version?"
            ) from None
    table = np.hstack(tables)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
