"""Reader of LIBSVM text (`label index:value index:value ... # comment`), strict and fast.

The format is that of LIBSVM and svmlight: one row per line, increasing indices from 1 (or from 0,
see `zero_based`), an optional `qid:n` after the label, comments from `#` to the end of the line, LF
or CRLF, empty lines anywhere. As in LIBSVM's own reader blanks may follow a colon and an index may
have a plus sign, and numbers may be hexadecimal (`0x1.8p3`), as C's strtod reads them; `nan` is a
missing value or label, which a caller allows or not. Compiled code passes twice over the bytes: the
first pass counts colons and line ends, which bounds the sizes of the CSR arrays; the second fills
them and checks every byte. For text that it does not accept it returns the position;
`kbench.data.formats.libsvm_diagnosis` says what is wrong.

Precision. Values are float64: mantissas of up to 18 significant digits (further ones are cut) times
a power of ten. Where the text has at most 15 digits and an exponent within +-22 the result is
`float(text)` to the bit; elsewhere its relative error is at most 1e-15. Labels equal `float(text)`
always. A magnitude that rounds to infinity in float32 is refused, because prepared rows are
float32.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numba
import numpy as np

from kbench.data.formats.libsvm_diagnosis import diagnose
from kbench.data.sources.content import text_pieces
from kbench.errors import DataError

MAX_INDEX = 100_000_000
"""Largest index allowed if the number of features is unknown; a larger one is taken for damage."""

_LF, _CR, _TAB, _SPACE, _HASH, _COLON = (ord(c) for c in "\n\r\t #:")
_ZERO, _POINT, _PLUS, _MINUS, _LOWER_E, _UPPER_E = (ord(c) for c in "0.+-eE")
_Q, _I, _D = (ord(c) for c in "qid")
_A, _F, _N, _P, _X = (ord(c) for c in "afnpx")
_LOWER = 32  # bit that is set in lower-case letters
NO_GROUP = -1
"""Value of the group array at rows without a `qid`."""
# Outcomes of parsing a number, as compiled code returns them.
_EXACT, _ROUNDED, _MALFORMED = 0, 1, 2

_POWERS = np.array([float(f"1e{e}") for e in range(309)])
_FLOAT32_OVERFLOW = float(2.0**128 - 2.0**103)  # from here on rounding to float32 gives inf


@dataclass(frozen=True)
class LibsvmRows:
    """Rows of one file.

    Attributes
    ----------
    labels : ndarray of float64, shape (n,)
    indptr : ndarray of int64, shape (n + 1,)
    indices : ndarray of int32, shape (nnz,)
        Columns from 0, increasing within a row.
    values : ndarray of float64, shape (nnz,)
        Zeros that the file states are kept.
    groups : ndarray of int64, shape (n,)
        The `qid` of each row, NO_GROUP where there is none.
    n_features : int
        Number of columns: those up to the largest index in the file, or the caller's `n_features`.
    largest_index : int
        Of the columns in the file, counted from 1; 0 if no row has a value.
    """

    labels: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    groups: np.ndarray
    n_features: int
    largest_index: int

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

    Parameters
    ----------
    content : bytes, bytearray or ndarray of uint8
        The decompressed file.
    name : str
        Name of the file in errors.
    n_features : int, optional
        Number of columns of the result; a larger index is an error. By default the largest index.
    zero_based : bool or None
        Whether the first column has index 0 in the file. None if it is not known yet: the result
        then has one more column at the front, for index 0.
    missing, missing_target : bool
        Whether a value and a label may be `nan`.

    Returns
    -------
    LibsvmRows

    Raises
    ------
    DataError
        `name:line: what was found, what would be right`, for the first line that is not LIBSVM
        text, and for a file without rows.

    Notes
    -----
    O(bytes) time. Memory: the text, 12 bytes per value and 32 bytes per row.
    """
    text = content if isinstance(content, np.ndarray) else np.frombuffer(content, dtype=np.uint8)
    allowed = missing, missing_target
    rows = _parsed(text, name, n_features, allowed, zero_based=zero_based, line=1, last=True)
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
    path : Path
    n_features : int, optional
        Number of columns of every piece; by default the largest index so far.
    zero_based, missing, missing_target
        As of `parse`.

    Yields
    ------
    LibsvmRows
        Of about `PieceSizes.text` bytes of text each; together the rows that `parse` returns.

    Raises
    ------
    DataError
        As `parse` does, with the line's number in the file; or the file is damaged.
    """
    n, largest, empty = 0, 0, True
    form = n_features, (missing, missing_target)
    for line, text, last in text_pieces(path):
        empty = False
        content = np.frombuffer(text, dtype=np.uint8)
        rows = _parsed(content, str(path), *form, zero_based=zero_based, line=line, last=last)
        n += rows.labels.size
        largest = max(largest, rows.largest_index)
        if rows.labels.size:
            yield replace(rows, n_features=largest if n_features is None else n_features)
    _require_rows(n, not empty, str(path))


def line_of(path: Path, row: int) -> str:
    """`file:line` of row `row`, counted from 0; reads the file again."""
    for first, text, _ in text_pieces(path):
        for number, line in enumerate(text.split(b"\n"), start=first):
            if line.removeprefix(b"\xef\xbb\xbf").partition(b"#")[0].strip():
                if row == 0:
                    return f"{path}:{number}"
                row -= 1
    raise IndexError(row)


def _require_rows(n: int, has_text: bool, name: str) -> None:
    if not has_text:
        raise DataError(f"{name}: the file is empty, should hold rows of LIBSVM text")
    if n == 0:
        raise DataError(f"{name}: no rows, only empty lines or comments; should hold LIBSVM text")


def _parsed(
    text: np.ndarray,
    name: str,
    n_features: int | None,
    allowed: tuple[bool, bool],
    *,
    zero_based: bool | None,
    line: int,
    last: bool,
) -> LibsvmRows:
    """The rows of whole lines; `line` is the number of the first one, `last` ends the file.

    allowed : whether a value, and a label, may be missing.
    """
    if text.size == 0 or text[-1] != _LF:
        text = np.append(text, np.uint8(_LF))  # every loop stops at a line feed
    text = text.view()
    text.flags.writeable = False  # one array type, so that numba compiles once
    limit = MAX_INDEX if n_features is None else n_features
    colons, lines = _count(text)
    labels = np.empty(lines)
    label_at = np.empty(lines, dtype=np.int64)
    indptr = np.empty(lines + 1, dtype=np.int64)
    indices = np.empty(colons, dtype=np.int32)
    values = np.empty(colons)
    groups = np.full(lines, NO_GROUP, dtype=np.int64)
    start = 3 if line == 1 and bytes(text[:3]) == b"\xef\xbb\xbf" else 0
    first = 1 if zero_based is False else 0
    limit -= zero_based is True
    arrays = (labels, label_at, indptr, indices, values, groups)
    n, nnz, largest, wrong_at = _fill(text, start, first, limit, *allowed, *arrays)
    for row in np.flatnonzero(label_at[:n] >= 0):
        labels[row] = _float_at(text, label_at[row])
        if np.isinf(labels[row]):
            wrong_at = label_at[row]  # not after the line of the position that it replaces
            break
    if wrong_at >= 0:
        raise DataError(
            diagnose(
                text,
                wrong_at,
                name=name,
                n_features=n_features,
                first=first,
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
        largest + 1 - first if n_features is None else n_features + (zero_based is None),
        largest + 1 - first,
    )


def _float_at(text: np.ndarray, start: int) -> float:
    """Python's float of the number that begins at `start`; its form has been checked."""
    stop = start
    while text[stop] not in (_LF, _CR, _TAB, _SPACE, _HASH):
        stop += 1
    token = text[start:stop].tobytes()
    if b"x" not in token.lower():
        return float(token)
    try:
        return float.fromhex(token.decode())
    except OverflowError:
        return float("inf")


