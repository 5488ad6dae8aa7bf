"""Reader of LIBSVM text (`label index:value index:value ... # comment`), strict and fast.

The format of LIBSVM and svmlight has one row per line, increasing indices from 1 (or from 0, see
`zero_based`), an optional `qid:n` after the label, comments from `#` to the end of the line, LF or
CRLF, and empty lines anywhere. As in LIBSVM's own reader, blanks may follow a colon, an index may
have a plus sign, and numbers may be hexadecimal (`0x1.8p3`), as in C's strtod. `nan` is a missing
value or label, which the caller allows or refuses. Compiled code passes twice over the bytes: the
first pass counts colons and line ends, which bounds the sizes of the CSR arrays; the second pass
fills the arrays and checks every byte. For malformed text the second pass returns the position of
the error, and `kbench.data.formats.libsvm_diagnosis` makes the message.

Precision. Values are float64: the first 18 significant digits times a power of ten. If the text has
at most 15 digits and an exponent within +-22, the value is `float(text)` to the bit; otherwise its
relative error is at most 1e-15. Labels always equal `float(text)`. A magnitude that rounds to
infinity in float32 is refused, because prepared rows are float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats.libsvm_bytes import NO_GROUP, count, fill
from kbench.data.formats.libsvm_diagnosis import diagnose
from kbench.data.sources.content import text_pieces
from kbench.errors import DataError

MAX_INDEX = 100_000_000
"""Guard: largest index allowed if the number of features is unknown, against damaged files."""

_LF = ord("\n")
_AFTER_A_NUMBER = b"\n\r\t #"


@dataclass(frozen=True)
class LibsvmRows:
    """Rows of one file."""

    labels: np.ndarray  # (n,) float64
    indptr: np.ndarray  # (n + 1,) int64
    indices: np.ndarray  # (nnz,) int32: columns from 0, increasing within a row
    values: np.ndarray  # (nnz,) float64, including zeros that the file states
    groups: np.ndarray  # (n,) int64: the `qid` of each row, or NO_GROUP
    # Number of columns: the caller's `n_features`, or the number up to the file's largest index.
    n_features: int
    largest_index: int  # Largest column of the file, counted from 1; 0 if no row has a value

    def to_csr(self) -> Any:
        """The rows as `scipy.sparse.csr_matrix`, sharing the arrays, shape (n, n_features)."""
        from scipy.sparse import csr_matrix

        indptr = self.indptr
        if indptr[-1] <= np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        shape = (self.labels.size, self.n_features)
        return csr_matrix((self.values, self.indices, indptr), shape=shape, copy=False)


def parse(
    content: bytes | bytearray | np.ndarray,
    *,
    name: str,
    n_features: int | None = None,
    zero_based: bool | None = False,
    missing: bool = False,
    missing_target: bool = False,
) -> LibsvmRows:
    """Read LIBSVM text that is in memory.

    content : bytes, bytearray or ndarray of uint8. The decompressed file.
    name : Name of the file in errors
    n_features : Number of columns of the result; a larger index is an error. By default the largest
        index.
    zero_based : Whether the first column has index 0 in the file. None if this is not known: the
        result then has an additional first column for index 0.
    missing, missing_target : Whether a value and a label may be `nan`

    Raises DataError: a line is not LIBSVM text, or there are no rows. The message has `name:line`
    of the first such line, what was found, and what would be right.

    O(bytes) time. Memory: the text, 12 bytes per value and 32 bytes per row.
    """
    text = content if isinstance(content, np.ndarray) else np.frombuffer(content, dtype=np.uint8)
    allowed = missing, missing_target
    rows = _parse_lines(text, name, n_features, allowed, zero_based=zero_based, line=1, last=True)
    _require_rows(rows.labels.size, bool(text.size), name)
    return rows


def pieces(
    path: Path,
    *,
    n_features: int | None = None,
    zero_based: bool | None = False,
    missing: bool = False,
    missing_target: bool = False,
) -> Iterator[LibsvmRows]:
    """Read a LIBSVM file, plain or compressed, piece by piece; memory does not grow with the file.

    Parameters
    ----------
    n_features : Number of columns of every piece; by default the largest index so far
    zero_based, missing, missing_target : As in `parse`

    Yields
    ------
    LibsvmRows
        Pieces of about `PieceSizes.text` bytes of text; together the rows that `parse` returns.

    Raises
    ------
    DataError
        As in `parse`; or the file is damaged.
    """
    n, largest, empty = 0, 0, True
    width_and_allowed = n_features, (missing, missing_target)
    for line, text, last in text_pieces(path):
        empty = False
        content = np.frombuffer(text, dtype=np.uint8)
        rows = _parse_lines(
            content, str(path), *width_and_allowed, zero_based=zero_based, line=line, last=last
        )
        n += rows.labels.size
        largest = max(largest, rows.largest_index)
        if rows.labels.size:
            yield replace(rows, n_features=largest if n_features is None else n_features)
    _require_rows(n, not empty, str(path))


def line_of(path: Path, row: int) -> str:
    """`file:line` of row `row`, counted from 0; reads the file again."""
    for first_line, text, _ in text_pieces(path):
        for lineno, line in enumerate(text.split(b"\n"), start=first_line):
            if line.removeprefix(b"\xef\xbb\xbf").partition(b"#")[0].strip():
                if row == 0:
                    return f"{path}:{lineno}"
                row -= 1
    raise IndexError(row)


def _require_rows(n: int, has_text: bool, name: str) -> None:
    if not has_text:
        raise DataError(f"{name}: the file is empty, should hold rows of LIBSVM text")
    if n == 0:
        raise DataError(f"{name}: no rows, only empty lines or comments; should hold LIBSVM text")


def _parse_lines(
    text: np.ndarray,
    name: str,
    n_features: int | None,
    allowed: tuple[bool, bool],
    *,
    zero_based: bool | None,
    line: int,
    last: bool,
) -> LibsvmRows:
    """The rows of `text`, which consists of whole lines.

    line : Number of the first line in the file. last : Whether the file ends with the text.
    allowed : Whether values, and whether labels, may be missing.
    """
    if text.size == 0 or text[-1] != _LF:
        text = np.append(text, np.uint8(_LF))  # every loop stops at a line feed
    text = text.view()
    text.flags.writeable = False  # numba compiles once for each array type
    limit = MAX_INDEX if n_features is None else n_features
    colons, lines = count(text)
    labels = np.empty(lines)
    label_at = np.empty(lines, dtype=np.int64)
    indptr = np.empty(lines + 1, dtype=np.int64)
    indices = np.empty(colons, dtype=np.int32)
    values = np.empty(colons)
    groups = np.full(lines, NO_GROUP, dtype=np.int64)
    start = 3 if line == 1 and bytes(text[:3]) == b"\xef\xbb\xbf" else 0
    lowest = 1 if zero_based is False else 0
    limit -= zero_based is True
    arrays = (labels, label_at, indptr, indices, values, groups)
    n, nnz, largest, wrong_at = fill(text, start, lowest, limit, *allowed, *arrays)
    for row in np.flatnonzero(label_at[:n] >= 0):
        labels[row] = _float_at(text, label_at[row])
        if np.isinf(labels[row]):
            wrong_at = label_at[row]  # precedes any error of `fill`, which ends the rows
            break
    if wrong_at >= 0:
        raise DataError(
            diagnose(
                text,
                wrong_at,
                name=name,
                n_features=n_features,
                lowest=lowest,
                limit=limit,
                line=line,
                last=last,
            )
        )
    return LibsvmRows(
        labels[:n],
        indptr[: n + 1],
        indices[:nnz],
        values[:nnz],
        groups[:n],
        largest + 1 - lowest if n_features is None else n_features + (zero_based is None),
        largest + 1 - lowest,
    )


def _float_at(text: np.ndarray, start: int) -> float:
    """Python's float of the well-formed number that begins at `start`."""
    stop = start
    while text[stop] not in _AFTER_A_NUMBER:
        stop += 1
    token = text[start:stop].tobytes()
    if b"x" not in token.lower():
        return float(token)
    try:
        return float.fromhex(token.decode())
    except OverflowError:
        return float("inf")
