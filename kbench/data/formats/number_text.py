"""Numbers and missing values as people write them in tables.

`number` in the package takes what Python and C print. Spreadsheets also write decimal commas,
thousands separators, currencies and percent signs; `decorated_number` reads them once it is known
which character separates the decimals. Nothing is guessed field by field: `decimal_of` decides for
a whole file.
"""

import re
import unicodedata
from collections.abc import Iterable

from kbench.data.formats import number, printable

MISSING = frozenset(
    (
        *("", "?", "na", "n/a", "nan", "-nan", "null", "<na>", "#n/a", "#na", "nat", "\\n"),
        *("(null)", "[null]", "<null>"),
        *("#n/a n/a", "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind"),
        *("#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!", "#nv", "#spill!", "#calc!"),
    )
)
"""Texts, in lower case, that stand for a missing value or a failed formula, as pandas, R, Weka,
databases and spreadsheets write it."""

_FAILED_FORMULA = re.compile(r"#[¡¿]?[^\W\d_]{3,9}[!?]|#[^\W\d_]{3}/0!")
"""`#WERT!`, `#VALEUR!`, `#¡REF!`: what spreadsheets in other languages write."""

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
"""The spellings of missing numbers, given to pyarrow's reader, that no message mentions."""

TRUTHS = {"true": 1.0, "false": 0.0}
"""The values of the texts, in lower case, that pandas, R and databases write for truth values."""

PADDED = re.compile(r"0[0-9]+")
"""A whole number with leading zeros, such as a postal code: a name, not a number."""

TOTALS = re.compile(
    r"(grand |sub-?|overall )?(totals?|sums?|averages?|means?)|(gesamt)?summe|gesamt|insgesamt|"
    r"mittelwert|durchschnitt|somme|moyenne|totale|somma|media|suma|totaal|итого|合計|总计|合计",
    re.IGNORECASE,
)
"""What a spreadsheet's last line begins with if it holds sums or means of the others."""

_CURRENCY = (
    r"(?:[A-Z]{0,3}\$|[€£¥₹₩₽₺₴฿₪₫₦]|(?:USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|"
    r"HUF|RUB|BRL|MXN|KRW|ZAR|TRY|SGD|HKD|THB|ILS|kr|zł|Kč|Ft|Fr\.|Rs\.?)(?=[-\u2212\s\d)]|$))"
)
_ZERO = re.compile(rf"{_CURRENCY}\s*-|-\s*{_CURRENCY}")
"""`$ -`: zero in spreadsheets' formats for accounts."""
_ACCOUNT = re.compile(rf"({_CURRENCY})\s*\((.*)\)")
"""`$ (1.50)`, as the same formats write a negative number."""
_SPACES = " \u00a0\u202f\u2009'\u2019"
_MINUS = "\u2212-"  # U+2212, which reports print, and the hyphen
_DECORATED = {
    decimal: re.compile(
        rf"(?P<negative>\()?(?P<sign>[+{_MINUS}]?)\s*(?P<before>{_CURRENCY})?\s*"
        rf"(?P<sign2>[+{_MINUS}]?)"
        rf"(?P<whole>[1-9][0-9]{{0,2}}(?:(?P<group>[{_SPACES}{re.escape(other)}])[0-9]{{3}}"
        rf"(?:(?P=group)[0-9]{{3}})*)|[0-9]*)"
        rf"(?:{re.escape(decimal)}(?P<fraction>[0-9]*))?(?P<power>[eE][+{_MINUS}]?[0-9]+)?"
        rf"(?P<sign3>-)?"
        rf"\s*(?P<after>%|{_CURRENCY})?(?(negative)\)|)"
    )
    for decimal, other in ((".", ","), (",", "."))
}
_BETWEEN_DIGITS = re.compile(rf"(?<=[0-9])[{_SPACES}](?=[0-9]{{3}})")
_COMMA = re.compile(r"\d+,(\d{1,2}|\d{4,})\D*|.*\.\d{3},\d+\D*|\D*0,\d+\D*")
_POINT = re.compile(r".*,\d{3}\.\d*\D*|.*,\d{3},\d{3}.*|\D*\d*\.(\d{1,2}|\d{4,})\D*")