@numba.njit(cache=True, nogil=True)
def _count(text):
    """Upper bounds of the number of values and rows: colons, line ends."""
    colons = np.int64(0)
    lines = np.int64(0)
    for byte in text:
        colons += byte == _COLON
        lines += byte == _LF
    return colons, lines


@numba.njit(cache=True, nogil=True, inline="always")
def _ends_token(byte):
    return byte in (_SPACE, _LF, _TAB, _CR, _HASH)


@numba.njit(cache=True, nogil=True)
def _leading_digits(text, start, stop):
    """The first 18 significant digits of text[start:stop] as a number, and how many follow."""
    mantissa = np.int64(0)
    digits = 0
    cut = 0
    for at in range(start, stop):
        if text[at] == _POINT:
            continue
        digit = np.int64(text[at]) - _ZERO
        if digits == 18:
            cut += 1
        elif mantissa > 0 or digit != 0:
            mantissa = mantissa * 10 + digit
            digits += 1
    return mantissa, cut


@numba.njit(cache=True, nogil=True)
def _hexadecimal(text, at):
    """Read hex digits [. hex digits] [p [+-] digits] from `at`, after `0x`; as of `_number`."""
    value = 0.0
    exponent = 0
    n_digits = 0
    fraction = False
    while True:
        byte = text[at]
        lower = byte | _LOWER
        if byte == _POINT and not fraction:
            fraction = True
            at += 1
            continue
        if 0 <= np.int64(byte) - _ZERO <= 9:
            digit = np.int64(byte) - _ZERO
        elif _A <= lower <= _F:
            digit = np.int64(lower) - _A + 10
        else:
            break
        value = value * 16.0 + digit
        exponent -= 4 * fraction
        n_digits += 1
        at += 1
    if n_digits == 0:
        return 0.0, at, _MALFORMED
    if text[at] | _LOWER == _P:
        at += 1
        downwards = text[at] == _MINUS
        if downwards or text[at] == _PLUS:
            at += 1
        if not 0 <= np.int64(text[at]) - _ZERO <= 9:
            return 0.0, at, _MALFORMED
        power = 0
        while 0 <= np.int64(text[at]) - _ZERO <= 9:
            power = min(power * 10 + int(text[at]) - _ZERO, 1_000_000)
            at += 1
        exponent += -power if downwards else power
    value = math.ldexp(value, exponent)
    return value, at, _EXACT if n_digits <= 13 and value < np.inf else _ROUNDED


