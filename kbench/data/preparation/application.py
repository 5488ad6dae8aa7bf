"""The parameters of a preparation, stored so that later rows are prepared in the same way.

A preparation encodes the columns of a table as features, fills missing numbers, scales columns and
maps labels to targets. `Preparation` holds the parameters that these steps learned from the data.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kbench.data.formats import ColumnLayout
from kbench.data.preparation.imputation import Imputation
from kbench.data.preparation.scaling import ColumnScaling
from kbench.data.preparation.target import TargetMap
from kbench.data.sources.rows import Rows, SparseRows
from kbench.errors import DataError


@dataclass(frozen=True)
class Preparation:
    """Parameters of the preparation of a data set.

    Attributes
    ----------
    target : TargetMap
    n_features : int
    storage : {"dense", "csr"}
        Form of the prepared features.
    scaling : ColumnScaling or None
    source : dict
        The keys of the config's `source` that say how to read its files, such as `format`.
    layout : ColumnLayout or None
        Columns and categories, if the files are tables.
    imputation : Imputation or None
        Replaces missing numbers; its indicator features count in `n_features`.
    """

    target: TargetMap
    n_features: int
    storage: str
    scaling: ColumnScaling | None
    source: dict[str, Any]
    layout: ColumnLayout | None
    imputation: Imputation | None = None

    def plain(self) -> dict[str, Any]:
        """The attributes as plain values and arrays, for `from_plain`."""
        scaling, imputation = self.scaling, self.imputation
        return {
            "target": asdict(self.target),
            "n_features": self.n_features,
            "storage": self.storage,
            "scaling": None if scaling is None else [scaling.shift, scaling.factor, scaling.base],
            "source": self.source,
            "layout": self.layout,
            "imputation": None if imputation is None else [imputation.fill, imputation.indicated],
        }

    @classmethod
    def from_plain(cls, plain: Any) -> "Preparation":
        """The inverse of `plain`; raises DataError for a value of another form."""
        try:
            scaling = plain["scaling"]
            target: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in plain["target"].items()
            }
            preparation = cls(
                TargetMap(**target),
                int(plain["n_features"]),
                str(plain["storage"]),
                None if scaling is None else ColumnScaling(*scaling),
                dict(plain["source"]),
                plain["layout"],
                _imputation(plain.get("imputation")),
            )
            shapes = {np.shape(part) for part in scaling or []}
            preparation._require_valid_names()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"not the preparation of a data set ({error})") from None
        if shapes - {(preparation.n_features,)}:
            raise DataError(f"a scaling of {shapes} for {preparation.n_features} features")
        return preparation

    def _require_valid_names(self) -> None:
        """Raise ValueError for an unknown storage, or names or categories that are not texts."""
        if self.storage not in ("dense", "csr"):
            raise ValueError(f"storage {self.storage!r}")
        if self.layout is None:
            return
        texts = [self.layout["target"], *self.layout["columns"]]
        rare, marks = self.layout.get("rare") or {}, self.layout.get("marks") or {}
        for texts_by_column in (self.layout["columns"], rare, marks):
            texts += [text for column in texts_by_column.values() for text in column]
        texts += [*(self.layout.get("left_out") or []), self.layout.get("decimal", ".")]
        if self.layout.get("group") is not None:
            texts.append(str(self.layout["group"]))
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("names of columns that are not texts")

    def features(self, rows: Rows) -> Iterator[Any]:
        """Prepare the features of raw rows for a model, block by block.

        Yields
        ------
        float32 array or csr_matrix, shape (b, d), about 32 MiB each

        Raises
        ------
        DataError
            The rows have another number of features.
        """
        if self.imputation is not None:
            rows = self.imputation.of(rows)
        if rows.d != self.n_features:
            raise DataError(
                f"the rows have {rows.d} features, the model was trained on {self.n_features}"
            )
        if self.storage == "csr" and isinstance(rows, SparseRows):
            for csr in rows.csr_blocks():
                if self.scaling is not None:
                    csr.data = csr.data * self.scaling.factor[csr.indices]
                yield csr.astype(np.float32)
            return
        for X in rows.blocks():
            dense = X.astype(np.float32) if self.scaling is None else self.scaling.apply(X)
            if self.storage == "csr":
                from scipy.sparse import csr_matrix

                yield csr_matrix(dense)
            else:
                yield dense


def _imputation(plain: Any) -> Imputation | None:
    """The imputation in `Preparation.plain`; raises ValueError for a value of another form."""
    if plain is None:
        return None
    fill, indicated = np.asarray(plain[0], np.float64), np.asarray(plain[1], np.int64)
    if fill.ndim != 1 or indicated.ndim != 1 or not np.isfinite(fill).all():
        raise ValueError("an imputation without a finite value for each column")
    if indicated.size and not 0 <= indicated.min() <= indicated.max() < fill.size:
        raise ValueError("an imputation that indicates columns which do not exist")
    return Imputation(fill, indicated)
