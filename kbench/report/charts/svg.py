"""Charts as SVG: axes with ticks, lines, marks, error bars, maps. All charts of the pages use it.

Equal numbers give the same text. Colours are classes `c0`, `c1`, ... of
`kbench.report.charts.style`, so that a chart inside a web page follows its light or dark theme; a
chart in a file of its own (`document`) includes the light colours. A plotting library would need as
much code for links, names and two themes, and would write files five to ten times as large.
"""

import base64
import math
import statistics
import struct
import textwrap
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from kbench.report.charts.style import COLOURS, MARKERS, Style
from kbench.report.safe import printable

# Width of a letter of 12 px in the widest of the fonts, and the height of a line, in units of the
# view box. Set by hand.
LETTER, LINE = 7.0, 14.0
# Width of charts that stand beside others, in units of the view box. Set by hand.
NARROW = 450

# Largest number of a page's pixels per unit of the view box; the limit gives the type of all charts
# one size. Set by hand.
_MAX_PIXELS_PER_UNIT = 1.15

# Attributes of the arrow and value of a mark beyond the axis, and of a line that lies on the marks
# of other lines.
BEYOND, COVERING = 'class="beyond"', ' stroke-dasharray="5 5"'

# Marks cover each other if their centres are closer than this, in units of the view box. Set by
# hand.
_COVERING_DISTANCE = 4.0