def is_missing(text: str, *, numeric: bool = False) -> bool:
    """Whether a field stands for a missing value; `numeric` : in a column of numbers."""
    if text.strip().lower() in (MISSING_NUMBERS if numeric else MISSING):
        return True
    return text.startswith("#") and _FAILED_FORMULA.fullmatch(text) is not None


def labels_of(texts: Iterable[str]) -> set[str]:
    """The texts of a column of targets that are labels, not missing.

    Where all others are numbers, `None`, `-` and the like are missing, too.
    """
    labels = {text for text in texts if not is_missing(text)}
    numbers = {text for text in labels if not is_missing(text, numeric=True)}
    return numbers if numbers and all(number(text) is not None for text in numbers) else labels


def one_spelling(labels: set[str]) -> set[str]:
    """The labels of a target; `TRUE` and `True` are one if all are truth values, as in pandas."""
    if {text.lower() for text in labels} <= TRUTHS.keys() and len(labels) > len(TRUTHS):
        return {text.title() for text in labels}
    return labels


def first_confusable_pair(texts: Iterable[str]) -> list[str]:
    """Two texts that differ only in case, blanks, hidden characters, zeros or a last point."""
    first: dict[str, str] = {}
    for text in sorted(texts):
        value = number(text)
        key = repr(value)
        if value is None or not abs(value) < 2.0**53:  # from where on float64 merges whole numbers
            plain = unicodedata.normalize("NFKC", text).casefold()
            shown = plain if plain.isprintable() else "".join(filter(str.isprintable, plain))
            key = shown.replace(" ", "").rstrip(".")
        other = first.setdefault(key, text)
        if other != text:
            return [other, text]
    return []


def decorated_number(text: str, decimal: str) -> float | None:
    """The number in `€ 1.234,50`, `(1,234.50)`, `12 %`, `1 234`; None if there is none.

    decimal : {".", ","}. The character before the decimals; the other one may separate thousands.

    A percentage keeps its figure: `12 %` is 12. `$ -` is zero.
    """
    if _ZERO.fullmatch(text.strip()):
        return 0.0
    match = _parts(text, decimal)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    signs = [sign for sign in (match["sign"], match["sign2"], match["sign3"]) if sign]
    # SAP writes the sign at the end. Without decimals `2-` is rather a grade, `5.-` a price.
    if len(signs) > 1 or (match["sign3"] and not match["fraction"]):
        return None
    whole = re.sub(r"[^0-9]", "", match["whole"]) or "0"
    power = (match["power"] or "").replace("\u2212", "-")
    value = float(f"{whole}.{match['fraction'] or '0'}{power}")
    negative = bool(match["negative"]) != (signs not in ([], ["+"]))
    return -value if negative else value


def _parts(text: str, decimal: str) -> re.Match[str] | None:
    return _DECORATED[decimal].fullmatch(_ACCOUNT.sub(r"(\1\2)", text.strip()))


def unit_sign(text: str, decimal: str) -> str:
    """The currency or percent sign beside the number in `text`; empty without one."""
    match = _parts(text, decimal)
    return "" if match is None else (match["before"] or match["after"] or "")


_PLAIN = r"[-+]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][-+]?[0-9]+)?"
_FORTRAN = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))[dD]([-+]?[0-9]+)")
_UNCERTAIN = re.compile(rf"{_PLAIN}\s*(?:±|\+/-|\+-).+")
_WITH_UNIT = re.compile(rf"{_PLAIN}\s*([^\W\d_°]{{1,12}}|°[^\W\d_]?)([/·*^⁻-]?[^\W_]{{1,8}})?")
_DATE = re.compile(
    r"(?=.*[0-9]{2})[0-9]{1,4}([-/. ])([0-9]{1,2}|[^\W\d_]{3,9})\1[0-9]{1,4}([T ].*)?|"
    r"[^\W\d_]{3,9}\.? [0-9]{1,2},? [0-9]{4}([T ].*)?|[0-9]{4}-[0-9]{2}|"
    r"[0-9]{1,2}(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[0-9]{2,4}"
)
_DAY_FIRST = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{2,4}.*")
_HIDDEN = re.compile(r"[\x00-\x1f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_OTHER_DIGITS = re.compile(r"[-+]?\d+(\.\d+)?")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+")
_TIME = re.compile(
    r"(-?[0-9]+ days? )?[+-]?[0-9]{1,3}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?|-?P(?=[0-9T])[0-9.DTHMS]+|"
    r"(?i:([0-9.]+ ?(d|days?|h|hrs?|hours?|m|min|minutes?|s|sec|seconds?) ?){2,})"
)


