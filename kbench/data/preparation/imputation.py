"""Missing numbers: filled with what scikit-learn's SimpleImputer learns from the training rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.data.sources.piece_sizes import piece_sizes
from kbench.data.sources.rows import CsrArrays, Rows, SparseRows
from kbench.errors import DataError

STRATEGIES = {"mean": "mean", "median": "median", "indicator": "mean"}
"""`dataset.missing` -> the strategy of SimpleImputer; `indicator` adds its features, too."""


@dataclass(frozen=True)
class Imputation:
    """What replaces missing numbers."""

    fill: np.ndarray  # (d,) float64: the value for each column
    # (k,) int64: columns with a further feature, 1 where the number is missing and else 0, after
    # all others.
    indicated: np.ndarray

    def of(self, rows: Rows) -> Rows:
        """The rows with every number filled, and k more features.

        Dense rows are filled when their blocks are read. Sparse rows, which come of tables with
        categories and are in memory already, are copied.
        """
        if rows.d != self.fill.size:
            raise DataError(
                f"the rows have {rows.d} features, the model was trained on {self.fill.size}"
            )
        if not isinstance(rows, SparseRows):
            return _FilledRows(rows, self)
        from scipy.sparse import csr_matrix, hstack

        X = rows.arrays.take(rows.order)
        missing = np.isnan(X.data)
        values = np.where(missing, self.fill[X.indices], X.data)  # `X.data` may be the rows' own
        known = csr_matrix((values, X.indices, X.indptr), shape=X.shape)
        marks = csr_matrix((missing.astype(np.float64), X.indices, X.indptr), shape=X.shape)
        filled = hstack([known, marks[:, self.indicated]], format="csr")
        filled.eliminate_zeros()
        return SparseRows(CsrArrays.of(filled), np.asarray(rows.y), groups=rows.groups)

    def dense(self, X: np.ndarray) -> np.ndarray:
        """X : (b, d) filled, with the further features, float64 (b, d + k)."""
        missing = np.isnan(X)
        filled = np.where(missing, self.fill, X)
        return np.hstack([filled, missing[:, self.indicated]])


class _FilledRows(Rows):
    """Dense rows whose missing numbers are filled block by block."""

    def __init__(self, rows: Rows, imputation: Imputation) -> None:
        self._rows, self._imputation = rows, imputation
        self.n, self.d = rows.n, rows.d + imputation.indicated.size
        self.groups = rows.groups

    @property
    def y(self) -> np.ndarray:
        return self._rows.y

    def blocks(self) -> Iterator[np.ndarray]:
        for X in self._rows.blocks():
            yield self._imputation.dense(X)


def learn(kind: str, rows: Rows, name_of: Callable[[int], str]) -> Imputation:
    """Learn the imputation of kind `kind`, a key of STRATEGIES, from training rows.

    name_of : The name of a column by its number from 0, for errors

    Raises DataError: no training row has a value in some column.

    Dense columns are read in groups of `PieceSizes.block` bytes, with a pass over the rows each.
    """
    width = max(1, piece_sizes().block // (8 * max(1, rows.n)))
    groups = [np.arange(at, min(at + width, rows.d)) for at in range(0, rows.d, width)]
    if isinstance(rows, SparseRows):
        groups = [np.arange(rows.d)]
    fills, indicated = [], []
    for columns in groups:
        imputer, odd = _fitted(kind, _columns(rows, columns))
        if odd.size:
            raise DataError(
                f"the column {name_of(int(columns[odd[0]]))} has no value in any training row; "
                "dataset.source.columns.drop leaves it out of a table"
            )
        fills.append(imputer.statistics_)
        if imputer.indicator_ is not None:
            indicated.append(columns[imputer.indicator_.features_])
    marked = np.concatenate(indicated) if indicated else np.zeros(0)
    return Imputation(np.concatenate(fills), marked.astype(np.int64))


def _columns(rows: Rows, columns: np.ndarray) -> Any:
    """The columns of all rows: a dense array, or all of a sparse matrix."""
    if isinstance(rows, SparseRows):
        return rows.arrays.take(rows.order)
    X = np.empty((rows.n, columns.size))
    at = 0
    for block in rows.blocks():
        X[at : at + block.shape[0]] = block[:, columns]
        at += block.shape[0]
    return X


def _fitted(kind: str, X: Any) -> tuple[Any, np.ndarray]:
    """SimpleImputer fitted to X, and the columns that have no value."""
    from sklearn.impute import SimpleImputer

    imputer = SimpleImputer(
        strategy=STRATEGIES[kind], add_indicator=kind == "indicator", keep_empty_features=True
    )
    imputer.fit(X)
    if isinstance(X, np.ndarray):
        return imputer, np.flatnonzero(np.isnan(X).all(axis=0))
    filled = np.bincount(X.indices[~np.isnan(X.data)], minlength=X.shape[1])
    missing = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    return imputer, np.flatnonzero((filled == 0) & (missing == X.shape[0]))


def rows_with_missing(rows: Rows) -> np.ndarray:
    """Truth values, shape (n,): whether a row lacks a number."""
    if not isinstance(rows, SparseRows):
        return np.concatenate([np.isnan(X).any(axis=1) for X in rows.blocks()])
    lacking = []
    for csr in rows.csr_blocks():
        row_of_entry = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        missing = row_of_entry[np.isnan(csr.data)]
        lacking.append(np.bincount(missing, minlength=csr.shape[0]) > 0)
    return np.concatenate(lacking)