# Smallest number of ticks of an axis of numbers, and largest number on a logarithmic axis. Set by
# hand.
_MIN_TICKS, _MAX_TICKS = 3, 7
# Approximate number of intervals of a linear axis: the first of these that gives enough ticks. Set
# by hand.
_INTERVAL_COUNTS = (4, 6, 9, 14)
# Margins around the axes in units of the view box: at the top and on the right; at the bottom and
# on the left with a title, and without one; between tick labels and the left axis. Set by hand.
_TOP, _RIGHT, _BOTTOM, _BARE_BOTTOM, _LEFT, _BARE_LEFT, _GAP = 14, 16, 44, 26, 26, 8, 6
_GREY_LEVELS = 64  # grey levels of an image; set by hand
_SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_TO_SUPERSCRIPTS = str.maketrans("-0123456789", _SUPERSCRIPTS)

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

        `margin` is relative to the range; equal values get a margin of 10 % of their size. A
        logarithmic axis needs positive values and has a margin of 0.08 decades or more (all set by
        hand). A linear axis of values that are not negative does not begin below 0.
        """
        numbers = list(values)
        low, high = min(numbers), max(numbers)
        if log:
            pad = max(margin * math.log10(high / low), 0.08)
            return cls(title, low / 10.0**pad, high * 10.0**pad, log=True)
        pad = margin * (high - low) or 0.1 * abs(high) or 1.0
        return cls(title, max(low - pad, 0.0) if low >= 0.0 else low - pad, high + pad)

    @classmethod
    def of_means(
        cls, title: str, means: Sequence[tuple[float, float]], *, log: bool, whole: bool = False
    ) -> "Axis":
        """The axis over means and their standard deviations.

        A linear axis leaves out values far from all others (`outer_fences`) unless it has to be
        `whole`; a logarithmic axis leaves out values that are not positive. Deviations do not
        extend the axis below 0 if no mean is negative.
        """
        values = [value for value, _ in means]
        log = log and max(values) > 0.0
        low, high = (-math.inf, math.inf) if log or whole else outer_fences(values)
        low = max(low, 0.0) if min(values) >= 0.0 else low
        inside = [(v, sd) for v, sd in means if low <= v <= high and (v > 0.0 or not log)]
        ends = [max(value + side * sd, low) for value, sd in inside for side in (-1, 1)]
        return cls.around(
            title, [v for v, _ in inside] if log and min(ends) <= 0.0 else ends, log=log
        )

    @classmethod
    def named(cls, title: str, names: Sequence[str]) -> "Axis":
        """An axis with a place for each name."""
        return cls(title, -0.5, len(names) - 0.5, names=tuple(names))

    def fraction(self, value: float) -> float:
        """The position of `value` between the ends, from 0 to 1, to which it is clipped."""
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
                if len(powers := self._ticks_of_decades(steps)) >= _MIN_TICKS:
                    shown = powers[:: math.ceil(len(powers) / _MAX_TICKS)]
                    return list(zip(shown, _numbers(shown), strict=True))
        for n_intervals in _INTERVAL_COUNTS:
            step = _round_up((self.high - self.low) / n_intervals)
            # Ends that rounding moves off a tick by 1e-9 steps keep it. Set by hand.
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            if last - first + 1 >= _MIN_TICKS:
                break
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        values = [k * step for k in range(first, last + 1)]
        scientific = max(abs(self.low), abs(self.high)) >= 1e5 or decimals > 4  # set by hand
        texts = _numbers(values) if scientific else [f"{v:.{decimals}f}" for v in values]
        return list(zip(values, texts, strict=True))

    def _ticks_of_decades(self, steps: Sequence[int]) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [float(f"{step}e{decade}") for decade in decades for step in steps]
        return [value for value in values if self.low <= value <= self.high]


def number(value: float, least: float = 1e-3, largest: float = 1e5) -> str:
    """`0.01`, `20000`, `10⁶`, `2·10⁻⁵`: powers below `least` and from `largest`, set by hand."""
    if value == 0.0 or least <= abs(value) < largest:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    power = f"10{str(int(exponent)).translate(_TO_SUPERSCRIPTS)}"
    factor = float(mantissa)
    return power if factor == 1.0 else f"{factor:g}·{power}"


def _numbers(values: Sequence[float]) -> list[str]:
    """The texts of an axis; if one of them is a power, so are all outside 0.1 to 10."""
    texts = [number(value) for value in values]
    if any(text[-1] in _SUPERSCRIPTS for text in texts):
        return [number(value, 0.1, 10.5) for value in values]
    return texts


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
    title : Above the axes; lines are separated by line breaks, long ones are broken
    width, height : Units of the view box, about a pixel each; the defaults are set by hand
    """

    def __init__(
        self, x: Axis, y: Axis, *, label: str, title: str = "", width: int = 520, height: int = 320
    ) -> None:
        self.x, self.y = x, y
        self.width, self.height, self.label = width, height, label
        max_letters = int((width - _RIGHT) / LETTER)
        heads = [part for line in title.splitlines() for part in textwrap.wrap(line, max_letters)]
        label_length = max((len(text) for _, text in y.ticks()), default=0)
        self.left = (_LEFT if y.title else _BARE_LEFT) + LETTER * label_length + _GAP
        self.top = _TOP + LINE * len(heads)
        self.right, self.bottom = width - _RIGHT, height - (_BOTTOM if x.title else _BARE_BOTTOM)
        self._elements = [
            f'<text class="head x" x="{width / 2:g}" y="{LINE * (i + 1):g}">{escape(line)}</text>'
            for i, line in enumerate(heads)
        ]
        self._marks: list[tuple[float, float, Style]] = []
        self._beyond: list[tuple[float, str]] = []  # Places and arrows of values beyond the axes
        self._draw_axes()

    def at(self, x: float, y: float) -> tuple[float, float]:
        """A point's distances from the left and the top edge, in units of the view box."""
        x_px = self.left + self.x.fraction(x) * (self.right - self.left)
        return x_px, self.bottom - self.y.fraction(y) * (self.bottom - self.top)

    def add(self, svg: str) -> None:
        """Put finished SVG on top."""
        self._elements.append(svg)

    def line(
        self,
        points: Sequence[tuple[float, float]],
        style: Style | None = None,
        *,
        kind: str = "",
        grid: Iterable[float] = (),
    ) -> None:
        """Straight lines through `points`, in the colour of `style` or of the class `kind`.

        Two points are not joined if an abscissa of the `grid` lies between them. A line over marks
        of other lines is dashed, so that these marks stay visible.
        """
        path, last = "", math.inf
        for x, y in points:
            path += "M" if not path or any(last < position < x for position in grid) else "L"
            path, last = path + self._coordinates(x, y), x
        names = kind or f"line c{style.colour if style else 0}"
        n_below = (
            sum(self._n_styles_below(*self.at(*point), style) > 0 for point in points)
            if style
            else 0
        )
        dashes = COVERING if 2 * n_below > len(points) else ""
        self.add(f'<path class="{names}"{dashes} d="{path}"/>')

    def mark(
        self,
        x: float,
        y: float,
        style: Style,
        *,
        tooltip: str = "",
        hollow: bool = False,
        sd: float = 0.0,
    ) -> None:
        """Draw a marker with an error bar or arrow (`beside`), and a `tooltip`.

        Each other style that has a mark at this place makes the marker 35 % smaller, to 40 % at
        least, so that the marks below it stay visible (set by hand).
        """
        x_px, y_px = self.at(x, y)
        title = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        size = max(0.65 ** self._n_styles_below(x_px, y_px, style), 0.4)
        self._marks.append((x_px, y_px, style))
        self.add(self.beside(x, y, style, sd=sd, text=number(float(f"{y:.3g}"))))
        self.add(marker(x_px, y_px, style, title, hollow=hollow, size=size))

    def beside(self, x: float, y: float, style: Style, *, sd: float, text: str) -> str:
        """The error bar of a mark, or an arrow and `text` if the mark lies beyond the axis.

        Distances from the mark to the text, and between texts, are set by hand.
        """
        x_px, y_px = self.at(x, y)
        if not self.y.low <= y <= self.y.high:
            anchor, dx = ("end", -9) if x_px > self.width / 2 else ("start", 9)
            arrow, dy = ("↓", -2.4) if y < self.y.low else ("↑", 10.8)
            nearby = [a for x, a in self._beyond if a == arrow and abs(x - x_px) < 8 * LETTER]
            dy += math.copysign(LINE * len(nearby), dy)  # below or above the texts nearby
            self._beyond.append((x_px, arrow))
            position = f'x="{short(x_px)}" y="{short(y_px)}" dx="{dx}" dy="{dy:.1f}"'
            return f'<text {BEYOND} text-anchor="{anchor}" {position}>{arrow} {text}</text>'
        if sd <= 0.0:
            return ""
        (_, low), (_, high) = self.at(x, y - sd), self.at(x, y + sd)
        path = f"M{short(x_px)} {short(low)}V{short(high)}"
        return f'<path class="sd c{style.colour}" d="{path}"/>'

    def _n_styles_below(self, x_px: float, y_px: float, style: Style) -> int:
        """The number of other styles that have a mark at this place."""
        styles = {
            s for x, y, s in self._marks if math.hypot(x - x_px, y - y_px) < _COVERING_DISTANCE
        }
        return len(styles - {style})

    def text(self, x: float, y: float, content: str, kind: str = "") -> None:
        """Text at a position in units of the view box."""
        names = f' class="{kind}"' if kind else ""
        self.add(f'<text{names} x="{short(x)}" y="{short(y)}">{escape(content)}</text>')

    def cells(self, rows: Sequence[Sequence[float]], texts: Sequence[Sequence[str]]) -> None:
        """A heat map over two named axes: larger values have darker cells, NaN has none.

        Opacities go from 0.08 to 0.5; they and the texts' place are set by hand.
        """
        numbers = [v for row in rows for v in row if not math.isnan(v)]
        low, spread = min(numbers), max(numbers) - min(numbers) or 1.0
        cell_width = (self.right - self.left) / len(rows[0])
        cell_height = (self.bottom - self.top) / len(rows)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                if math.isnan(value):
                    continue
                x_px, y_px = self.at(j, i)
                shade = 0.08 + 0.42 * (value - low) / spread
                position = f'x="{short(x_px - cell_width / 2)}" y="{short(y_px - cell_height / 2)}"'
                size = f'width="{short(cell_width)}" height="{short(cell_height)}"'
                self.add(f'<rect class="cell" {position} {size} fill-opacity="{shade:.2f}"/>')
                self.text(x_px, y_px + 4, texts[i][j], "x head")

    def image(self, rows: Sequence[Sequence[float]], top: float) -> None:
        """Fill the axes with a picture of values from 0 (white) to `top` (black), first row on top.

        The pixels stay square: the picture is centred where the axes have another aspect ratio.
        """
        data = base64.b64encode(_png(rows, top)).decode()
        position = f'x="{short(self.left)}" y="{short(self.top)}"'
        size = f'width="{short(self.right - self.left)}" height="{short(self.bottom - self.top)}"'
        self.add(f'<image {position} {size} href="data:image/png;base64,{data}"/>')

    def chart(self) -> Chart:
        """The finished chart."""
        return Chart(self.width, self.height, "".join(self._elements), self.label)

    def _draw_axes(self) -> None:
        """Draw grid, frame, tick labels and titles; distances of texts are set by hand."""
        for value, text in self.x.ticks():
            x = short(self.at(value, self.y.low)[0])
            if not self.x.names:
                self.add(f'<path class="grid" d="M{x} {short(self.top)}V{short(self.bottom)}"/>')
            # The text of the last tick may not leave the chart.
            end = min(self.at(value, self.y.low)[0], self.width - LETTER * len(text) / 2 - 2)
            position = f'x="{short(end)}" y="{short(self.bottom + 16)}"'
            self.add(f'<text class="x" {position}>{escape(text)}</text>')
        for value, text in self.y.ticks():
            y = short(self.at(self.x.low, value)[1])
            if not self.y.names:
                self.add(f'<path class="grid" d="M{short(self.left)} {y}H{short(self.right)}"/>')
            position = f'x="{short(self.left - 7)}" y="{y}" dy=".35em"'
            self.add(f'<text class="y" {position}>{escape(text)}</text>')
        frame = f"M{short(self.left)} {short(self.top)}V{short(self.bottom)}H{short(self.right)}"
        self.add(f'<path class="axis" d="{frame}"/>')
        if self.x.title:
            middle = short((self.left + self.right) / 2)
            position = f'x="{middle}" y="{short(self.height - 8)}"'
            self.add(f'<text class="x" {position}>{escape(self.x.title)}</text>')
        if self.y.title:
            middle = short((self.top + self.bottom) / 2)
            position = f'transform="translate(13 {middle}) rotate(-90)"'
            self.add(f'<text class="x" {position}>{escape(self.y.title)}</text>')

    def _coordinates(self, x: float, y: float) -> str:
        return " ".join(map(short, self.at(x, y)))


