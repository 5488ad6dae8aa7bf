"""scikit-learn's bundled data sets, read from the files of the installed package.

The package itself is not imported, because its import takes about a second and its files are short
CSV tables.
"""

from pathlib import Path

import numpy as np

from kbench.data.sources.content import read
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
    """Features and target of a bundled set, in the units and order of scikit-learn.

    Parameters
    ----------
    name : {"digits", "iris", "wine", "breast_cancer", "diabetes"}
    paths : Its files, side by side; the target is the last column

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
                f"{path}: not the table that kbench expects ({error}); another "
                "version of scikit-learn?"
            ) from None
    table = np.hstack(tables)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