@numba.njit(cache=True, nogil=True)
def _number(text, at):
    """Read [+-] digits [. digits] [e [+-] digits], a hexadecimal number or `nan` from `at`.

    Returns the value, the position after it, and whether it is _EXACT (equal to Python's float),
    _ROUNDED or _MALFORMED.
    """
    negative = text[at] == _MINUS
    if negative or text[at] == _PLUS:
        at += 1
    start = at
    mantissa = np.int64(0)
    digit = np.int64(text[at]) - _ZERO
    while 0 <= digit <= 9:
        mantissa = mantissa * 10 + digit
        at += 1
        digit = np.int64(text[at]) - _ZERO
    n_digits = at - start
    if n_digits == 1 and mantissa == 0 and text[at] | _LOWER == _X:
        value, at, state = _hexadecimal(text, at + 1)
        return -value if negative else value, at, state
    if n_digits == 0 and text[at] | _LOWER == _N:
        if text[at + 1] | _LOWER == _A and text[at + 2] | _LOWER == _N:
            return np.nan, at + 3, _EXACT
        return 0.0, at, _MALFORMED
    n_fraction = 0
    if text[at] == _POINT:
        at += 1
        digit = np.int64(text[at]) - _ZERO
        while 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
            n_fraction += 1
            at += 1
            digit = np.int64(text[at]) - _ZERO
        n_digits += n_fraction
    if n_digits == 0:
        return 0.0, at, _MALFORMED
    exponent = -np.int64(n_fraction)
    exact = n_digits <= 15
    if n_digits > 18:
        mantissa, cut = _leading_digits(text, start, at)
        exponent += cut
    if text[at] in (_LOWER_E, _UPPER_E):
        at += 1
        downwards = text[at] == _MINUS
        if downwards or text[at] == _PLUS:
            at += 1
        digit = np.int64(text[at]) - _ZERO
        if not 0 <= digit <= 9:
            return 0.0, at, _MALFORMED
        power = np.int64(0)
        while 0 <= digit <= 9:
            if power < 1_000_000_000_000:  # saturates: the mantissa has fewer digits
                power = power * 10 + digit
            at += 1
            digit = np.int64(text[at]) - _ZERO
        exponent += -power if downwards else power
    value = np.float64(mantissa)
    if mantissa != 0:
        exact = exact and -22 <= exponent <= 22  # powers of ten that float64 holds
        if exponent > 308:
            value = np.float64(np.inf)
        elif exponent >= 0:
            value *= _POWERS[exponent]
        elif exponent >= -308:
            value /= _POWERS[-exponent]
        elif exponent >= -616:
            value = value / _POWERS[308] / _POWERS[-exponent - 308]
        else:
            value = np.float64(0.0)
    return -value if negative else value, at, _EXACT if exact else _ROUNDED


@numba.njit(cache=True, nogil=True)
def _line_end(text, at):
    while text[at] != _LF:
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def _qid(text, start):
    """The number of the `qid:digits` at `start` and the position after it; `start` if none is."""
    if not (text[start + 1] == _I and text[start + 2] == _D and text[start + 3] == _COLON):
        return np.int64(0), start
    at = start + 4
    number = np.int64(0)
    while 0 <= np.int64(text[at]) - _ZERO <= 9:
        number = number * 10 + np.int64(text[at]) - _ZERO
        at += 1
    ends = 0 < at - (start + 4) <= 18 and _ends_token(text[at])
    return number, at if ends else start