def marker(
    x: float,
    y: float,
    style: Style,
    content: str = "",
    *,
    hollow: bool = False,
    size: float = 1.0,
) -> str:
    """The marker of a style at a place in units of the view box, `size` times as large."""
    kind = "hollow" if hollow else "mark"
    scale = "" if size == 1.0 else f" scale({size:g})"
    position = f'transform="translate({short(x)} {short(y)}){scale}" d="{MARKERS[style.marker]}"'
    return f'<path class="{kind} c{style.colour}" {position}>{content}</path>'


def inline(chart: Chart) -> str:
    """A chart as an element of a web page, whose style sheet colours it.

    The chart's width is limited, so that all charts of a page have type of one size.
    """
    role = "group" if "<a " in chart.body else "img"  # the role img hides links from screen readers
    return (
        f'<svg class="plot" style="max-width:{_MAX_PIXELS_PER_UNIT * chart.width:.0f}px"'
        f' viewBox="0 0 {chart.width} {chart.height}" role="{role}"'
        f' aria-label="{escape(chart.label)}">{chart.body}</svg>'
    )


def document(
    charts: Sequence[Chart], legend: Sequence[tuple[str, Style]] = (), remarks: Sequence[str] = ()
) -> str:
    """Charts beside each other, three in a row, above legend and remarks, as an SVG document."""
    columns = min(3, len(charts))
    step_x = max(chart.width for chart in charts)
    step_y = max(chart.height for chart in charts)
    width = columns * step_x
    parts = [
        f'<g transform="translate({i % columns * step_x} {i // columns * step_y})">{chart.body}</g>'
        for i, chart in enumerate(charts)
    ]
    x, y = 16.0, step_y * math.ceil(len(charts) / columns) + 14.0  # distances are set by hand
    for label, style in legend:
        entry_width = 30 + LETTER * len(label)
        if x > 16.0 and x + entry_width > width:
            x, y = 16.0, y + 20
        parts.append(
            marker(x, y, style) + f'<text x="{x + 11:g}" y="{y + 4:g}">{escape(label)}</text>'
        )
        x += entry_width
    y += 22 if legend else 0
    for line in (
        part for remark in remarks for part in textwrap.wrap(remark, int((width - 24) / LETTER))
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


def value_grid(
    points: Iterable[tuple[float, float, float]],
) -> tuple[list[float], list[float], list[list[float]]]:
    """Points (x, y, value) as abscissae, ordinates, and a row of values for each ordinate.

    Values that are not known are NaN.
    """
    values = {(x, y): value for x, y, value in points}
    xs, ys = (sorted({position[i] for position in values}) for i in (0, 1))
    return xs, ys, [[values.get((x, y), math.nan) for x in xs] for y in ys]


def outer_fences(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis that a few values far from all others would compress.

    Tukey's outer fences, 3 interquartile ranges beyond the quartiles, are the ends if at most a
    tenth of the values lie outside and the others span less than half of the range (set by hand).
    Otherwise the ends are infinite. `tradeoff.inner_fence` is Tukey's inner fence on one side.
    """
    if len(values) > 1:
        first, _, third = statistics.quantiles(values, n=4, method="inclusive")
        low, high = 4.0 * first - 3.0 * third, 4.0 * third - 3.0 * first
        inside = [value for value in values if low <= value <= high]
        are_few_outside = 10 * (len(values) - len(inside)) <= len(values)
        if are_few_outside and 2.0 * (max(inside) - min(inside)) < max(values) - min(values):
            return low, high
    return -math.inf, math.inf


def short(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _round_up(step: float) -> float:
    """The least 1, 2 or 5 times a power of ten that is at least `step`, but for rounding (1e-9)."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= step * (1 - 1e-9))


def _png(rows: Sequence[Sequence[float]], top: float) -> bytes:
    """A grey PNG (W3C Recommendation, 2003) of `_GREY_LEVELS` levels; 0 is white, `top` black."""
    pixels = b"".join(
        b"\0"
        + bytes(
            255 - round(max(v, 0.0) / top * (_GREY_LEVELS - 1)) * 255 // (_GREY_LEVELS - 1)
            for v in row
        )
        for row in rows
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")
