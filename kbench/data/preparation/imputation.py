"""Fill missing numbers with values that scikit-learn's SimpleImputer learns from training rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.data.sources.piece_sizes import piece_sizes
from kbench.data.sources.rows import CsrArrays, Rows, SparseRows
from kbench.errors import DataError

STRATEGIES = {"mean": "mean", "median": "median", "indicator": "mean"}
"""`dataset.missing` -> strategy of SimpleImputer; `indicator` also adds indicator features."""


@dataclass(frozen=True)
class Imputation:
    """The values that replace missing numbers, and the columns with indicator features."""

    fill: np.ndarray  # (d,) float64: the value for each column
    # (k,) int64: columns with an indicator feature, which is 1 if the number is missing and else 0.
    # The indicator features follow all other features.
    indicated: np.ndarray

    def of(self, rows: Rows) -> Rows:
        """The rows without missing numbers, with k indicator features.

        Dense rows are filled when their blocks are read. Sparse rows, which come from tables with
        categories and are in memory, are copied.
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
        values = np.where(missing, self.fill[X.indices], X.data)  # `X.data` must not change
        filled_csr = csr_matrix((values, X.indices, X.indptr), shape=X.shape)
        indicators = csr_matrix((missing.astype(np.float64), X.indices, X.indptr), shape=X.shape)
        stacked = hstack([filled_csr, indicators[:, self.indicated]], format="csr")
        stacked.eliminate_zeros()
        return SparseRows(CsrArrays.of(stacked), np.asarray(rows.y), groups=rows.groups)

    def dense(self, X: np.ndarray) -> np.ndarray:
        """X : (b, d) without missing numbers, with indicator features: float64 (b, d + k)."""
        missing = np.isnan(X)
        X_filled = np.where(missing, self.fill, X)
        return np.hstack([X_filled, missing[:, self.indicated]])


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

    name_of : A function from the number of a column, from 0, to its name in errors

    Raises DataError: a column has no value in any training row.

    Each group of `PieceSizes.block` bytes of dense columns takes a pass over the rows.
    """
    width = max(1, piece_sizes().block // (8 * max(1, rows.n)))
    column_groups = [
        np.arange(start, min(start + width, rows.d)) for start in range(0, rows.d, width)
    ]
    if isinstance(rows, SparseRows):
        column_groups = [np.arange(rows.d)]
    fills, indicated = [], []
    for columns in column_groups:
        imputer, empty = _fit_imputer(kind, _columns(rows, columns))
        if empty.size:
            raise DataError(
                f"the column {name_of(int(columns[empty[0]]))} has no value in any training row; "
                "dataset.source.columns.drop leaves it out of a table"
            )
        fills.append(imputer.statistics_)
        if imputer.indicator_ is not None:
            indicated.append(columns[imputer.indicator_.features_])
    all_indicated = np.concatenate(indicated) if indicated else np.zeros(0)
    return Imputation(np.concatenate(fills), all_indicated.astype(np.int64))


def _columns(rows: Rows, columns: np.ndarray) -> Any:
    """(n, number of columns) float64, or all columns as CSR for sparse rows."""
    if isinstance(rows, SparseRows):
        return rows.arrays.take(rows.order)
    X = np.empty((rows.n, columns.size))
    start = 0
    for block in rows.blocks():
        X[start : start + block.shape[0]] = block[:, columns]
        start += block.shape[0]
    return X


def _fit_imputer(kind: str, X: Any) -> tuple[Any, np.ndarray]:
    """A SimpleImputer fitted to X, and the indices of columns without a value."""
    from sklearn.impute import SimpleImputer

    imputer = SimpleImputer(
        strategy=STRATEGIES[kind], add_indicator=kind == "indicator", keep_empty_features=True
    )
    imputer.fit(X)
    if isinstance(X, np.ndarray):
        return imputer, np.flatnonzero(np.isnan(X).all(axis=0))
    n_values = np.bincount(X.indices[~np.isnan(X.data)], minlength=X.shape[1])
    n_missing = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    return imputer, np.flatnonzero((n_values == 0) & (n_missing == X.shape[0]))


def rows_with_missing(rows: Rows) -> np.ndarray:
    """(n,) bool: whether each row lacks a number."""
    if not isinstance(rows, SparseRows):
        return np.concatenate([np.isnan(X).any(axis=1) for X in rows.blocks()])
    masks = []
    for csr in rows.csr_blocks():
        row_of_entry = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        missing = row_of_entry[np.isnan(csr.data)]
        masks.append(np.bincount(missing, minlength=csr.shape[0]) > 0)
    return np.concatenate(masks)
