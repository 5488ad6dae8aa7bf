"""Error messages for lines that the LIBSVM reader does not accept.

The line is read again, token by token, by the grammar of `kbench.data.formats.libsvm`.
"""

import re

import numpy as np

from kbench.data.formats import (
    FLOAT32_OVERFLOW,
    INFINITE_REMEDY,
    LINE_END_REMEDY,
    MISSING_REMEDY,
    MISSING_TARGET_REMEDY,
)

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(
    rb"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?"
)
_MISSING = re.compile(rb"[+-]?nan", re.IGNORECASE)
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_QID = re.compile(rb"qid:[0-9]{1,19}")
_MAX_QID = (1 << 63) - 1
_TEXT_CONTROLS = frozenset(b"\t\n\r")
# The largest finite float32.
_LARGEST_FLOAT32 = 3.4028235e38


def diagnose(
    text: np.ndarray,
    at: int,
    *,
    name: str,
    n_features: int | None,
    lowest: int,
    limit: int,
    line: int = 1,
    last: bool = True,
) -> str:
    """The message for a line: `name:line: what was found, what would be right`.

    text : ndarray of uint8. The file, or a piece of it in whole lines.
    at : Position of the text that the reader did not accept
    n_features : Number of features that the caller expects
    lowest, limit : Least and largest index that the reader accepts
    line : Number of the text's first line in the file
    last : Whether the file ends with the text
    """
    content = text.tobytes()
    begin = content.rfind(b"\n", 0, at) + 1
    end = content.find(b"\n", at)
    last = last and (end < 0 or end >= len(content) - 1)
    line_bytes = content[begin : len(content) if end < 0 else end]
    where = f"{name}:{content.count(bytes([10]), 0, begin) + line}: "

    code = next((b for b in line_bytes if b >= 0x80 or (b < 32 and b not in _TEXT_CONTROLS)), None)
    if code is not None:
        return (
            f"{where}binary data (byte 0x{code:02x}), should be LIBSVM text, plain or "
            "compressed by gzip, bzip2, xz or zip"
        )
    return where + _describe(
        line_bytes, n_features=n_features, lowest=lowest, limit=limit, last=last
    )


def _describe(line: bytes, *, n_features: int | None, lowest: int, limit: int, last: bool) -> str:
    """The message of `diagnose` without the place; line : the bytes of the line."""
    if line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    body = line.removesuffix(b"\r").partition(b"#")[0]
    if b"\r" in body:
        return f"a carriage return inside the line; {LINE_END_REMEDY}"
    # Like LIBSVM, the reader skips blanks between a colon and its value.
    label, *pairs = re.split(
        rb"[ \t]+", re.sub(rb"(?<=[0-9]):[ \t]+(?=[^ \t])", b":", body.strip(b" \t"))
    )
    if problem := _number_problem(label, largest=None):
        if b":" in label:
            return (
                f"no label before {_show(label)}, a line should begin with the row's label, "
                "0 if it is not known"
            )
        if b"," in label and not _number_problem(label.split(b",")[0], largest=None):
            return (
                f"several labels in {_show(label)}, should be one number; if the file is a table, "
                "dataset.source.format=csv reads it"
            )
        if _MISSING.fullmatch(label):
            problem = f"is missing; {MISSING_TARGET_REMEDY}"
        return f"label {_show(label)} {problem}"
    if pairs and re.fullmatch(rb"qid:[0-9]+", pairs[0]):
        if not (_QID.fullmatch(pairs[0]) and int(pairs[0][4:]) <= _MAX_QID):
            return f"{_show(pairs[0])}, should be at most {_MAX_QID}"
        pairs = pairs[1:]
    previous = lowest - 1
    for k, pair in enumerate(pairs):
        cut_hint = " (is the file cut off here?)" if last and k == len(pairs) - 1 else ""
        index, colon, value = pair.partition(b":")
        if not colon:
            return f"{_show(pair)} has no colon, should be index:value{cut_hint}"
        if not re.fullmatch(rb"[+]?[0-9]{1,18}", index):
            if re.fullmatch(rb"-[0-9]+", index):
                return f"index {_show(index)} is negative, indices start at {lowest}"
            if not index:
                return f"no index before {_show(pair)}, should be index:value without a blank"
            if re.fullmatch(rb"qid", index):
                return f"{_show(pair)}, should be qid:NUMBER once, directly after the label"
            return f"index {_show(index)} in {_show(pair)}, should be a whole number from {lowest}"
        i = int(index)
        if i < lowest:
            return (
                f"index 0 in {_show(pair)}, should be from 1; zero_based=true, on the command line "
                "dataset.source.zero_based=true, reads indices from 0"
            )
        if i == previous:
            return f"index {i} twice, indices should increase along the line"
        if i < previous:
            return f"index {i} after index {previous}, indices should increase along the line"
        if i > limit:
            if n_features is not None:
                return f"index {i}, the data set has {n_features} features"
            return (
                f"index {i}, should be at most {limit}; if the file really is that wide, "
                "set n_features"
            )
        if not value:
            return f"no value after {_show(index)}:{cut_hint or ', should be index:value'}"
        if problem := _number_problem(value, largest=_LARGEST_FLOAT32):
            return f"value {_show(value)} of index {i} {problem}{cut_hint}"
        previous = i
    return f"{_show(body)}, should be: label index:value index:value ..."


def _number_problem(token: bytes, *, largest: float | None) -> str:
    """The reason why `token` is not a number up to `largest` (None: in float64), or '' if it is."""
    if _MISSING.fullmatch(token):
        return f"is missing, should be a number; {MISSING_REMEDY}"
    if _NOT_FINITE.fullmatch(token):
        return f"is not finite, should be a finite number; {INFINITE_REMEDY}"
    if _HEXADECIMAL.fullmatch(token):
        try:
            value = float.fromhex(token.decode())
        except OverflowError:
            value = float("inf")
    elif NUMBER.fullmatch(token):
        value = float(token)
    else:
        return "is not a number"
    if largest is not None and not abs(value) < FLOAT32_OVERFLOW:
        value = float("inf")
    if np.isinf(value if largest is None else np.float32(value)):
        bound = largest if largest is not None else "1.8e308"
        return f"is too large, should be below {bound} in magnitude"
    return ""


def _show(token: bytes) -> str:
    """The token in quotes, cut off after 40 characters (set by hand)."""
    text = token[:40].decode("ascii", "replace")
    return f"'{text}...'" if len(token) > 40 else f"'{text}'"
