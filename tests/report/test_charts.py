"""Charts show what is there and nothing else: ticks, places, pictures."""

import base64
import math
import re
import struct
import xml.etree.ElementTree as ET
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbench.report.charts.style import Style
from kbench.report.charts.svg import LETTER, Axis, Plot, document, inline, number

values = st.lists(st.floats(-1e6, 1e6).map(lambda v: round(v, 3)), min_size=1, max_size=9)
positive = st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=9)


@given(values.map(lambda found: (found, False)) | positive.map(lambda found: (found, True)))
def test_an_axis_has_three_ticks_or_more_all_between_its_ends(found_log):
    axis = Axis.around("x", found_log[0], log=found_log[1])
    ticks = axis.ticks()
    assert 3 <= len(ticks) <= 16
    off = 1e-6 * max(1.0, abs(axis.low), abs(axis.high))
    assert all(axis.low - off <= tick <= axis.high + off for tick, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


@given(positive, st.booleans())
def test_values_lie_in_their_order_between_the_ends(found, log):
    axis = Axis.around("x", found, log=log)
    places = [axis.fraction(value) for value in sorted(found)]
    assert places == sorted(places)
    assert all(0.0 <= place <= 1.0 for place in places)
    assert axis.fraction(axis.low) == 0.0
    assert axis.fraction(axis.high) == 1.0


@given(values)
def test_an_axis_shows_little_beyond_its_values(found):
    axis = Axis.around("x", found)
    spread = max(found) - min(found)
    if spread > 0.0:
        assert axis.high - axis.low <= 1.13 * spread


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.01, "0.01"), (20000.0, "20000"), (1e6, "10⁶"), (2e-5, "2·10⁻⁵"), (1e-4, "10⁻⁴"), (0, "0")],
)
def test_large_and_small_ticks_are_powers_of_ten(value, said):
    assert number(value) == said


def drawn():
    plot = Plot(Axis("a < b", 0.0, 1.0), Axis("y", 0.0, 10.0), label="x & y", title="two\nlines")
    plot.line([(0.0, 0.0), (1.0, 10.0)], Style(2, 0))
    plot.mark(0.5, 5.0, Style(2, 3), tooltip="<middle>", sd=1.0)
    return plot


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (90.0, 2e4, "100 1000 10000"),
        (900.0, 2e5, "10³ 10⁴ 10⁵"),
        (4e-5, 20.0, "10⁻⁴ 10⁻³ 10⁻² 0.1 1 10"),
    ],
)
def test_the_ticks_of_an_axis_have_one_notation(low, high, texts):
    assert " ".join(text for _, text in Axis("x", low, high, log=True).ticks()) == texts


def test_an_axis_of_means_leaves_out_what_would_compress_it():
    near = [(0.1 + 0.001 * i, 0.01) for i in range(20)]
    assert Axis.of_means("y", [*near, (5.0, 9.0)], log=False).high < 0.2
    assert Axis.of_means("y", [*near, (5.0, 9.0)], log=False, whole=True).high > 5.0
    assert Axis.of_means("y", [*near, *near, *[(5.0, 0.0)] * 9], log=False).high > 5.0
    assert Axis.of_means("y", [(1.0, 3.0), (2.0, 0.0)], log=False).low == 0.0
    axis = Axis.of_means("y", [(0.0, 0.0), (0.1, 0.2), (10.0, 0.0)], log=True)
    assert axis.log
    assert 0.05 < axis.low < 0.1
    assert not Axis.of_means("y", [(0.0, 0.0), (-1.0, 0.0)], log=True).log


def test_values_beyond_an_axis_are_written_and_covered_lines_are_seen():
    plot = Plot(Axis("x", 0.0, 4.0), Axis("y", 0.0, 1.0), label="chart")
    for colour in (0, 1):
        plot.line([(1.0, 0.5), (2.0, 0.5)], Style(colour, 0))
        plot.mark(1.0, 0.5, Style(colour, 0))
        plot.mark(2.0, 0.5, Style(colour, 0))
    body = plot.chart().body
    assert body.count("stroke-dasharray") == 1
    assert body.count("scale(0.65)") == 2
    for x in (1.0, 1.1):
        plot.mark(x, 7.125, Style(2, 0), sd=1.0)
    places = re.findall(r'dy="(.*?)">↑ 7.12<', plot.chart().body)
    assert len(set(places)) == 2
    assert 'class="sd' not in plot.chart().body
    plot.line([(0.0, 0.1), (1.0, 0.1), (3.0, 0.1)], Style(3, 0), grid=[0.0, 1.0, 2.0, 3.0])
    assert plot.chart().body.rpartition(' d="')[2].count("M") == 2


def test_points_stand_where_the_axes_say():
    plot = drawn()
    assert plot.at(0.0, 0.0) == (plot.left, plot.bottom)
    assert plot.at(1.0, 10.0) == (plot.right, plot.top)
    assert plot.at(0.5, 20.0)[1] == plot.top


def test_a_chart_is_xml_whether_it_stands_alone_or_in_a_page():
    chart = drawn().chart()
    alone = ET.fromstring(document([chart] * 4, [("one & two", Style(2, 3))]))
    assert len(alone.findall("{http://www.w3.org/2000/svg}g")) == 4
    assert ET.fromstring(inline(chart)).get("role") == "img"
    assert "a &lt; b" in chart.body


def test_remarks_stand_below_a_chart_in_lines_of_its_width():
    chart = drawn().chart()
    size = re.compile(r'height="(\d+)" role')
    alone, said = (document([chart], remarks=lines) for lines in ((), ("on <one>", "many " * 40)))
    assert "on &lt;one&gt;" in said
    lines = re.findall(r">([^<>]*many[^<>]*)<", said)
    assert len(lines) > 1
    assert LETTER * max(map(len, lines)) < chart.width
    higher = int(size.search(said)[1]) - int(size.search(alone)[1])
    assert higher == 18 * (1 + len(lines))


def test_a_map_prints_its_values_and_leaves_out_what_is_missing():
    plot = Plot(Axis.named("x", ["1", "2"]), Axis.named("y", ["a"]), label="map")
    plot.cells([[0.25, math.nan]], [["25", "none"]])
    assert plot.chart().body.count('class="cell"') == 1
    assert ">25<" in plot.chart().body
    assert "none" not in plot.chart().body


def test_an_image_is_a_png_with_a_pixel_for_each_value():
    plot = Plot(Axis.named("", [""]), Axis.named("", [""]), label="image")
    plot.image([[0.0, 2.0], [1.0, 0.5], [2.0, 0.0]], 2.0)
    data = base64.b64decode(re.search(r"base64,([^\"]+)", plot.chart().body)[1])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (2, 3)
    start = data.index(b"IDAT") + 4
    length = struct.unpack(">I", data[start - 8 : start - 4])[0]
    pixels = zlib.decompress(data[start : start + length])
    assert pixels[:3] == b"\x00\xff\x00"  # no filter, white, black
