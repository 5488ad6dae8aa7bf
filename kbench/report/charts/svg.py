"""Charts as SVG: axes with ticks, lines, marks, error bars, maps. All charts of kbench use it.

Equal numbers give the same text. Colours are classes `c0`, `c1`, ... of
`kbench.report.charts.style`, so that a chart inside a web page follows its light or dark theme; a
chart in a file of its own (`document`) includes the light colours. With a plotting library, links,
names and two themes would take as much code, and its files are five to ten times as large.
"""

import base64
import math
import struct
import textwrap
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from kbench.report.charts.style import COLOURS, MARKERS, Style
from kbench.report.safe import printable

# Width of a letter of 12 px, and the height of a line, in units of the view box. Set by hand.
LETTER, LINE = 6.4, 14.0

# Least number of ticks of an axis of numbers, and largest number on a logarithmic axis. Set by
# hand.
_MIN_TICKS, _MAX_TICKS = 3, 7
# Intervals that a linear axis is divided into: about the first number, or a later one if there are
# too few ticks. Set by hand.
_INTERVALS = (4, 6, 9, 14)
# Margins around the axes in units of the view box: at the top and on the right; at the bottom and
# on the left with a title, and without one; between tick labels and the left axis. Set by hand.
_TOP, _RIGHT, _BOTTOM, _BARE_BOTTOM, _LEFT, _BARE_LEFT, _GAP = 14, 16, 44, 26, 26, 8, 6
_SHADES = 64  # grey levels of an image; set by hand
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# Style of charts in files of their own: the rules of the pages' style sheet, in light colours.
_STYLE = """text{font:12px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#4a525b}
.x{text-anchor:middle}.y,.end{text-anchor:end}.head{font-weight:600;fill:#1b1e22}
.grid{stroke:#dde1e5;fill:none}.axis{stroke:#8a929b;fill:none}.line{fill:none;stroke:var(--k);stroke-width:1.6}
.mark{fill:var(--k)}.hollow{fill:#fff;stroke:var(--k);stroke-width:1.4}.sd{stroke:var(--k);fill:none}
.cell{fill:#22598f}.guide{stroke:#5b636d;stroke-dasharray:4 3;fill:none}
"""