def text_target(text: str, name: str) -> str:
    """The sentence that refuses a text as target of a regression; name : of the column."""
    cause = almost_a_number(text, name)
    return (
        f"target {name!r} is {printable(text, 60)!r}, should be a number, as dataset.task is "
        "regression" + (f"; {cause}" if cause else "")
    )


def almost_a_number(text: str, name: str) -> str | None:
    """What a field holds that a program would print for a number, and how pandas makes it one.

    name : The column

    Returns None if the field holds nothing that is almost a number.
    """
    column = f"frame[{printable(name)!r}]"
    alone = "the number should stand alone"
    if "," not in text:  # which may be decimals or thousands
        pattern = "([-+]?[.0-9]+(?:[eE][-+]?[0-9]+)?)"
        alone += f": in pandas, `{column}.str.extract('{pattern}')[0].astype(float)`"
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
        return f"an uncertainty belongs in a column of its own, {alone}"
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
        return f"if {unit[1] + (unit[2] or '')!r} is the unit of all rows, {alone}"
    return None


def date_remedy(name: str, *, day_first: bool = False) -> str:
    """How pandas makes numbers of a column of dates."""
    # Offsets differ between summer and winter; without utc pandas refuses such a column.
    how = "dayfirst=True, utc=True" if day_first else "utc=True"
    dates = f"pandas.to_datetime(frame[{printable(name)!r}], {how})"
    return f"these are dates: in pandas, `{dates}.astype('int64')` makes numbers of them"


def time_remedy(name: str, *, minutes: bool = False) -> str:
    """How pandas makes numbers of a column of times; `minutes` : they are without seconds."""
    column = f"frame[{printable(name)!r}]{' + ' + repr(':00') if minutes else ''}"
    return (
        f"these are times: in pandas, `pandas.to_timedelta({column}).dt.total_seconds()` makes "
        "seconds of them"
    )


def has_decimals(text: str) -> bool:
    """Whether a plain number has decimals after its point: `0.5` has, in `1.234` they may be
    thousands."""
    return _POINT.fullmatch(text) is not None


def decimal_of(
    texts: Iterable[str], delimiter: str, *, pointed: bool, known: str | None = None
) -> str:
    """Return the decimal separator of a file, judged by its fields that are not plain numbers.

    pointed : Whether a plain number of the file has decimals after a point.
    known : The decimal separator that the other files of its data set show.

    `1,5` and `1.234,5` show a comma, `1,234.5` and `1,234,567` a point. If all fields are like
    `1,234`, it is a point with `pointed` numbers, else what is known, else a point in a file with
    commas between the fields, and a comma in others.
    """
    comma = point = False
    for text in texts:
        whole = _BETWEEN_DIGITS.sub("", text.strip())
        comma |= _COMMA.fullmatch(whole) is not None
        point |= _POINT.fullmatch(whole) is not None
    if comma != point:
        return "," if comma else "."
    return "." if point or pointed else known or ("." if delimiter == "," else ",")


def plain_or_decorated(text: str, decimal: str) -> float | None:
    """The number that a field of a column with decorated numbers holds; None for other texts.

    Where a comma separates the decimals, `0.455` is not a number: its point would separate
    thousands behind a leading zero.
    """
    value = decorated_number(text, decimal)
    if value is None and not (decimal == "," and "." in text):
        return number(text.strip())
    return value
