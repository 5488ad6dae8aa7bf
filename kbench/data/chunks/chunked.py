"""Make `ChunkedRows`, the input of estimators that learn out of core, of files and generators."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.chunked import Block, ChunkedRows
from kbench.data.chunks.stream import pieces, read_options, require_readable, surveyed
from kbench.data.sources import generators

# Number of columns up to which sparse rows become dense: dense arrays suit more methods, but take
# more memory. Set by hand, to the value of DENSE_COLUMNS in `kbench.data.preparation.prepare`.
_DENSE_COLUMNS = 1024


def chunked_files(
    *paths: str | Path,
    format: str = "libsvm",
    n_features: int | None = None,
    columns: Mapping[str, Any] | None = None,
    task: str = "binary",
    zero_based: bool | str = "auto",
    **options: Any,
) -> ChunkedRows:
    """Rows of files, which are read again in every pass.

    Parameters
    ----------
    *paths, format, n_features, columns, task, zero_based
        As in `kbench.data.chunks`. A fit reads the files twice, to survey the rows and to sort
        them, and LIBSVM files without `n_features` a third time, for the number of columns.
    **options
        `classes`, `memory_mb` and `scratch` of `ChunkedRows`.

    Returns
    -------
    ChunkedRows
        float32, dense up to 1,024 columns, otherwise CSR if the files are sparse.

    Raises
    ------
    ConfigError, DataError
        As in `kbench.data.chunks`, when the rows are read; or the columns of two files differ.
    """
    files = [Path(path) for path in paths]
    require_readable(format, files)
    checked_options = read_options(n_features, columns, task, zero_based)
    if format != "libsvm":
        n_features = int(next(pieces(format, files, 1, checked_options))[0].shape[1])
    elif n_features is None:
        checked_options = surveyed(files, checked_options)
        n_features = int(checked_options["n_features"])
    is_dense = n_features <= _DENSE_COLUMNS

    def read(n_rows: int) -> Iterator[Block]:
        for X, y, place in pieces(format, files, n_rows, checked_options):
            yield Block(X if isinstance(X, np.ndarray) or not is_dense else X.toarray(), y, place)

    return ChunkedRows(read, n_features=n_features, **options)


def chunked_generator(
    name: str,
    n: int,
    *,
    d: int,
    part: str = "train",
    seed: int = 0,
    noise: float = 0.05,
    **options: Any,
) -> ChunkedRows:
    """The first n rows of a generated data set, which are generated again in every pass.

    Parameters
    ----------
    name : {"covtype_like", "noisy_function"}
    n, d : int
        Numbers of rows and features.
    part : {"train", "test"}
        Rows of different parts are independent.
    seed, noise
        Seed of the function and of the rows; `noise` of the classes in
        `kbench.data.sources.generators`, whose default is set by hand.
    **options
        `memory_mb` and `scratch` of `ChunkedRows`.
    """
    generator = generators.build(name, d=d, seed=seed, noise=noise)

    def read(n_rows: int) -> Iterator[Block]:
        for k, (X, y) in enumerate(generator.chunks(part, n), start=1):
            yield Block(X, y, f"{name}, chunk {k}")

    return ChunkedRows(read, n_features=d, n_rows=n, **options)
