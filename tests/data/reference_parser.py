"""A slow LIBSVM parser without code in common with kbench's: the reference in its tests."""

import re
from itertools import pairwise
from typing import NamedTuple

HEX = r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?\d+)?"
NUMBER = rf"[+-]?(?:{HEX}|[nN][aA][nN]|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
LINE = re.compile(
    rf"[ \t]*(?:(?P<label>{NUMBER})(?:[ \t]+qid:(?P<qid>\d{{1,19}}))?"
    rf"(?P<pairs>(?:[ \t]+[+]?\d{{1,18}}:[ \t]*{NUMBER})*)[ \t]*)?(?:#.*)?",
    re.ASCII | re.DOTALL,
)
PAIR = re.compile(rf"[+]?(\d+):[ \t]*({NUMBER})", re.ASCII)
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103


class Row(NamedTuple):
    """group : the row's qid, -1 without one. pairs : (index as in the text, value)."""

    label: float
    group: int
    pairs: list[tuple[int, float]]


class Rejected(Exception):
    """The text is not LIBSVM text; `line` is the first bad line, from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def _number(text: str) -> float:
    if "x" not in text.lower():
        return float(text)
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("inf")


def parse(
    content: bytes,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    missing: bool = False,
) -> list[Row]:
    """The rows; raises Rejected. `missing` : whether values and labels may be nan."""
    first = 0 if zero_based else 1
    limit = (100_000_000 if n_features is None else n_features) - 1 + first
    rows = []
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        found = LINE.fullmatch(line.removesuffix("\r"))
        if found is None:
            raise Rejected(number)
        if found["label"] is None:
            continue
        label = _number(found["label"])
        pairs = [(int(i), _number(v)) for i, v in PAIR.findall(found["pairs"])]
        indices = [first - 1, *(i for i, _ in pairs)]
        sizes = [abs(v) < FLOAT32_OVERFLOW or (missing and v != v) for _, v in pairs]
        if (
            abs(label) == float("inf")
            or int(found["qid"] or 0) >= 2**63
            or (label != label and not missing)
            or any(a >= b for a, b in pairwise(indices))
            or indices[-1] > limit
            or not all(sizes)
        ):
            raise Rejected(number)
        rows.append(Row(label, int(found["qid"] or -1), pairs))
    if not rows:
        raise Rejected(0)
    return rows