@dataclass(frozen=True)
class Axis:
    """An axis with values from `low` to `high`, on a logarithmic scale if `log`.

    If it has `names`, the values are 0, 1, ..., one for each name.
    """

    title: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()

    @classmethod
    def around(
        cls, title: str, values: Iterable[float], *, log: bool = False, margin: float = 0.06
    ) -> "Axis":
        """The axis over the range of `values`, with a small margin on both sides.

        `margin` is relative to the range; values that are all equal get a range of their size.
        A logarithmic axis needs positive values.
        """
        known = list(values)
        low, high = min(known), max(known)
        if log:
            pad = max(margin * math.log10(high / low), 0.08)
            return cls(title, low / 10.0**pad, high * 10.0**pad, log=True)
        pad = margin * (high - low) or 0.1 * abs(high) or 1.0
        return cls(title, low - pad, high + pad)

    @classmethod
    def named(cls, title: str, names: Sequence[str]) -> "Axis":
        """An axis with a place for each name."""
        return cls(title, -0.5, len(names) - 0.5, names=tuple(names))

    def fraction(self, value: float) -> float:
        """Where `value` lies between the ends, 0 to 1; values beyond an end lie on it."""
        inside = min(max(value, self.low), self.high)
        if self.log:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return (inside - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Values and texts of the ticks: one for each name; for numbers, three or more in range."""
        if self.names:
            return list(enumerate(self.names))
        if self.log:
            for steps in ((1,), (1, 2, 5)):
                if len(powers := self._powers(steps)) >= _MIN_TICKS:
                    every = math.ceil(len(powers) / _MAX_TICKS)
                    return [(value, number(value)) for value in powers[::every]]
        for about in _INTERVALS:
            step = _round_up((self.high - self.low) / about)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first + 1 >= _MIN_TICKS:
                break
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        values = [k * step for k in range(first, last + 1)]
        large = max(abs(self.low), abs(self.high)) >= 1e5
        return [(v, number(v) if large or decimals > 4 else f"{v:.{decimals}f}") for v in values]

    def _powers(self, steps: Sequence[int]) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [float(f"{step}e{decade}") for decade in decades for step in steps]
        return [value for value in values if self.low <= value <= self.high]


def number(value: float) -> str:
    """`0.01`, `20000`, `10⁶`, `2·10⁻⁵`."""
    if value == 0.0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    factor = float(mantissa)
    return power if factor == 1.0 else f"{factor:g}·{power}"


@dataclass(frozen=True)
class Chart:
    """A drawn pair of axes: `body` is SVG of `width` x `height` units, `label` describes it."""

    width: int
    height: int
    body: str
    label: str


class Plot:
    """A pair of axes to draw on, in the coordinates of the axes.

    Parameters
    ----------
    label : Description of the chart for screen readers
    title : Above the axes; lines are separated by line breaks
    width, height : Units of the view box, about a pixel each
    """

    def __init__(
        self, x: Axis, y: Axis, *, label: str, title: str = "", width: int = 520, height: int = 320
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height, self.label = width, height, label
        heads = title.splitlines()
        longest = max((len(text) for _, text in y.ticks()), default=0)
        self.left = (_LEFT if y.title else _BARE_LEFT) + LETTER * longest + _GAP
        self.top = _TOP + LINE * len(heads)
        self.right, self.bottom = width - _RIGHT, height - (_BOTTOM if x.title else _BARE_BOTTOM)
        self._parts = [
            f'<text class="head x" x="{width / 2:g}" y="{LINE * (i + 1):g}">{escape(line)}</text>'
            for i, line in enumerate(heads)
        ]
        self._axes()

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point's distances from the left and the top edge, in units of the view box."""
        x_px = self.left + self.x.fraction(x) * (self.right - self.left)
        return x_px, self.bottom - self.y.fraction(y) * (self.bottom - self.top)

    def add(self, svg: str) -> None:
        """Put finished SVG on top."""
        self._parts.append(svg)

    def line(
        self, points: Sequence[tuple[float, float]], style: Style | None = None, *, kind: str = ""
    ) -> None:
        """Straight lines through `points`, in the colour of `style` or of the class `kind`."""
        path = "L".join(self._pair(x, y) for x, y in points)
        names = kind or f"line c{style.colour if style else 0}"
        self.add(f'<path class="{names}" d="M{path}"/>')

    def mark(
        self,
        x: float,
        y: float,
        style: Style,
        *,
        words: str = "",
        hollow: bool = False,
        sd: float = 0.0,
    ) -> None:
        """A marker with an error bar, and `words` as its tooltip."""
        x_px, y_px = self.at(x, y)
        bar = ""
        if sd > 0.0:
            (_, low), (_, high) = self.at(x, y - sd), self.at(x, y + sd)
            path = f"M{short(x_px)} {short(low)}V{short(high)}"
            bar = f'<path class="sd c{style.colour}" d="{path}"/>'
        tooltip = f"<title>{escape(words)}</title>" if words else ""
        self.add(bar + marker(x_px, y_px, style, tooltip, hollow=hollow))

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Text at a position in units of the view box."""
        names = f' class="{kind}"' if kind else ""
        self.add(f'<text{names} x="{short(x)}" y="{short(y)}">{escape(words)}</text>')

    def cells(self, rows: Sequence[Sequence[float]], texts: Sequence[Sequence[str]]) -> None:
        """A heat map over two named axes: a larger value has a darker cell; NaN has none."""
        known = [v for row in rows for v in row if not math.isnan(v)]
        low, spread = min(known), max(known) - min(known) or 1.0
        wide = (self.right - self.left) / len(rows[0])
        high = (self.bottom - self.top) / len(rows)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                if math.isnan(value):
                    continue
                across, up = self.at(j, i)
                shade = 0.08 + 0.42 * (value - low) / spread
                place = f'x="{short(across - wide / 2)}" y="{short(up - high / 2)}"'
                size = f'width="{short(wide)}" height="{short(high)}"'
                self.add(f'<rect class="cell" {place} {size} fill-opacity="{shade:.2f}"/>')
                self.text(across, up + 4, texts[i][j], "x head")

    def image(self, rows: Sequence[Sequence[float]]) -> None:
        """A picture of values from 0 (white) to the largest (black), the first row on top."""
        data = base64.b64encode(_png(rows)).decode()
        size = f'width="{short(self.right - self.left)}" height="{short(self.bottom - self.top)}"'
        place = f'x="{short(self.left)}" y="{short(self.top)}" preserveAspectRatio="none"'
        self.add(f'<image {place} {size} href="data:image/png;base64,{data}"/>')

    def chart(self) -> Chart:
        """The finished chart."""
        return Chart(self.width, self.height, "".join(self._parts), self.label)

    def _axes(self) -> None:
        for value, text in self.x.ticks():
            x = short(self.at(value, self.y.low)[0])
            if not self.x.names:
                self.add(f'<path class="grid" d="M{x} {short(self.top)}V{short(self.bottom)}"/>')
            self.add(f'<text class="x" x="{x}" y="{short(self.bottom + 16)}">{escape(text)}</text>')
        for value, text in self.y.ticks():
            y = short(self.at(self.x.low, value)[1])
            if not self.y.names:
                self.add(f'<path class="grid" d="M{short(self.left)} {y}H{short(self.right)}"/>')
            place = f'x="{short(self.left - 7)}" y="{y}" dy=".35em"'
            self.add(f'<text class="y" {place}>{escape(text)}</text>')
        frame = f"M{short(self.left)} {short(self.top)}V{short(self.bottom)}H{short(self.right)}"
        self.add(f'<path class="axis" d="{frame}"/>')
        if self.x.title:
            middle = short((self.left + self.right) / 2)
            place = f'x="{middle}" y="{short(self.height - 8)}"'
            self.add(f'<text class="x" {place}>{escape(self.x.title)}</text>')
        if self.y.title:
            middle = short((self.top + self.bottom) / 2)
            place = f'transform="translate(13 {middle}) rotate(-90)"'
            self.add(f'<text class="x" {place}>{escape(self.y.title)}</text>')

    def _pair(self, x: float, y: float) -> str:
        return " ".join(map(short, self.at(x, y)))


def marker(x: float, y: float, style: Style, content: str = "", *, hollow: bool = False) -> str:
    """The marker of a style at a place in units of the view box."""
    kind = "hollow" if hollow else "mark"
    place = f'transform="translate({short(x)} {short(y)})" d="{MARKERS[style.marker]}"'
    return f'<path class="{kind} c{style.colour}" {place}>{content}</path>'


def inline(chart: Chart) -> str:
    """A chart as an element of a web page, whose style sheet colours it."""
    role = "group" if "<a " in chart.body else "img"  # the role img hides links from screen readers
    return (
        f'<svg class="plot" viewBox="0 0 {chart.width} {chart.height}" role="{role}"'
        f' aria-label="{escape(chart.label)}">{chart.body}</svg>'
    )


def document(
    charts: Sequence[Chart], legend: Sequence[tuple[str, Style]] = (), remarks: Sequence[str] = ()
) -> str:
    """Charts beside each other, three in a row, above legend and remarks, as an SVG document."""
    across = min(3, len(charts))
    wide, high = max(chart.width for chart in charts), max(chart.height for chart in charts)
    width = across * wide
    parts = [
        f'<g transform="translate({i % across * wide} {i // across * high})">{chart.body}</g>'
        for i, chart in enumerate(charts)
    ]
    x, y = 16.0, high * math.ceil(len(charts) / across) + 14.0
    for label, style in legend:
        long = 30 + LETTER * len(label)
        if x > 16.0 and x + long > width:
            x, y = 16.0, y + 20
        parts.append(
            marker(x, y, style) + f'<text x="{x + 11:g}" y="{y + 4:g}">{escape(label)}</text>'
        )
        x += long
    y += 22 if legend else 0
    for line in (
        part for remark in remarks for part in textwrap.wrap(remark, int(width / LETTER) - 5)
    ):
        parts.append(f'<text x="16" y="{y + 4:g}">{escape(printable(line))}</text>')
        y += 18
    height = math.ceil(y - 8)
    colours = "".join(f".c{i}{{--k:{light}}}" for i, (light, _) in enumerate(COLOURS))
    label = "; ".join(dict.fromkeys(chart.label for chart in charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
        f'<style>{_STYLE}{colours}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(parts)}</svg>\n"
    )


def short(value: float) -> str:
    """A coordinate with one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _round_up(step: float) -> float:
    """The least number of the form 1, 2 or 5 times a power of ten that is at least `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= step * (1 - 1e-9))


def _png(rows: Sequence[Sequence[float]]) -> bytes:
    """Values as a grey PNG (W3C Recommendation, 2003) of `_SHADES` levels, 0 white."""
    top = max(max(row) for row in rows) or 1.0
    pixels = b"".join(
        b"\0"
        + bytes(255 - round(max(v, 0.0) / top * (_SHADES - 1)) * 255 // (_SHADES - 1) for v in row)
        for row in rows
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checked

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")
