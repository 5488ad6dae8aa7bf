"""Mutate small LIBSVM files at random; the reader must agree with an independent slow parser.

    python scripts/fuzz_libsvm.py [number of inputs, default 1000000] [seed, default 0]

Both must read an accepted input to the same rows and reject any other at the same line, with one
line of text. Prints the first input for which this fails, and stops.
"""

import importlib.util
import random
import re
import sys
import time
from pathlib import Path

import numpy as np

from kbench.data.formats.libsvm import parse
from kbench.errors import DataError

_REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "data" / "reference_parser.py"
_spec = importlib.util.spec_from_file_location("reference_parser", _REFERENCE)
assert _spec is not None
assert _spec.loader is not None
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

SEEDS = (
    b"+1 1:0.5 3:-2 7:1e-3\n-1 2:1 3:.25\n",
    b"1 qid:3 1:1 2:1 # note\n\n2 1:0.125 12:100\n",
    b"-1.5e2 4:123456789.125 5:5.\r\n3\r\n",
    b"1 1:1 2:2 3:3 4:4\n2 1:1\n3\n4 9:9 10:10",
    b"0.1 1:0.30000000000000004 2:1.7976931348623157e8\n",
    b"0x1.8p1 1:-0x.8P-2 4:0X1F\nnan 2:NaN 3:0x0p0\n",
    b"1 0: 1 +3:\t2\n-1 qid:12 2:  -4 5:1e5\n",
)
ALPHABET = b"0123456789+-.eE: \t\n\r#qidnaxXpPfF<\x00\xff,"
TOKENS = (b": ", b" :", b"+1:", b"0:0", b"1:1", b" 2:2", b"e5", b"nan", b"inf", b"0x",
          b"0x1p", b"qid:1 ",
          b"\r\n", b"0:", b"99999999999", b"#",
          b"12345678901234567890", b"e-400", b"e39", b"::", b"\n\n", b"-")  # fmt: skip


def mutate(rng: random.Random) -> bytes:
    """One of SEEDS after one to four random edits."""
    content = bytearray(rng.choice(SEEDS))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 0:
                content[at : at + 1] = bytes([rng.choice(ALPHABET)])
            case 1:
                content[at:at] = bytes([rng.choice(ALPHABET)])
            case 2:
                del content[at : at + rng.randint(1, 3)]
            case 3:
                content[at:at] = rng.choice(TOKENS)
            case 4:
                stop = min(len(content), at + rng.randint(1, 12))
                content[at:at] = content[at:stop]
            case 5:
                del content[at:]
    return bytes(content)


def check(
    content: bytes, n_features: int | None, *, zero_based: bool = False, missing: bool = False
) -> bool:
    """Whether the input was accepted; AssertionError if the two parsers disagree."""
    expected, bad_line = None, None
    try:
        expected = reference.parse(
            content, n_features=n_features, zero_based=zero_based, missing=missing
        )
    except reference.Rejected as rejected:
        bad_line = rejected.line
    read, message = None, ""
    try:
        read = parse(
            content,
            name="f",
            n_features=n_features,
            zero_based=zero_based,
            missing=missing,
            missing_target=missing,
        )
    except DataError as error:
        message = str(error)
    if expected is None or read is None:
        assert read is None, f"{content!r}: accepted, should be rejected"
        assert expected is None, f"{content!r}: rejected ({message}), should be accepted"
        found = re.fullmatch(r"f(?::(\d+))?: .+", message)
        assert found, f"{content!r}: message {message!r}"
        line = int(found.group(1) or 0)
        assert line == bad_line, f"{content!r}: line {line}, not {bad_line}"
        # The message of the diagnosis if it finds nothing wrong with a rejected line.
        assert "should be: label index:value" not in message, f"{content!r}: undiagnosed"
        return False
    labels = [row.label for row in expected]
    assert np.array_equal(read.labels, labels, equal_nan=True), f"{content!r}: labels"
    assert read.groups.tolist() == [row.group for row in expected], f"{content!r}: groups"
    starts = np.cumsum([0, *(len(row.pairs) for row in expected)])
    assert read.indptr.tolist() == starts.tolist(), f"{content!r}: rows"
    pairs = [pair for row in expected for pair in row.pairs]
    first = 0 if zero_based else 1
    assert (read.indices + first).tolist() == [i for i, _ in pairs], f"{content!r}: indices"
    for value, (_, exact) in zip(read.values, pairs, strict=True):
        assert_value(value, exact)
    return True


def assert_value(value: float, exact: str | float) -> None:
    """`value` is `exact` up to a relative error of 1e-15, or of one step among denormal numbers."""
    exact = float(exact)
    if np.isnan(exact) and np.isnan(value):
        return
    allowed = max(1e-15 * abs(exact), float(np.spacing(0.0)))
    assert abs(float(value) - exact) <= allowed, f"{value!r} is not {exact!r}"


def run(n: int, seed: int) -> int:
    """Check n mutated inputs; returns how many were accepted."""
    rng = random.Random(seed)
    return sum(
        check(
            mutate(rng),
            rng.choice((None, None, 10)),
            zero_based=rng.random() < 0.5,
            missing=rng.random() < 0.5,
        )
        for _ in range(n)
    )


def main() -> None:
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    begin = time.perf_counter()
    accepted = run(inputs, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{inputs} inputs, {accepted} accepted, {time.perf_counter() - begin:.0f} s: all agree")


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