@numba.njit(cache=True, nogil=True)
def _fill(
    text,
    start,
    lowest,
    limit,
    missing,
    missing_target,
    labels,
    label_at,
    indptr,
    indices,
    values,
    groups,
):
    """Fill the arrays; returns rows, values, largest index, and the position of what is wrong.

    `lowest` and `limit` are the least and the largest index allowed, `missing` and `missing_target`
    whether a value and a label may be `nan`. The position is -1 if all text
    is accepted. `label_at` holds -1, or the position of a label that needs Python's float for an
    exact float64. `text` ends in a line feed, so that no loop over digits or blanks can leave it.
    """
    at = start
    row = 0
    nnz = 0
    largest = np.int64(lowest - 1)
    indptr[0] = 0
    while at < text.size:
        while text[at] in (_SPACE, _TAB):
            at += 1
        if text[at] == _CR and text[at + 1] == _LF:
            at += 1
        if text[at] == _HASH:
            at = _line_end(text, at)
        if text[at] == _LF:
            at += 1
            continue

        begin = at
        label, at, state = _number(text, at)
        if state == _MALFORMED or not _ends_token(text[at]):
            return row, nnz, largest, begin
        if not missing_target and np.isnan(label):
            return row, nnz, largest, begin
        labels[row] = label
        label_at[row] = -1 if state == _EXACT else begin
        row += 1

        previous = np.int64(lowest - 1)
        first = True
        while True:
            byte = text[at]
            while byte in (_SPACE, _TAB):
                at += 1
                byte = text[at]
            if byte == _LF:
                break
            begin = at
            index = np.int64(0)
            digit = np.int64(byte) - _ZERO
            if byte == _PLUS:
                at += 1
                digit = np.int64(text[at]) - _ZERO
                if not 0 <= digit <= 9:
                    return row, nnz, largest, begin
            while 0 <= digit <= 9:
                index = index * 10 + digit
                at += 1
                digit = np.int64(text[at]) - _ZERO
            if at == begin:  # no index: the line's end, a comment, qid, or an error
                if byte == _CR and text[at + 1] == _LF:
                    at += 1
                    break
                if byte == _HASH:
                    at = _line_end(text, at)
                    break
                if first and byte == _Q:
                    groups[row - 1], at = _qid(text, at)
                    first = False
                    if at > begin:
                        continue
                return row, nnz, largest, begin
            if text[at] != _COLON or at - begin > 18 or index <= previous or index > limit:
                return row, nnz, largest, begin
            at += 1
            while text[at] == _SPACE or text[at] == _TAB:
                at += 1

            # One digit, then short decimals, then every number. The first two cases are most of
            # all files; written out here they are 1.5 to 3 times faster than as calls of _number.
            begin_value = at
            digit = np.int64(text[at]) - _ZERO
            if 0 <= digit <= 9 and text[at + 1] == _SPACE:
                values[nnz] = digit
                at += 1
            else:
                negative = text[at] == _MINUS
                if negative:
                    at += 1
                mantissa = np.int64(0)
                digit = np.int64(text[at]) - _ZERO
                while 0 <= digit <= 9:
                    mantissa = mantissa * 10 + digit
                    at += 1
                    digit = np.int64(text[at]) - _ZERO
                fraction = at
                if digit == _POINT - _ZERO:
                    at += 1
                    fraction = at
                    digit = np.int64(text[at]) - _ZERO
                    while 0 <= digit <= 9:
                        mantissa = mantissa * 10 + digit
                        at += 1
                        digit = np.int64(text[at]) - _ZERO
                ends = digit == _SPACE - _ZERO or digit == _LF - _ZERO
                if ends and at - begin_value <= 15 and 0 <= np.int64(text[at - 1]) - _ZERO <= 9:
                    value = np.float64(mantissa) / _POWERS[at - fraction]
                    values[nnz] = -value if negative else value
                else:
                    value, at, state = _number(text, begin_value)
                    if state == _MALFORMED or not _ends_token(text[at]):
                        return row, nnz, largest, begin
                    if abs(value) >= _FLOAT32_OVERFLOW or (np.isnan(value) and not missing):
                        return row, nnz, largest, begin
                    values[nnz] = value
            indices[nnz] = index - lowest
            nnz += 1
            previous = index
            first = False
        largest = max(largest, previous)
        indptr[row] = nnz
        at += 1
    return row, nnz, largest, np.int64(-1)
