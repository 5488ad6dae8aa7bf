"""The preparation of a data set, kept so that rows which come later are treated the same.

What a model learnt from is the outcome of several steps: the columns of a table became features,
categories became ones and zeros, columns were scaled, labels became targets. `Preparation` holds
what those steps found out on the data set; `read_rows` reads other rows by it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.config import check_config
from kbench.data.folders import Folders
from kbench.data.formats import FORMATS, Layout
from kbench.data.rows import Rows, SparseRows, join
from kbench.data.scaling import ColumnScaling
from kbench.data.target import TargetMap
from kbench.errors import ConfigError, DataError


@dataclass(frozen=True)
class Preparation:
    """What was found out when a data set was prepared.

    Attributes
    ----------
    target : TargetMap
    n_features : int
    storage : {"dense", "csr"}
        Of the prepared arrays.
    scaling : ColumnScaling or None
    source : dict
        `format`, `columns` and `arrays` of the config: how its files are meant.
    layout : Layout or None
        Of a table.
    """

    target: TargetMap
    n_features: int
    storage: str
    scaling: ColumnScaling | None
    source: dict[str, Any]
    layout: Layout | None

    def plain(self) -> dict[str, Any]:
        """All of it as plain values and arrays, for `from_plain`."""
        scaling = self.scaling
        return {
            "target": asdict(self.target),
            "n_features": self.n_features,
            "storage": self.storage,
            "scaling": None if scaling is None else [scaling.shift, scaling.factor, scaling.base],
            "source": self.source,
            "layout": self.layout,
        }

    @classmethod
    def from_plain(cls, plain: Any) -> "Preparation":
        """What `plain` gave; a DataError where it is something else."""
        try:
            scaling = plain["scaling"]
            target: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in plain["target"].items()
            }
            made = cls(
                TargetMap(**target),
                int(plain["n_features"]),
                str(plain["storage"]),
                None if scaling is None else ColumnScaling(*scaling),
                dict(plain["source"]),
                plain["layout"],
            )
            shapes = {np.shape(part) for part in scaling or []}
            made._require_texts()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"no preparation of a data set ({error})") from None
        if shapes - {(made.n_features,)}:
            raise DataError(f"a scaling of {shapes} for {made.n_features} features")
        return made

    def _require_texts(self) -> None:
        if self.storage not in ("dense", "csr"):
            raise ValueError(f"storage {self.storage!r}")
        if self.layout is None:
            return
        texts = [self.layout["target"], *self.layout["columns"]]
        texts += [text for categories in self.layout["columns"].values() for text in categories]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("names of columns that are no texts")

    def features(self, rows: Rows) -> Iterator[Any]:
        """The features of raw rows as a model takes them, block by block.

        Yields
        ------
        (b, d) float32 array or csr_matrix, about 32 MiB each

        Raises
        ------
        DataError
            The rows have another number of features.
        """
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


def read_rows(
    config: Mapping[str, Any],
    folders: Folders,
    preparation: Preparation,
    scratch: Path,
    *,
    download: bool = True,
    own_source: bool = False,
) -> Rows:
    """Raw rows for a model: all rows of a file, or the test rows of a named data set.

    Parameters
    ----------
    config : mapping
        The resolved config of a data set; of source kind `file` for rows of the user's own.
    folders : Folders
    preparation : Preparation
        Of the data set that the model was trained on; columns of a table are matched by name and
        encoded with its categories.
    scratch : Path
        A folder for what does not fit into memory; made where it is needed, and left to the caller
        until the rows are no longer used.
    download : bool
    own_source : bool
        Whether `config` says how a file is meant; otherwise it is taken as those that the model
        was trained on.

    Raises
    ------
    ConfigError, DataError
        As `kbench.data.prepare` does; a column or category that the training file lacks.
    """
    from kbench.data import sources
    from kbench.data.preparation import obtain

    merged = dict(config)
    source = dict(config["source"])
    single = source["kind"] == "file"
    if single and not own_source:
        form = FORMATS[preparation.source.get("format") or "libsvm"]
        source |= {} if form.pieces or form.splits else preparation.source
    name = source.get("format") or "libsvm"
    source["known"] = {"layout": preparation.layout, "labels": preparation.target.texts}
    merged["source"] = {key: value for key, value in source.items() if key != "known"}
    if name == "libsvm" and single:
        merged["n_features"] = preparation.n_features
    if merged.get("task") != preparation.target.task:
        raise ConfigError(
            f"dataset.task is {merged.get('task')}, the model's is {preparation.target.task}"
        )
    if merged.get("holdout"):
        raise ConfigError("dataset.holdout divides training rows, a kept model takes test rows")
    checked = check_config(merged)
    files = obtain(checked, folders, download=download, progress=None)
    checked["source"] = source
    if single:
        parts, _, _ = sources.read_parts(checked, files, scratch)
        rows: Rows = join(parts)
        return rows
    return sources.load(checked, files, scratch).test
