"""Reader of ARFF tables (Weka, OpenML) through SciPy: nominal attributes are categories."""

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.content import read as read_bytes
from kbench.data.formats import Part, row_of
from kbench.data.formats.table import Column, Table, chosen, read_tables, require_finite, target_of
from kbench.errors import DataError


def read(parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str) -> dict[str, Part]:
    """Rows of each part; see `kbench.data.formats.read`. Parsed by SciPy, in Python."""
    return read_tables(parts, source, _tables)


def _tables(path: Path, options: Mapping[str, Any]) -> Iterator[Table]:
    from scipy.io import arff

    try:
        rows, meta = arff.loadarff(io.StringIO(read_bytes(path).decode()))
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8 text; convert the file") from None
    except (arff.ArffError, NotImplementedError, StopIteration, ValueError, IndexError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not an ARFF table that SciPy reads ({reason})") from None
    names = list(meta.names())
    if not rows.size or len(names) < 2:
        raise DataError(f"{path}: {rows.size} rows of {len(names)} attributes, no data")
    target = target_of(names, options, path)
    dropped = set(chosen(names, options, "drop", path)) - {target}
    texts = {*chosen(names, options, "categorical", path)} - {target}
    arrays = {}
    for name in names:
        if name in dropped:
            continue
        if meta[name][0] == "nominal" or name in texts:
            arrays[name] = _categories(rows[name])
        else:
            arrays[name] = Column(rows[name].astype(np.float64 if name == target else np.float32))
    require_finite(arrays, row_of(path))
    yield Table(path, arrays, target, int(rows.size), row_of(path))


def _categories(values: np.ndarray) -> Column:
    found, codes = np.unique(values, return_inverse=True)
    texts = [v.decode() if isinstance(v, bytes) else f"{v:g}" for v in found.tolist()]
    return Column(codes.astype(np.int32), tuple(texts))
