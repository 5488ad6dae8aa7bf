"""Compiled passes over the bytes of LIBSVM text: count values, read numbers, fill arrays of rows.

`kbench.data.formats.libsvm` describes the format and the accuracy of numbers.
"""

import math

import numba
import numpy as np

_LF, _CR, _TAB, _SPACE, _HASH, _COLON = (ord(c) for c in "\n\r\t #:")
_ZERO, _POINT, _PLUS, _MINUS, _LOWER_E, _UPPER_E = (ord(c) for c in "0.+-eE")
_Q, _I, _D = (ord(c) for c in "qid")
_A, _F, _N, _P, _X = (ord(c) for c in "afnpx")
_LOWER = 32  # bit that is set in lower-case letters
NO_GROUP = -1
"""Value of the group array at rows without a `qid`."""
# Outcomes of parsing a number, as compiled code returns them.
_EXACT, _ROUNDED, _MALFORMED = 0, 1, 2

_POWERS = np.array([float(f"1e{e}") for e in range(309)])  # 1e309 exceeds float64
_FLOAT32_OVERFLOW = float(2.0**128 - 2.0**103)  # least number that rounds to inf in float32


@numba.njit(cache=True, nogil=True)
def count(text):
    """The numbers of colons and line ends, which bound the numbers of values and rows."""
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
    """The first 18 significant digits of text[start:stop] as a number, and how many follow them."""
    mantissa = np.int64(0)
    digits = 0
    n_cut = 0
    for at in range(start, stop):
        if text[at] == _POINT:
            continue
        digit = np.int64(text[at]) - _ZERO
        if digits == 18:
            n_cut += 1
        elif mantissa > 0 or digit != 0:
            mantissa = mantissa * 10 + digit
            digits += 1
    return mantissa, n_cut


@numba.njit(cache=True, nogil=True)
def _hexadecimal(text, at):
    """Read hex digits [. hex digits] [p [+-] digits] from `at`, after `0x`.

    Returns value, position and state as `_number` does.
    """
    value = 0.0
    exponent = 0
    n_digits = 0
    after_point = False
    while True:
        byte = text[at]
        lower = byte | _LOWER
        if byte == _POINT and not after_point:
            after_point = True
            at += 1
            continue
        if 0 <= np.int64(byte) - _ZERO <= 9:
            digit = np.int64(byte) - _ZERO
        elif _A <= lower <= _F:
            digit = np.int64(lower) - _A + 10
        else:
            break
        value = value * 16.0 + digit
        exponent -= 4 * after_point
        n_digits += 1
        at += 1
    if n_digits == 0:
        return 0.0, at, _MALFORMED
    if text[at] | _LOWER == _P:
        at += 1
        has_negative_power = text[at] == _MINUS
        if has_negative_power or text[at] == _PLUS:
            at += 1
        if not 0 <= np.int64(text[at]) - _ZERO <= 9:
            return 0.0, at, _MALFORMED
        power = 0
        while 0 <= np.int64(text[at]) - _ZERO <= 9:
            # Guard: ldexp takes an int32. A larger power of two gives 0 or inf.
            power = min(power * 10 + int(text[at]) - _ZERO, 1_000_000)
            at += 1
        exponent += -power if has_negative_power else power
    value = math.ldexp(value, exponent)
    # 13 hex digits are 52 bits, which float64 holds.
    return value, at, _EXACT if n_digits <= 13 and value < np.inf else _ROUNDED


