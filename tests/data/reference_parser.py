"""A slow LIBSVM parser without code in common with kbench's: the reference in its tests."""

import re
from itertools import pairwise

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
LINE = re.compile(
    rf"[ \t]*(?:(?P<label>{NUMBER})(?P<qid>[ \t]+qid:\d+)?"
    rf"(?P<pairs>(?:[ \t]+\d{{1,18}}:{NUMBER})*)[ \t]*)?(?:#.*)?",
    re.ASCII | re.DOTALL,
)
FLOAT32_OVERFLOW = 2.0**128 - 2.0**103


class Rejected(Exception):
    """The text is not LIBSVM text; `line` is the first bad line, from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def parse(content: bytes, *, n_features: int | None = None) -> list[tuple[float, list]]:
    """Rows as (label, [(index from 1, value as float), ...]); raises Rejected."""
    limit = 100_000_000 if n_features is None else n_features
    rows = []
    text = content.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    for number, line in enumerate(text.split("\n"), start=1):
        found = LINE.fullmatch(line.removesuffix("\r"))
        if found is None:
            raise Rejected(number)
        if found["label"] is None:
            continue
        label = float(found["label"])
        pairs = [(int(i), float(v)) for i, v in (p.split(":") for p in found["pairs"].split())]
        indices = [0, *(i for i, _ in pairs)]
        sizes = [abs(v) < FLOAT32_OVERFLOW for _, v in pairs]
        if (
            abs(label) == float("inf")
            or any(a >= b for a, b in pairwise(indices))
            or indices[-1] > limit
            or not all(sizes)
        ):
            raise Rejected(number)
        rows.append((label, pairs))
    if not rows:
        raise Rejected(0)
    return rows
