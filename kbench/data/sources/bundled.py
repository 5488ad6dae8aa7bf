"""Read scikit-learn's bundled data sets from the files of the installed package.

The files are short CSV tables, so scikit-learn is not imported, which would take about a second.
"""

from pathlib import Path

import numpy as np

from kbench.data.sources.content import read
from kbench.errors import DataError

_LAYOUTS = {
    # Name of the set: (number of header lines, separator; None is white space)
    "digits": (0, ","),
    "iris": (1, ","),
    "wine": (1, ","),
    "breast_cancer": (1, ","),
    "diabetes": (0, None),
}


def load(name: str, paths: list[Path]) -> tuple[np.ndarray, np.ndarray]:
    """Features and target of a bundled set, in the units and order of scikit-learn.

    Parameters
    ----------
    name : {"digits", "iris", "wine", "breast_cancer", "diabetes"}
    paths : Files of the set, whose columns are joined; the target is the last column

    Returns
    -------
    X : ndarray of float64, shape (n, d)
    y : ndarray of float64, shape (n,)
    """
    n_header_lines, separator = _LAYOUTS[name]
    tables = []
    for path in paths:
        lines = read(path).decode().splitlines()[n_header_lines:]
        try:
            tables.append(np.loadtxt(lines, delimiter=separator, ndmin=2))
        except ValueError as error:
            raise DataError(
                f"{path}: not the table that kbench expects ({error}); another "
                "version of scikit-learn?"
            ) from None
    table = np.hstack(tables)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
