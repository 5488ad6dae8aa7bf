"""The LIBSVM reader against an independent slow parser, and the words for what it rejects."""

import importlib.util
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.data.formats.libsvm import parse
from kbench.errors import DataError


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HERE = Path(__file__).resolve().parent
fuzz = _load(HERE.parents[2] / "scripts" / "fuzz_libsvm.py")
reference = fuzz.reference


def rows_of(read):
    """What `parse` returned, in the reference's form."""
    return [
        (read.labels[i], list(zip(read.indices[a:b] + 1, read.values[a:b], strict=True)))
        for i, (a, b) in enumerate(pairwise(read.indptr))
    ]


FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def tables(draw):
    """Rows as [(label, {index: value})]."""
    row = st.tuples(FINITE, st.dictionaries(st.integers(1, 60), VALUE, max_size=8))
    return draw(st.lists(row, min_size=1, max_size=12))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
@settings(max_examples=60)
def test_hexadecimal_numbers_are_read_to_the_bit(values):
    """As svm-train does by C's strtod; `float.hex` has at most 13 digits after the point."""
    text = "\n".join(f"{value.hex()} 1:{value.hex()}" for value in values)
    read = parse(text.encode(), name="f")
    assert read.labels.tolist() == values
    np.testing.assert_array_equal(read.values, values)


@pytest.mark.parametrize("form", ["nan", "NaN", "-nan"])
def test_missing_values_and_labels_are_read_where_they_may_be(form):
    text = f"1 1:2 3:{form}\n{form} 2:1\n".encode()
    read = parse(text, name="f", missing=True, missing_target=True)
    np.testing.assert_array_equal(read.values, [2, np.nan, 1])
    np.testing.assert_array_equal(read.labels, [1, np.nan])
    with pytest.raises(DataError, match=rf"f:2: label '{form}' is missing"):
        parse(text, name="f", missing=True)


@given(tables(), st.sampled_from(["\n", "\r\n", " \n", "\n\n", " # x:y 3\n"]), st.booleans())
@settings(max_examples=60)
def test_what_was_written_is_read_back_to_the_bit(table, end, final):
    text = end.join(
        " ".join([repr(label), *(f"{i}:{np.float32(v)!s}" for i, v in sorted(row.items()))])
        for label, row in table
    ) + (end if final else "")
    read = parse(text.encode(), name="f")
    assert read.labels.tolist() == [label for label, _ in table]
    for (_, row), (_, pairs) in zip(table, rows_of(read), strict=True):
        assert [i for i, _ in pairs] == sorted(row)
        assert [np.float32(v) for _, v in pairs] == [np.float32(row[i]) for i in sorted(row)]


@given(
    st.from_regex(
        re.compile(r"[+-]?(\d{1,24}\.?\d{0,24}|\.\d{1,24})([eE][+-]?\d{1,3})?", re.A),
        fullmatch=True,
    )
)
@settings(max_examples=300)
def test_numbers_equal_pythons(text):
    """Labels exactly; values as the module promises: to the bit, or to 1e-15."""
    exact = float(text)
    if np.isinf(exact) or abs(exact) >= reference.FLOAT32_OVERFLOW:
        with pytest.raises(DataError, match="is too large"):
            parse(f"1 1:{text}\n".encode(), name="f")
    else:
        read = parse(f"{text} 1:{text}\n".encode(), name="f")
        assert read.labels[0] == exact
        assert np.signbit(read.labels[0]) == np.signbit(exact)
        fuzz.assert_value(read.values[0], text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+3", 3.0),
        ("1e-45", 1e-45),
        ("1e-400", 0.0),
        ("0e999999999999999999999", 0.0),
        ("0." + "0" * 400 + "1e401", 1.0),
        ("1" + "0" * 400 + "e-400", 1.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("3.4028235e38", 3.4028235e38),
        ("-0", -0.0),
    ],
)
def test_unusual_numbers(text, value):
    read = parse(f"1 1:{text}\n{text} 2:1\n".encode(), name="f")
    fuzz.assert_value(read.values[0], value)
    assert np.signbit(read.values[0]) == np.signbit(value)
    assert read.labels[1] == value


@pytest.mark.parametrize(
    "content",
    [
        b"+1 1:0.5 3:2\n-1 2:1\n",
        b"+1 1:0.5 3:2\r\n-1 2:1\r\n",
        b"+1 1:0.5 3:2\n-1 2:1",
        b"+1 1:0.5 3:2\r\n-1 2:1\r",
        b"\n\n# a comment 1:2\n+1 1:0.5 3:2 # 9:9\n   \n-1 2:1#9:9\n\n",
        b"+1 qid:7 1:0.5 3:2\n-1 qid:8 2:1\n",
        b"  +1\t1:0.5   3:2 \t \n-1 2:1   \n",
        b"\xef\xbb\xbf+1 1:0.5 3:2\n-1 2:1\n",
        b"1.0 1:5e-1 3:2.000\n-1e0 002:+1\n",
        b"1 1: 0.5 3:\t 2\n-1 +2:  1\n",
    ],
)
def test_harmless_forms(content):
    """CRLF, no last newline, blank lines, comments, qid, blanks, a byte order mark, signs."""
    read = parse(content, name="f")
    assert rows_of(read) == [(1.0, [(1, 0.5), (3, 2.0)]), (-1.0, [(2, 1.0)])]
    assert read.n_features == read.largest_index == 3


