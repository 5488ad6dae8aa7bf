"""Numbers and missing values as people write them in tables.

`number` in the package takes what Python and C print. Spreadsheets also write decimal commas,
thousands separators, currencies and percent signs; `decorated` reads those, once it is known which
character separates the decimals. Nothing is guessed field by field: `decimal_of` decides for a
whole file.
"""

import re
from collections.abc import Iterable

from kbench.data.formats import number, printable

MISSING = frozenset(
    (
        *("", "?", "na", "n/a", "nan", "-nan", "null", "<na>", "#n/a", "#na", "nat", "\\n"),
        *("#n/a n/a", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind"),
        *("#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"),
    )
)
"""Texts, in lower case, that stand for a missing value or a failed formula, as pandas, R, Weka,
databases and spreadsheets write it."""

DOUBTFUL = frozenset(("none", ".", "-", "--", "n.a.", "nil", "missing", "unknown", "undefined"))
"""Texts, in lower case, that may stand for a missing value or be an ordinary label."""

MISSING_NUMBERS = MISSING | {"none", ".", "-", "--", "n.a."}
"""The same where numbers are expected."""

_SPELLINGS = sorted({f(text) for text in MISSING_NUMBERS for f in (str, str.upper, str.title)})
NULL_TEXTS = [*_SPELLINGS, "NaN", "-NaN", "<NA>"]
"""The spellings of MISSING_NUMBERS that pyarrow's reader is given."""

TRUTHS = {"true": 1.0, "false": 0.0}
"""The values of the texts, in lower case, that pandas, R and databases write for truth values."""

_CURRENCY = r"(?:[$€£¥₹₩₽₺₴฿]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|kr|zł|Fr\.)(?=[\s\d]|$))"
_SPACES = " \u00a0\u202f\u2009'"
_DECORATED = {
    decimal: re.compile(
        rf"(?P<negative>\()?(?P<sign>[+-]?)\s*(?:{_CURRENCY}\s*)?(?P<sign2>[+-]?)"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?:(?P<group>[{_SPACES}{re.escape(other)}])[0-9]{{3}}"
        rf"(?:(?P=group)[0-9]{{3}})*)|[0-9]*)"
        rf"(?:{re.escape(decimal)}(?P<fraction>[0-9]*))?(?P<power>[eE][+-]?[0-9]+)?"
        rf"\s*(?:%|{_CURRENCY})?(?(negative)\)|)"
    )
    for decimal, other in ((".", ","), (",", "."))
}
_COMMA = re.compile(r"\d+,(\d{1,2}|\d{4,})\D*|.*\.\d{3},\d+\D*|\D*0,\d+\D*")
_POINT = re.compile(r".*,\d{3}\.\d*\D*|.*,\d{3},\d{3}.*|\D*\d*\.(\d{1,2}|\d{4,})\D*")


def is_missing(text: str, *, numeric: bool = False) -> bool:
    """Whether a field stands for a missing value; `numeric` : in a column of numbers."""
    return text.strip().lower() in (MISSING_NUMBERS if numeric else MISSING)


def labels_of(texts: Iterable[str]) -> set[str]:
    """The texts of a column of targets that are labels, not missing.

    Where all others are numbers, `None`, `-` and the like are missing, too.
    """
    labels = {text for text in texts if not is_missing(text)}
    numbers = {text for text in labels if not is_missing(text, numeric=True)}
    return numbers if numbers and all(number(text) is not None for text in numbers) else labels


def decorated(text: str, decimal: str) -> float | None:
    """The number in `€ 1.234,50`, `(1,234.50)`, `12 %`, `1 234`; None if there is none.

    Parameters
    ----------
    text : str
    decimal : {".", ","}
        The character before the decimals; the other one may separate thousands.

    Notes
    -----
    A percentage keeps its figure: `12 %` is 12.
    """
    match = _DECORATED[decimal].fullmatch(text.strip())
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    if match["sign"] and match["sign2"]:
        return None
    whole = re.sub(r"[^0-9]", "", match["whole"]) or "0"
    value = float(f"{whole}.{match['fraction'] or '0'}{match['power'] or ''}")
    negative = bool(match["negative"]) != ("-" in (match["sign"], match["sign2"]))
    return -value if negative else value


_PLAIN = r"[-+]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?"
_FORTRAN = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[dD]([-+]?[0-9]+)")
_UNCERTAIN = re.compile(rf"{_PLAIN}\s*(?:±|\+/-|\+-).+")
_WITH_UNIT = re.compile(rf"{_PLAIN}\s*([^\W\d_°]{{1,12}}|°[^\W\d_]?)([/·*^⁻-]?[^\W_]{{1,8}})?")
_DATE = re.compile(r"[0-9]{1,4}([-/.])[0-9]{1,2}\1[0-9]{1,4}([T ].*)?")


def almost_a_number(text: str, name: str) -> str | None:
    """What a field holds that a program would print for a number, and how pandas makes it one.

    Parameters
    ----------
    text : str
    name : str
        The column.

    Returns
    -------
    str or None
        None if the field is of no such kind.
    """
    column = f"frame[{printable(name)!r}]"
    alone = "the number should stand alone"
    if "," not in text:  # which may be decimals or thousands
        pattern = "([-+]?[.0-9]+(?:[eE][-+]?[0-9]+)?)"
        alone += f": in pandas, `{column}.str.extract('{pattern}')[0].astype(float)`"
    fortran = _FORTRAN.fullmatch(text)
    if fortran:
        return (
            f"this is an exponent of Fortran, {fortran[1]}E{fortran[2]} is right: in pandas, "
            f"`{column}.astype(str).str.replace('[dD]', 'E', regex=True).astype(float)`"
        )
    if _UNCERTAIN.fullmatch(text):
        return f"an uncertainty belongs in a column of its own, {alone}"
    if _DATE.fullmatch(text):
        return date_remedy(name)
    if text.lower() in TRUTHS:
        return f"in pandas, `{column}.astype(float)` makes 1 and 0 of truth values"
    unit = _WITH_UNIT.fullmatch(text)
    if unit:
        return f"if {unit[1] + (unit[2] or '')!r} is the unit of all rows, {alone}"
    return None


def date_remedy(name: str) -> str:
    """How pandas makes numbers of a column of dates."""
    # Offsets differ between summer and winter; without utc pandas refuses such a column.
    dates = f"pandas.to_datetime(frame[{printable(name)!r}], utc=True)"
    return f"these are dates: in pandas, `{dates}.astype('int64')` makes numbers of them"


def decimal_of(texts: Iterable[str], delimiter: str) -> str:
    """Return the decimal separator of a file, judged by its fields that are not plain numbers.

    `1,5` and `1.234,5` show a comma, `1,234.5` and `1,234,567` a point. If all fields are like
    `1,234`, it is a point in a file with commas between the fields, and else a comma.
    """
    comma = point = False
    for text in texts:
        comma |= _COMMA.fullmatch(text.strip()) is not None
        point |= _POINT.fullmatch(text.strip()) is not None
    if comma != point:
        return "," if comma else "."
    return "," if delimiter != "," and not point else "."


def plain_or_decorated(text: str, decimal: str) -> float | None:
    """The number that a field of a column with decorated numbers holds; None if it is none.

    Where a comma separates the decimals, `0.455` is none: its point separates no thousands.
    """
    value = decorated(text, decimal)
    if value is None and not (decimal == "," and "." in text):
        return number(text.strip())
    return value
