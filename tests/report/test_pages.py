"""A page is one file that asks for nothing, holds every row, and breaks on no name."""

import base64
import hashlib
import html.parser
import itertools
import json
import math
import re
import statistics

import pytest
from bundle import details, embedded, rows_of
from hypothesis import given
from hypothesis import strategies as st
from report_rows import failed, make_row

from kbench.report import make_report, write_report
from kbench.report.charts.style import COLOURS, MARKERS, styles
from kbench.report.charts.tradeoff import inner_fence
from kbench.report.page.embedded import packed_rows
from kbench.report.statistics.fronts import FrontPoint, pareto

NASTY = "</script><!--<script>'\"&{{rows}}\\中"


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and whether every element is closed."""

    VOID = frozenset(["meta", "link", "input"])

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.open = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def page(folder):
    return lambda *rows, **options: make_report(folder(*rows), format="html", **options)


def test_the_page_is_well_formed_and_asks_for_nothing(page):
    rows = [make_row("svc", 0.9, s, message=NASTY, command=f"kbench {NASTY}") for s in range(2)]
    rows += [make_row(NASTY, 0.8, dataset=NASTY), failed("mlp", "error", message=NASTY, log=NASTY)]
    text = page(*rows)
    tags = Page(text).tags + Page(details(text)).tags
    for tag, attributes in tags:
        for name in ("src", "href", "action", "data", "srcset"):
            target = attributes.get(name, "")
            assert target.startswith(("#", "data:,")) or name not in attributes, (tag, target)
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_only_the_script_of_the_page_may_run(page):
    text = page(make_row("svc", 0.9))
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in text


def test_every_line_links_to_its_rows(page):
    rows = [make_row("svc", 0.5 + s / 10, s) for s in range(3)]
    rows += [make_row("knn", 0.4), failed("mlp", "timeout", message="more than 2 s")]
    text = page(*rows)
    held = embedded(text)
    assert sorted(row["key"] for row in held) == sorted(row["key"][:16] for row in rows)
    for method in ("svc", "knn", "mlp"):
        pattern = rf'data-m="{method}" data-r="([\d,]+)"><th scope="row"><a href="#run-(\w+)'
        places, key = re.search(pattern, details(text)).groups()
        own = [held[int(place)] for place in places.split(",")]
        assert {row["method"] for row in own} == {method}
        assert own[0]["key"].startswith(key)
        assert [row["seed"] for row in own] == list(range(len(own)))
    assert '<td class="st">timeout</td>' in details(text)


def test_addresses_are_unique_also_of_one_run_on_two_machines(page):
    rows = [make_row("svc", 0.5), make_row("svc", 0.5, n_test=400), make_row("knn", 0.5)]
    rows += [{**rows[0], "environment": "ffffffff"}, {**rows[0], "threads": 2, "jobs": 3}]
    text = page(*rows)
    listed = re.findall(r'<td class="word">([^<]+ threads?)<div>(.*?)</div>', text)
    assert set(listed) == {("0a1b2c3d, 2 threads", "3 runs at a time")}
    found = Page(details(text))
    targets = [a["href"] for tag, a in found.tags if tag == "a" and a["href"].startswith("#run-")]
    assert len(set(targets)) == 5
    assert len(targets) == 10  # a line and a mark each
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_infinite_parameters_are_json_for_browsers_too(page):
    (row,) = embedded(page(make_row("svc", 0.5, params='{"C": Infinity, "tol": NaN}')))
    assert json.loads(row["params"], parse_constant=pytest.fail) == {"C": "Infinity", "tol": "NaN"}


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "accuracy": st.one_of(st.none(), st.floats(allow_nan=False)),
                "seed": st.one_of(st.none(), st.integers(-(2**53), 2**53)),
                "message": st.one_of(st.none(), st.text()),
                "command": st.one_of(st.none(), st.text()),
                "converged": st.sampled_from([None, True, False]),
                "status": st.sampled_from(["ok", "error"]),
                "phases": st.one_of(
                    st.none(), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))
                ),
            }
        ),
        min_size=1,
        max_size=8,
    )
)
def test_rows_come_back_out_of_their_columns(rows):
    packed = json.loads(json.dumps(packed_rows(rows), allow_nan=False))
    for row, found in zip(rows, rows_of(packed), strict=True):
        assert found["command"] == (row["command"] or "")
        for name in ("seed", "message", "converged", "status"):
            assert found.get(name) == row[name]
            assert type(found.get(name)) is type(row[name])
        phases = {phase: s for phase, s in found["phases"].items() if s is not None}
        assert phases == (row["phases"] or {})
        value = row["accuracy"]
        if value is None or math.isinf(value):
            assert found.get("accuracy") == (None if value is None else str(value))
        else:
            assert found["accuracy"] == pytest.approx(value, rel=5e-5)


def test_logs_are_of_failures_and_bounded():
    rows = [{"status": "ok", "log": "fine"}, {"status": "error", "log": "x" * 5000 + "end"}]
    kept = rows_of(packed_rows(rows))
    assert kept[0]["log"] is None
    assert kept[1]["log"].endswith("xend")
    many = [{"status": "error", "log": f"{i:>6}" * 1000} for i in range(3000)]
    assert len(json.dumps(packed_rows(many))) < 450_000


def test_further_settings_are_there_and_hidden_at_first(page):
    rows = [make_row("svc", c / 100, params=json.dumps({"C": c})) for c in range(1, 8)]
    text = page(*rows, settings=3)
    assert details(text).count('<tr class="more"') == 4
    assert "Show all 7 lines" in details(text)
    assert len(embedded(text)) == 7


def test_a_method_looks_the_same_in_every_plot(page):
    rows = [
        make_row(method, 0.5, dataset=dataset, fit_wall_s=1.0 + len(method))
        for dataset, methods in (("a", ("svc", "knn", "mlp")), ("b", ("svc", "mlp")))
        for method in methods
    ]
    text = details(page(*rows))
    looks = re.findall(r'data-m="(\w+)" href[^>]*>.*?class="mark c(\d)"[^>]*d="(.*?)"', text)
    assert len(looks) == 5
    assert len({method for method, _, _ in looks}) == len(set(looks)) == 3


def test_styles_differ_up_to_the_product():
    names = [f"m{i:02}" for i in range(len(COLOURS) * len(MARKERS))]
    assert len(set(styles(names).values())) == len(names)
    assert styles(reversed(names)) == styles(names)


def test_regression_is_plotted_by_its_error_and_failures_are_not(page):
    rows = [
        make_row(name, None, task="regression", rmse=value, n_classes=None, fit_wall_s=value)
        for name, value in (("svr", 3.25), ("ridge", 2.5))
    ]
    text = details(page(*rows, failed("krr", "memory", task="regression")))
    assert "<title>ridge: RMSE 2.500, fit time 2.5 s</title>" in text
    assert "<title>krr" not in text
    assert "memory" in text


def test_the_score_stands_against_what_predictions_cost_too(page):
    costs = {"svc": 900.0, "dcpred": 12.5, "linear_svc": 1.0}
    rows = [make_row(name, 0.9, prediction_cost=cost) for name, cost in costs.items()]
    text = details(page(*rows, make_row("knn", 0.8, prediction_cost=None)))
    assert text.count('<svg class="plot"') == 2
    assert "<title>dcpred: accuracy % 90.00, prediction 12.5 × Xw</title>" in text
    assert text.count("<title>knn") == 1


def test_methods_on_the_front_are_named_if_there_is_space(page):
    def named(values):
        rows = [
            make_row(name, score, fit_wall_s=seconds, prediction_cost=None)
            for name, seconds, score in values
        ]
        names = r'<text class="name" x="(.*?)" y="(.*?)"[^>]*>(.*?)<'
        marks = re.findall(names, details(page(*rows)))
        return {name: (float(x), float(y)) for x, y, name in marks}

    apart = named([("fast", 0.01, 0.5), ("slow", 100.0, 0.9), ("beaten", 1.0, 0.4)])
    assert set(apart) == {"fast", "slow"}
    assert all(40 <= x <= 450 - 16 for x, _ in apart.values())
    crowd = [(f"m{i:02}", 1.0 + i * 1e-4, 0.9 + i * 1e-5) for i in range(40)]
    found = named([("far", 100.0, 0.99), *crowd])
    assert "far" in found
    for one, other in itertools.combinations(found.values(), 2):
        assert abs(one[0] - other[0]) > 15 or abs(one[1] - other[1]) > 10


def test_an_outlier_is_drawn_at_the_edge_with_its_value(page):
    values = [0.9, 0.91, 0.92, 0.93, 0.94, 0.1]
    rows = [make_row(f"m{i}", v, fit_wall_s=1.0 + i) for i, v in enumerate(values)]
    text = details(page(*rows))
    assert "↓ 10.00</text>" in text
    marks = r'class="mark c\d" transform="translate\([\d.]+ ([\d.]+)\)"'
    heights = [float(y) for y in re.findall(marks, text)]
    assert len(heights) == 6
    assert max(heights) - min(heights) > 200


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=9),
    st.sampled_from([1, -1]),
)
def test_front_contains_exactly_the_points_that_no_other_point_dominates(values, sign):
    points = [FrontPoint(None, float(cost), float(score), 0.0) for cost, score in values]
    front = pareto(points, sign)

    def beaten(point):
        return any(
            other.cost <= point.cost
            and sign * other.score >= sign * point.score
            and (other.cost, other.score) != (point.cost, point.score)
            for other in points
        )

    expected = {(p.cost, p.score) for p in points if not beaten(p)}
    assert [(p.cost, p.score) for p in front] == sorted(expected)


@given(st.lists(st.floats(0, 1), max_size=12), st.sampled_from([1, -1]))
def test_fence_is_mirrored_and_keeps_the_middle(scores, sign):
    limit = inner_fence(scores, sign)
    mirrored = inner_fence([-score for score in scores], -sign)
    assert (limit is None) == (mirrored is None)
    if limit is not None:
        assert mirrored == pytest.approx(-limit)
        assert sign * statistics.median(scores) >= sign * limit


def test_empty_folders_and_damaged_files_are_reported(tmp_path, page):
    assert "0 runs" in page()
    page(make_row("svc", 0.9))
    (tmp_path / "results" / "bad<.parquet").write_text("x")
    assert "bad&lt;.parquet: skipped" in page()


def test_the_overview_begins_with_the_ranking_and_ends_with_my_results(folder):
    told = {"experiment": "tables", "task": "binary", "n_train": 100, "n_test": 100}
    pairs = itertools.product((("svc", 0.9), ("mlp", 0.8)), ("a9a", "letter", "usps"))
    rows = [make_row(*method, dataset=dataset, **told) for method, dataset in pairs]
    text = write_report(folder(*rows))[0].read_text()
    front = text[text.index('<section id="overview"') : text.index('<section id="claims"')]
    ranked = front.index("Which model: binary, 3 data sets")
    assert '<a href="#overview-2">Did the papers' in front[:ranked]  # the way to what is below
    papers = front.rindex("Did the papers")
    assert ranked < front.index("To try first: svc, then mlp.") < papers
    assert papers < front.rindex("My results") < front.rindex("usps")