def test_rows_without_values_and_explicit_zeros():
    read = parse(b"-1 \n1\n-1 4:0\n", name="f", n_features=9)
    np.testing.assert_array_equal(read.indptr, [0, 0, 0, 1])
    assert read.to_csr().shape == (3, 9)
    assert read.values.tolist() == [0.0]


BAD = {
    "label": (b"1 1:2\nx1 1:2\n", "f:2: label 'x1' is not a number"),
    "no label": (b"1:2 2:3\n", "f:1: no label before '1:2'"),
    "several labels": (b"1,2 1:3\n", "f:1: several labels in '1,2', should be one number"),
    "label nan": (b"nan 1:2\n", "f:1: label 'nan' is missing; dataset.target.missing=drop"),
    "label inf": (b"1e999 1:2\n", "f:1: label '1e999' is too large"),
    "index 0": (b"1 0:2\n", "f:1: index 0 in '0:2', should be from 1; zero_based=true"),
    "negative index": (b"1 -3:2\n", "f:1: index '-3' is negative, indices start at 1"),
    "decreasing": (b"1 3:1 2:1\n", "f:1: index 2 after index 3, indices should increase"),
    "twice": (b"1 3:1 3:1\n", "f:1: index 3 twice, indices should increase"),
    "no colon": (b"1 3:1 4 5:1\n", "f:1: '4' has no colon, should be index:value"),
    "word": (b"1 a:1\n", "f:1: index 'a' in 'a:1', should be a whole number"),
    "nan": (b"1 3:nan\n", "f:1: value 'nan' of index 3 is missing, should be a number"),
    "inf": (b"1 3:-Inf\n", "f:1: value '-Inf' of index 3 is not finite"),
    "too large": (b"1 3:1e39\n", "f:1: value '1e39' of index 3 is too large"),
    "no number": (b"1 3:1_0\n", "f:1: value '1_0' of index 3 is not a number"),
    "two colons": (b"1 3:1:2\n", "f:1: value '1:2' of index 3 is not a number"),
    "cut after colon": (b"1 3:1\n1 3:1 4:", "f:2: no value after '4': (is the file cut off"),
    "cut in index": (b"1 3:1\n1 3:1 4", "f:2: '4' has no colon, .* (is the file cut off"),
    "cut in number": (b"1 3:1\n1 3:1e", "f:2: value '1e' of index 3 is not a number (is the file"),
    "huge index": (b"1 999999999999:1\n", "f:1: index 999999999999, should be at most 100000000"),
    "longer index": (b"1 " + b"9" * 40 + b":1\n", "f:1: index '9999.* whole number from 1"),
    "junk": (b"1 3:1\n\x00\x01\x02\xff\n", "f:2: binary data (byte 0x00), should be LIBSVM text"),
    "csv": (b"1,2,3\n4,5,6\n", "f:1: several labels in '1,2,3'"),
    "return": (b"1 3:1\r2 3:1\n", "f:1: a carriage return inside the line"),
    "qid twice": (b"1 qid:1 qid:2 1:1\n", "f:1: 'qid:2', should be qid:NUMBER once"),
    "large qid": (
        b"1 qid:9223372036854775808 1:1\n",
        "f:1: 'qid:9223372036854775808', should be at",
    ),
    "larger qid": (b"1 qid:18446744073709551616 1:1\n", "f:1: 'qid:18446744073709551616', should"),
    "late qid": (b"1 1:1 qid:2\n", "f:1: 'qid:2', should be qid:NUMBER once, directly after"),
    "blank before the colon": (b"1 3 :1\n", "f:1: '3' has no colon, should be index:value"),
    "empty": (b"", "f: the file is empty"),
    "only blanks": (b"\n# nothing\n  \n", "f: no rows, only empty lines or comments"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_with_its_line(case):
    content, message = BAD[case]
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(DataError, match=f"^{pattern}") as error:
        parse(content, name="f")
    assert "\n" not in str(error.value)
    with pytest.raises(reference.Rejected):
        reference.parse(content)


def test_an_index_beyond_the_declared_features():
    with pytest.raises(DataError, match=r"^f:2: index 6, the data set has 5 features$"):
        parse(b"1 5:1\n1 6:1\n", name="f", n_features=5)


def test_input_is_not_changed_and_read_only_input_is_fine():
    content = bytearray(b"1 1:2\n2 3:4\n")
    before = bytes(content)
    first = parse(content, name="f")
    second = parse(np.frombuffer(before, dtype=np.uint8), name="f")
    assert bytes(content) == before
    assert rows_of(first) == rows_of(second)


def test_mutated_bytes_never_crash_and_never_read_wrongly():
    """10^5 mutations of small files: accepted ones equal the reference to the bit."""
    accepted = fuzz.run(100_000, seed=0)
    # Both outcomes must be common, or the test tests little.
    assert 10_000 < accepted < 90_000