@numba.njit(cache=True, nogil=True)
def _number(text, at):
    """Read [+-] digits [. digits] [e [+-] digits], a hexadecimal number or `nan` from `at`.

    Returns the value, the position after it, and whether it is _EXACT (equal to Python's float),
    _ROUNDED or _MALFORMED. `text` has to end in a line feed, at which every loop stops.

    The value is a mantissa times a power of ten. Both are exact in float64, and their product or
    quotient is rounded once, if the text has at most 15 digits and the exponent of ten is within
    +-22. An int64 holds 18 digits; of longer numbers the first 18 significant ones count.
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
        mantissa, n_cut = _leading_digits(text, start, at)
        exponent += n_cut
    if text[at] in (_LOWER_E, _UPPER_E):
        at += 1
        has_negative_power = text[at] == _MINUS
        if has_negative_power or text[at] == _PLUS:
            at += 1
        digit = np.int64(text[at]) - _ZERO
        if not 0 <= digit <= 9:
            return 0.0, at, _MALFORMED
        power = np.int64(0)
        while 0 <= digit <= 9:
            if power < 1_000_000_000_000:  # a larger exponent gives 0 or inf, as no text is so long
                power = power * 10 + digit
            at += 1
            digit = np.int64(text[at]) - _ZERO
        exponent += -power if has_negative_power else power
    value = np.float64(mantissa)
    if mantissa != 0:
        exact = exact and -22 <= exponent <= 22  # powers of ten that float64 holds
        if exponent > 308:
            value = np.float64(np.inf)
        elif exponent >= 0:
            value *= _POWERS[exponent]
        elif exponent >= -308:
            value /= _POWERS[-exponent]
        elif exponent >= -616:  # 2 x 308: two powers of ten that float64 holds
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
    """The number in `qid:digits` at `start`, and the position after it or `start` if malformed."""
    if not (text[start + 1] == _I and text[start + 2] == _D and text[start + 3] == _COLON):
        return np.int64(0), start
    at = start + 4
    number = np.int64(0)
    while 0 <= np.int64(text[at]) - _ZERO <= 9:
        number = number * 10 + np.int64(text[at]) - _ZERO
        at += 1
    # A number of 19 digits above 2^63 - 1 has wrapped around to a negative one.
    ends = 0 < at - (start + 4) <= 19 and number >= 0 and _ends_token(text[at])
    return number, at if ends else start


@numba.njit(cache=True, nogil=True)
def fill(
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
    """Fill the arrays; returns numbers of rows and values, the largest index and an error position.

    text : (bytes,) uint8. It has to end in a line feed, at which the loops stop.
    start : position of the first line
    lowest, limit : smallest and largest index allowed
    missing, missing_target : whether a value and a label may be `nan`
    labels, label_at, groups : (line ends,). `label_at` gets -1, or the position of a label that
        Python's float has to read exactly. The caller fills `groups` with NO_GROUP.
    indptr : (line ends + 1,)
    indices, values : (colons,). The entries of rows in CSR order, columns counted from 0.

    The error position is the start of the first wrong token, or -1; the numbers and the arrays are
    those of the text before it.
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
        first = True  # only the first token after the label may be a `qid`
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
            # An index of at most 18 digits has not overflowed int64.
            if text[at] != _COLON or at - begin > 18 or index <= previous or index > limit:
                return row, nnz, largest, begin
            at += 1
            while text[at] == _SPACE or text[at] == _TAB:
                at += 1

            # Most values are a single digit or a short decimal. Both are read here, which takes a
            # half to a third of the time of _number (`scripts/bench_reader.py` times the reader).
            # Like there, at most 15 digits are exact.
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
                fraction_start = at
                if digit == _POINT - _ZERO:
                    at += 1
                    fraction_start = at
                    digit = np.int64(text[at]) - _ZERO
                    while 0 <= digit <= 9:
                        mantissa = mantissa * 10 + digit
                        at += 1
                        digit = np.int64(text[at]) - _ZERO
                ends = digit == _SPACE - _ZERO or digit == _LF - _ZERO
                if ends and at - begin_value <= 15 and 0 <= np.int64(text[at - 1]) - _ZERO <= 9:
                    value = np.float64(mantissa) / _POWERS[at - fraction_start]
                    values[nnz] = -value if negative else value
                else:
                    value, at, state = _number(text, begin_value)
                    if state == _MALFORMED or not _ends_token(text[at]):
                        return row, nnz, largest, begin
                    # A row without a target is left out, whatever else it lacks.
                    lacks = np.isnan(value) and not missing and not np.isnan(label)
                    if abs(value) >= _FLOAT32_OVERFLOW or lacks:
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
