"""Numbers and missing values as people write them in tables.

`number` in the package reads numbers as Python and C print them. Spreadsheets also write decimal
commas, thousands separators, currencies and percent signs, which `decorated_number` reads.
`decimal_of` finds the decimal separator of a whole file, not of a single field.
"""

import re
import unicodedata
from collections.abc import Iterable

from kbench.data.formats import excerpt, number, printable

MISSING = frozenset(
    (
        *("", "?", "na", "n/a", "nan", "-nan", "null", "<na>", "#n/a", "#na", "nat", "\\n"),
        *("(null)", "[null]", "<null>"),
        *("#n/a n/a", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind"),
        *("#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#nv", "#spill!", "#calc!"),
    )
)
"""Texts, in lower case, for a missing value or a failed formula, as pandas, R, Weka, databases and
spreadsheets write them."""

_FAILED_FORMULA = re.compile(r"#[¡¿]?[^\W\d_]{3,9}[!?]|#[^\W\d_]{3}/0!")
"""A failed formula as spreadsheets in other languages write it: `#WERT!`, `#VALEUR!`, `#¡REF!`. The
numbers of letters are set by hand."""

DOUBTFUL = frozenset(
    (
        *("none", ".", "-", "--", "n.a.", "nil", "missing", "unknown", "undefined"),
        *("(none)", "(blank)", "(empty)", "\u2013", "\u2014", "...", "not available"),
    )
)
"""Texts, in lower case, that may stand for a missing value or be an ordinary label."""

MISSING_NUMBERS = MISSING | {"none", ".", "-", "--", "n.a."}
"""Texts, in lower case, that stand for a missing value where numbers are expected."""

DASHES = frozenset(("-", "--"))
"""Texts for missing numbers that accountants write for zero."""

_PLAIN_GAPS = MISSING_NUMBERS - DASHES
_SPELLINGS = sorted({f(text) for text in _PLAIN_GAPS for f in (str, str.upper, str.title)})
NULL_TEXTS = [*_SPELLINGS, "NaN", "-NaN", "<NA>"]
"""Spellings of a missing number, without dashes, that pyarrow's reader takes for null."""

TRUTHS = {"true": 1.0, "false": 0.0}
"""The values of the texts, in lower case, that pandas, R and databases write for truth values."""

PADDED = re.compile(r"0[0-9]+")
"""A whole number with leading zeros, such as a postal code: a name, not a number."""

TOTALS = re.compile(
    r"(grand |sub-?|overall )?(totals?|sums?|averages?|means?)|(gesamt)?summe|gesamt|insgesamt|"
    r"mittelwert|durchschnitt|somme|moyenne|totale|somma|media|suma|totaal|итого|合計|总计|合计",
    re.IGNORECASE,
)
"""The text of a spreadsheet's last line if the line holds sums or means of the other lines."""

_CURRENCY = (
    r"(?:[A-Z]{0,3}\$|[€£¥₹₩₽₺₴฿₪₫₦]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|"
    r"HUF|RUB|BRL|MXN|KRW|ZAR|TRY|SGD|HKD|THB|ILS|kr|zł|Kč|Ft|Fr\.|Rs\.?)(?=[-\u2212\u2013\s\d)]|$))"
)
_ZERO = re.compile(rf"{_CURRENCY}\s*-|-\s*{_CURRENCY}")
"""`$ -`, zero in the accounting format of spreadsheets."""
_ACCOUNT = re.compile(rf"({_CURRENCY})\s*\((.*)\)")
"""`$ (1.50)`, a negative number in the accounting format of spreadsheets."""
_GROUP_MARKS = " \u00a0\u202f\u2009'\u2019"  # spaces and apostrophes that separate thousands
_MINUS = "\u2212\u2013-"  # U+2212, which reports print, the dash of word processors, the hyphen
_DECORATED = {
    decimal: re.compile(
        rf"(?P<negative>\()?(?P<sign>[+{_MINUS}]?)\s*(?P<before>{_CURRENCY})?\s*"
        rf"(?P<sign2>[+{_MINUS}]?)"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?:(?P<group>[{_GROUP_MARKS}{re.escape(other)}])[0-9]{{3}}"
        rf"(?:(?P=group)[0-9]{{3}})*)|[0-9]*)"
        rf"(?:{re.escape(decimal)}(?P<fraction>[0-9]*))?(?P<power>[eE][+{_MINUS}]?[0-9]+)?"
        rf"(?P<sign3>-)?"
        rf"\s*(?P<after>%|{_CURRENCY})?(?(negative)\)|)"
    )
    for decimal, other in ((".", ","), (",", "."))
}
_BETWEEN_DIGITS = re.compile(rf"(?<=[0-9])[{_GROUP_MARKS}](?=[0-9]{{3}})")
# Numbers whose form shows which character precedes the decimals: a comma, or a point.
_COMMA = re.compile(r"\d+,(\d{1,2}|\d{4,})\D*|.*\.\d{3},\d+\D*|\D*0,\d+\D*")
_POINT = re.compile(r".*,\d{3}\.\d*\D*|.*,\d{3},\d{3}.*|\D*\d*\.(\d{1,2}|\d{4,})\D*")


def is_missing(text: str, *, numeric: bool = False) -> bool:
    """Whether a field stands for a missing value; numeric : whether its column holds numbers."""
    if text.strip().lower() in (MISSING_NUMBERS if numeric else MISSING):
        return True
    return text.startswith("#") and _FAILED_FORMULA.fullmatch(text) is not None


def labels_of(texts: Iterable[str]) -> set[str]:
    """The target texts that are not missing.

    If all others are numbers, the texts of `MISSING_NUMBERS` are missing, too.
    """
    labels = {text for text in texts if not is_missing(text)}
    numbers = {text for text in labels if not is_missing(text, numeric=True)}
    return numbers if numbers and all(number(text) is not None for text in numbers) else labels


def one_spelling(labels: set[str]) -> set[str]:
    """The labels; if all are truth values, `TRUE` and `True` become one label, as in pandas."""
    if {text.lower() for text in labels} <= TRUTHS.keys() and len(labels) > len(TRUTHS):
        return {text.title() for text in labels}
    return labels


def first_confusable_pair(texts: Iterable[str]) -> list[str]:
    """Two texts that differ only in case, blanks, hidden characters, zeros or a last point."""
    text_of_key: dict[str, str] = {}
    for text in sorted(texts):
        value = number(text)
        key = repr(value)
        if value is None or not abs(value) < 2.0**53:  # float64 merges whole numbers above 2^53
            plain = unicodedata.normalize("NFKC", text).casefold()
            visible = plain if plain.isprintable() else "".join(filter(str.isprintable, plain))
            key = visible.replace(" ", "").rstrip(".")
        earlier = text_of_key.setdefault(key, text)
        if earlier != text:
            return [earlier, text]
    return []


def decorated_number(text: str, decimal: str) -> float | None:
    """The number in `€ 1.234,50`, `(1,234.50)`, `12 %`, `1 234`; None if there is none.

    decimal : {".", ","}. The character before the decimals; the other one may separate thousands.

    The percent sign is dropped: `12 %` is 12. `$ -` is zero.
    """
    if _ZERO.fullmatch(text.strip()):
        return 0.0
    match = _match_decorated(text, decimal)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    signs = [sign for sign in (match["sign"], match["sign2"], match["sign3"]) if sign]
    # SAP writes the sign at the end. But `2-` without decimals is usually a grade, `5.-` a price.
    if len(signs) > 1 or (match["sign3"] and not match["fraction"]):
        return None
    integer_digits = re.sub(r"[^0-9]", "", match["whole"]) or "0"
    power = re.sub(f"[{_MINUS}]", "-", match["power"] or "")
    value = float(f"{integer_digits}.{match['fraction'] or '0'}{power}")
    negative = bool(match["negative"]) != (signs not in ([], ["+"]))
    return -value if negative else value


def _match_decorated(text: str, decimal: str) -> re.Match[str] | None:
    return _DECORATED[decimal].fullmatch(_ACCOUNT.sub(r"(\1\2)", text.strip()))


def unit_sign(text: str, decimal: str) -> str:
    """The currency or percent sign beside the number in `text`; empty without one."""
    match = _match_decorated(text, decimal)
    return "" if match is None else (match["before"] or match["after"] or "")


_PLAIN = r"[-+]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?"
_FORTRAN = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[dD]([-+]?[0-9]+)")
_UNCERTAIN = re.compile(rf"{_PLAIN}\s*(?:±|\+/-|\+-).+")
# The numbers of letters of a unit, at most 12 and 8, are set by hand.
_WITH_UNIT = re.compile(rf"{_PLAIN}\s*([^\W\d_°]{{1,12}}|°[^\W\d_]?)([/·*^⁻-]?[^\W_]{{1,8}})?")
_DATE = re.compile(
    r"(?=.*[0-9]{2})[0-9]{1,4}([-/. ])([0-9]{1,2}|[^\W\d_]{3,9})\1[0-9]{1,4}([T ].*)?|"
    r"[^\W\d_]{3,9}\.? [0-9]{1,2},? [0-9]{4}([T ].*)?|[0-9]{4}[-/][0-9]{2}|"
    r"[0-9]{8}T[0-9]{4}([0-9]{2})?Z?|"
    r"[0-9]{1,2}(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[0-9]{2,4}"
)
_DAY_FIRST = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{2,4}.*")
_HIDDEN = re.compile(r"[\x00-\x1f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_OTHER_DIGITS = re.compile(r"[-+]?\d+(\.\d+)?")
_LIMIT = re.compile(rf"[<>≤≥]=?\s*{_PLAIN}")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+")
_TIME = re.compile(
    r"(-?[0-9]+ days? )?[+-]?[0-9]{1,3}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?|-?P(?=[0-9T])[0-9.DTHMS]+|"
    r"(?i:([0-9.]+ ?(d|days?|h|hrs?|hours?|m|min|minutes?|s|sec|seconds?) ?){2,})"
)


def text_target_error(text: str, name: str) -> str:
    """The error message for a text as target of a regression; name : the target's column."""
    cause = almost_a_number(text, name)
    return (
        f"target {name!r} is {excerpt(text)!r}, should be a number, as dataset.task is "
        "regression" + (f"; {cause}" if cause else "")
    )


def almost_a_number(text: str, name: str) -> str | None:
    """A message that explains a field that is nearly a number, with the remedy; name : the column.

    Returns None for other fields.
    """
    column = f"frame[{printable(name)!r}]"
    remedy = "the number should stand alone"
    if "," not in text:  # a comma may separate decimals or thousands
        pattern = "([-+]?[.0-9]+(?:[eE][-+]?[0-9]+)?)"
        remedy += f": in pandas, `{column}.str.extract('{pattern}')[0].astype(float)`"
    if _HIDDEN.search(text) and number(_HIDDEN.sub("", text).strip()) is not None:
        return (
            f"hidden characters do not belong to it: in pandas, `{column}.map(lambda text: "
            "''.join(filter(str.isprintable, text)), na_action='ignore').astype(float)`"
        )
    if not text.isascii() and _OTHER_DIGITS.fullmatch(text):
        return f"these are digits of another script: in pandas, `{column}.map(float)` reads them"
    fortran = _FORTRAN.fullmatch(text)
    if fortran:
        return (
            f"this is an exponent of Fortran, {fortran[1]}E{fortran[2]} is right: in pandas, "
            f"`{column}.astype(str).str.replace('[dD]', 'E', regex=True).astype(float)`"
        )
    if _HEXADECIMAL.fullmatch(text):
        return f"this is a hexadecimal number, {int(text, 16)} is right"
    if len(text) > 2 and text[0] == text[-1] == "'":
        return "single quotes are part of a field: `tr \\' '\"' < FILE` makes them double"
    if _UNCERTAIN.fullmatch(text):
        return f"an uncertainty belongs in a column of its own, {remedy}"
    if _LIMIT.fullmatch(text):
        line = f"`{column}.str.strip('<>=≤≥ ').astype(float)` takes the limit itself"
        return "this is a limit, not a value" + f": in pandas, {line}" * ("," not in text)
    if _DATE.fullmatch(text):
        return date_remedy(name, day_first=_DAY_FIRST.fullmatch(text) is not None)
    if _TIME.fullmatch(text):
        return time_remedy(name, minutes=text.count(":") == 1)
    if text.lower() in TRUTHS:
        return f"in pandas, `{column}.astype(float)` makes 1 and 0 of truth values"
    if TOTALS.fullmatch(text):
        return "a line of sums is not a row: `sed '$d' FILE` leaves the last line out"
    unit = _WITH_UNIT.fullmatch(text)
    if unit:
        return f"if {unit[1] + (unit[2] or '')!r} is the unit of all rows, {remedy}"
    return None


def date_remedy(name: str, *, day_first: bool = False) -> str:
    """How pandas makes numbers of a column of dates."""
    # Without utc, pandas refuses a column whose time offsets differ between summer and winter.
    options = "dayfirst=True, utc=True" if day_first else "utc=True"
    dates = f"pandas.to_datetime(frame[{printable(name)!r}], {options})"
    return f"these are dates: in pandas, `{dates}.astype('int64')` makes numbers of them"


def time_remedy(name: str, *, minutes: bool = False) -> str:
    """How pandas makes numbers of a column of times; minutes : whether times lack seconds."""
    column = f"frame[{printable(name)!r}]{' + ' + repr(':00') if minutes else ''}"
    return (
        f"these are times: in pandas, `pandas.to_timedelta({column}).dt.total_seconds()` makes "
        "seconds of them"
    )


def has_decimals(text: str) -> bool:
    """Whether a point in a plain number must precede decimals, as in `0.5`, unlike in `1.234`."""
    return _POINT.fullmatch(text) is not None


def decimal_of(
    texts: Iterable[str], delimiter: str, *, pointed: bool, default: str | None = None
) -> str:
    """Return the decimal separator that the decorated numbers `texts` of a file show.

    pointed : Whether a plain number of the file has decimals after a point.
    default : The decimal separator in other files of the data set.

    `1,5` and `1.234,5` show a comma, `1,234.5` and `1,234,567` show a point, which decides if both
    are shown. If all texts are like `1,234`, it is a point if `pointed`, else `default`, else a
    point if the delimiter is a comma, else a comma.
    """
    comma = point = False
    for text in texts:
        ungrouped = _BETWEEN_DIGITS.sub("", text.strip())
        comma |= _COMMA.fullmatch(ungrouped) is not None
        point |= _POINT.fullmatch(ungrouped) is not None
    if comma != point:
        return "," if comma else "."
    return "." if point or pointed else default or ("." if delimiter == "," else ",")


def plain_or_decorated(text: str, decimal: str) -> float | None:
    """The number that a field of a column with decorated numbers holds; None for other texts.

    If a comma precedes the decimals, `0.455` is not a number, because its point would separate
    thousands after a leading zero.
    """
    value = decorated_number(text, decimal)
    if value is None and not (decimal == "," and "." in text):
        return number(text.strip())
    return value
