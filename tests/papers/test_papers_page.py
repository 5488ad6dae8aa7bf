"""The papers' page in a headless Chromium, and the figures in it."""

import json
import re
import xml.etree.ElementTree as ET

import pytest
from bundle import bundle
from hypothesis import given
from hypothesis import strategies as st
from paper_rows import FIGURES, asked_by, drawing, points, rbf, runs
from report_rows import failed, folder_of, make_row, stopped_in

from kbench.config import shipped_root
from kbench.papers.cells.runs import identity
from kbench.papers.figures.drawing import _drawing, drawings, line_styles
from kbench.papers.figures.figure import figures
from kbench.papers.figures.panels import Drawn, drawn_panels
from kbench.papers.printed.layout import paper
from kbench.report import make_papers, write_report
from kbench.report.charts.style import distinct_styles
from kbench.report.charts.svg import document
from kbench.report.statistics.growth import fitted_power


def swept(method, values, **changes):
    given = {"experiment": "dcsvm_table5", **changes}
    return [
        rbf(method, 0.9 + 0.01 * i, gamma=gamma, C=2.0, **given) for i, gamma in enumerate(values)
    ]


def towards(method, *points):
    """Runs on covtype whose tolerances reach these objectives after these seconds."""
    rows = []
    for i, (seconds, objective) in enumerate(points):
        params = json.dumps({"C": 32, "gamma": 32, "tol": 10.0**-i})
        found = {"params": params, "objective": objective, "fit_wall_s": seconds}
        rows.append(rbf(method, 0.9, dataset="covtype_93k", **found))
    return rows


@pytest.mark.parametrize("figure", figures(), ids=lambda one: one.name)
def test_a_figure_names_an_experiment_and_data_sets_that_exist(figure):
    for word in figure.run.removeprefix("experiment=").split(","):
        assert (shipped_root() / "experiment" / f"{word}.yaml").exists()
    for panel in figure.panels:
        for wanted, *_ in panel.lines.values():
            assert wanted.data in paper(figure.paper).data


def test_a_line_is_the_settings_of_a_method_in_the_order_of_what_is_swept():
    found = runs(*swept("svc", [64.0, 2.0, 2.0**-6]), *swept("dcsvm", [2.0, 64.0]))
    lines = points("dcsvm_fig5_8", found)
    assert [x for x, _, _ in lines["LIBSVM"]] == [2.0**-6, 2.0, 64.0]
    assert [y for _, y, _ in lines["LIBSVM"]] == pytest.approx([92.0, 91.0, 90.0])
    noisy = towards("kernel_svc", (2.0, -80.0), (1.9, -90.0), (2.5, -99.0))
    one = drawing("dcsvm_fig3", runs(*noisy, *towards("dcsvm", (1.0, -90.0), (2.0, -100.0))))
    assert "lines join their points in the order of tol" in one.remarks
    assert one.charts[0].body.count("M") > 1


def test_a_single_setting_is_no_sweep_and_one_line_no_comparison():
    assert points("dcsvm_fig5_8", runs(*swept("svc", [2.0]), *swept("dcsvm", [2.0]))) == {}
    assert points("dcsvm_fig5_8", runs(*swept("svc", [2.0, 64.0]))) == {}
    assert points("dcsvm_scaling", runs(*scaling_rows()[:2])) == {}


def test_excess_is_relative_to_the_best_of_the_panel():
    found = runs(
        *towards("dcsvm", (1.5, -95.0), (3.0, -100.0)),
        *towards("kernel_svc", (1.0, -90.0), (2.0, -99.0)),
        *towards("cascade_svm", (0.5, -80.0), (1.0, -90.0)),
    )
    lines = points("dcsvm_fig3", found)
    assert lines["DC-SVM"] == [(1.5, pytest.approx(0.05), 0.0)]  # the best has no logarithm
    assert lines["exact"] == [(1.0, pytest.approx(0.1), 0.0), (2.0, pytest.approx(0.01), 0.0)]
    assert lines["CascadeSVM"] == [(0.5, pytest.approx(0.2), 0.0), (1.0, pytest.approx(0.1), 0.0)]


def test_a_front_leaves_out_what_is_neither_cheaper_nor_better():
    def costing(method, score, cost, **params):
        given = json.dumps({"n_landmarks": cost, **params}, sort_keys=True)
        return rbf(method, score, dataset="letter", variant="dcpred", params=given,
                   prediction_cost=cost)  # fmt: skip

    options = {"pseudo": "none", "landmarks": "weighted"}
    found = runs(
        *(costing("dcpred", a, c, **options) for a, c in ((0.9, 4.0), (0.8, 8.0), (0.95, 16.0))),
        costing("dcpred", 0.7, 2.0, pseudo="none", landmarks="kmeans"),
    )
    lines = points("dcpred_app_fig4", found)
    assert lines["weighted"] == [(4.0, pytest.approx(90.0), 0.0), (16.0, pytest.approx(95.0), 0.0)]
    errors = []
    costs = [("rks", 0.3, 1.0), ("rks", 0.4, 2.0), ("rks", 0.2, 3.0), ("krr", 0.1, 9.0)]
    for method, rmse, cost in costs:
        told = {"dataset": "cadata", "task": "regression", "rmse": rmse, "prediction_cost": cost}
        errors.append(rbf(method, 0.0, params=json.dumps({"rank": cost}), **told))
    assert [y for _, y, _ in points("dcpred_fig3", runs(*errors))["RKS"]] == [0.3, 0.2]


def test_curves_are_joined_where_they_were_taken():
    rows = [
        rbf("division_bound", None, dataset="covtype_93k", variant="first_train=10000", params=p)
        for p in (json.dumps({"partition": name}) for name in ("kernel_kmeans", "random"))
    ]
    curves = {
        identity(row): {
            "n_clusters": ([0.5, 1.0], [8.0, 16.0]),
            "loss": ([0.5, 1.0], [3.0, 4.0]),
            "bound": ([1.0], [9.0]),
        }
        for row in rows
    }
    lines = points("dcsvm_fig1", runs(*rows, curves=curves))
    assert lines["loss, random"] == [(8.0, 3.0, 0.0), (16.0, 4.0, 0.0)]
    assert lines["bound, k-means"] == [(16.0, 9.0, 0.0)]


def heat_rows():
    """HSS-ADMM on a9a for two gamma, with the accuracy for each of three C."""
    rows, curves = [], {}
    for gamma in (0.5, 50):
        params = json.dumps({"C": [0.1, 1, 10], "gamma": gamma, "preset": "paper_table5"})
        told = {"dataset": "a9a", "variant": "hss", "experiment": "hss_fig2"}
        row = make_row("hss_admm", 0.9, params=params, **told)
        rows.append(row)
        curves[identity(row)] = {"accuracy over C": ([0.1, 1.0, 10.0], [0.901, 0.91, 0.92])}
    return rows, curves


def spectra(curves, method="kernel_spectrum", dataset="heart_scale", variant=None, **params):
    row = make_row(method, 0.9, dataset=dataset, variant=variant, params=json.dumps(params))
    times = {name: list(range(len(values))) for name, values in curves.items()}
    return row, {identity(row): {name: (times[name], values) for name, values in curves.items()}}


def test_a_map_shows_means_of_the_seeds():
    rows, curves = [], {}
    for seed, accuracy in enumerate((0.8922, 0.7027, 0.8320)):
        params = json.dumps({"C": [0.1, 1, 10], "gamma": 0.5, "preset": "paper_table5"})
        told = {"dataset": "ijcnn1", "experiment": "hss_table5"}
        row = make_row("hss_admm", accuracy, params=params, seed=seed, **told)
        rows.append(row)
        curves[identity(row)] = {"accuracy over C": ([0.1, 1.0], [0.9, accuracy])}
    found = runs(*rows, curves=curves)
    ((*low, at_low), (*high, at_high)) = points("hss_fig2", found)["HSS-ADMM"]
    assert (low, high) == ([0.1, 0.5], [1.0, 0.5])
    assert (at_low, at_high) == (pytest.approx(90.0), pytest.approx(80.89667))
    said = " ".join(drawing("hss_fig2", found).remarks)
    assert "first seed" not in said
    assert "means of up to 3 runs" in said


def test_a_curve_alone_is_numbered():
    row, curves = spectra({"singular_value": [3.0, 2.0, 1.0]}, gamma=0.5)
    lines = points("hss_fig1", runs(row, curves=curves))
    assert lines["h = 1"] == [(1.0, 3.0, 0.0), (2.0, 2.0, 0.0), (3.0, 1.0, 0.0)]
    assert lines["h = 2"] == []


def test_a_square_of_values_is_an_image_and_any_other_number_none():
    entries = {"entry": [1.0, 0.2, 0.3, 0.9], "clustered_entry": [1.0] * 5}
    row, curves = spectra(entries, gamma=0.125)
    found = asked_by(FIGURES["hss_fig1_matrix"], runs(row, curves=curves))
    (panel,) = drawn_panels(FIGURES["hss_fig1_matrix"], found, found.machines[0])
    assert panel.panel.title == "as it comes"
    assert panel.points["kernel"] == [(0, 0, 1.0), (0, 1, 0.3), (1, 0, 0.2), (1, 1, 0.9)]
    assert "<image" in document(drawing("hss_fig1_matrix", found).charts)


def test_a_line_takes_the_points_at_which_the_other_curves_are_its_own():
    curves = {
        "angle_row": [0.0, 0.0, 1.0, 0.0],
        "angle_column": [1.0, 1.0, 2.0, 2.0],
        "angle": [1.0, 2.0, 1.0, 1.0],
        "cosine": [1.0, 0.5, 0.25, 0.125],
    }
    row, curves = spectra(curves, "block_spectra", "ijcnn1", "first_train=1000", gamma=1)
    lines = points("meka_fig3", runs(row, curves=curves))
    assert lines["clusters 1 and 2"] == [(1.0, 1.0, 0.0), (2.0, 0.5, 0.0)]
    assert lines["2 and 3"] == [(1.0, 0.25, 0.0)]
    assert lines["3 and 4"] == []


def scaling_rows():
    """Exact machine 1e-6 n^1.5 seconds, early 1e-5 n, and a run that was stopped."""
    rows = []
    for n in (5000, 10000, 20000):
        told = {"dataset": "covtype_93k", "variant": f"first_train={n}", "n_train": n, "gamma": 32}
        rows += [
            rbf("kernel_svc", 0.9, fit_wall_s=1e-6 * n**1.5, **told),
            rbf("dcsvm_early", 0.9, fit_wall_s=1e-5 * n, **told),
        ]
    params = json.dumps({"C": 32, "gamma": 32, "tol": 0.001})
    late = failed("svc", "timeout", dataset="covtype_93k", variant="first_train=20000")
    message = stopped_in("fit", 540, limit=600)
    return [*rows, {**late, "params": params, "message": message, "n_train": None}]


def test_a_line_goes_through_the_sizes_of_a_data_set_and_shows_where_a_run_was_stopped():
    found = asked_by(FIGURES["dcsvm_scaling"], runs(*scaling_rows()))
    (panel,) = drawn_panels(FIGURES["dcsvm_scaling"], found, found.machines[0])
    assert panel.data == "covtype_93k"
    assert [x for x, _, _ in panel.points["exact"]] == [5000.0, 10000.0, 20000.0]
    assert fitted_power(panel.points["exact"])[0] == pytest.approx(1.5)
    assert fitted_power(panel.points["DC-SVM (early)"])[0] == pytest.approx(1.0)
    assert fitted_power(panel.points["exact"][:2]) is None
    assert panel.points["LIBSVM"] == []
    assert panel.stopped["LIBSVM"] == [(20000.0, 540.0, 0.0)]
    text = document(drawing("dcsvm_scaling", found).charts)
    assert "training rows" in text
    said = "exponents of the lines: DC-SVM (early) 1.00 (to 20,000), exact 1.50 (to 20,000)"
    assert said in drawing("dcsvm_scaling", found).remarks


def test_remarks_of_a_figure_name_the_command_or_the_absent_data():
    found = {one.figure.name: one for one in drawings(runs(*swept("svc", [64.0, 2.0])), {})}
    one = found["dcsvm_fig4"]
    assert one.charts == ()
    assert one.remarks == (
        "data not present: webspam",
        'too few rows of covtype: run "kbench -m experiment=dcsvm_fig4"',
    )
    assert found["meka_fig1"].remarks == ('too few rows: run "kbench -m experiment=meka_fig1"',)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("meka_fig7", "MEKA Figure 7"),
        ("dcsvm_fig5_8", "DC-SVM Figures 5 to 8"),
        ("dcsvm_fig5_8_costs", "DC-SVM Figures 5 to 8, costs"),
        ("dcsvm_fig2_time", "DC-SVM Figure 2, time"),
        ("dcpred_app_fig4", "DC-Pred++ appendix Figure 4"),
        ("dcsvm_scaling", "DC-SVM, scaling"),
        ("dcpred_app_vs_early", "DC-Pred++ appendix 7.8"),
    ],
)
def test_a_figure_is_called_as_in_the_paper(name, title):
    assert FIGURES[name].title == title


def test_figures_are_xml_and_the_same_for_the_same_rows():
    rows, curves = heat_rows()
    rows += swept("svc", [64.0, 2.0]) + swept("dcsvm", [2.0, 64.0])
    found = runs(*rows, curves=curves)
    first, again = (
        {
            one.figure.name: document(one.charts, one.legend)
            for one in drawings(found, {})
            if one.charts
        }
        for _ in range(2)
    )
    assert set(first) == {"dcsvm_fig5_8", "hss_fig2"}
    assert first == again
    for text in first.values():
        assert ET.fromstring(text).tag.endswith("svg")
    assert "90.10" in first["hss_fig2"]


def test_a_method_keeps_its_colour_whatever_else_is_drawn():
    few = runs(*swept("svc", [64.0, 2.0]), *swept("dcsvm", [2.0, 64.0]))
    more = runs(*few.rows, *swept("dcsvm_early", [2.0, 64.0]))
    legends = [dict(drawing("dcsvm_fig5_8", found).legend) for found in (few, more)]
    assert len(legends[0]) == 2
    assert legends[0].items() < legends[1].items()


@pytest.mark.parametrize("figure", figures(), ids=lambda one: one.name)
def test_lines_of_a_figure_differ_in_colour_and_no_text_stands_inside_its_axes(figure):
    machine = runs(*swept("svc", [2.0])).machines[0]
    places = [(float(i), 2.0**i, 0.0) for i in range(1, 5)]
    if figure.image:
        places = [(0, 0, 0.5), (1, 0, 1.0), (0, 1, 0.25), (1, 1, 0.0)]
    panels = []
    for panel in figure.panels:
        none, drawn = dict.fromkeys(panel.lines, ()), dict.fromkeys(panel.lines, places)
        panels.append(Drawn(panel, machine, "data", none, drawn))
    found = _drawing(figure, panels, {})
    assert len({style.colour for _, style in found.legend}) == len(found.legend)
    assert all(line_styles()[label] == style for label, style in found.legend)
    assert len(found.charts) == len(figure.panels)
    assert len({chart.label for chart in found.charts}) == len(figure.panels)
    for chart in found.charts if not figure.heat else ():
        axis = re.search(r'class="axis" d="M([\d.]+) ([\d.]+)V([\d.]+)H([\d.]+)"', chart.body)
        left, top, bottom, right = map(float, axis.groups())
        texts = re.findall(r'<text[^>]* x="(.+?)" y="(.+?)"', chart.body)
        assert not any(left < float(x) < right and top < float(y) < bottom for x, y in texts)


@given(st.lists(st.sampled_from("abcdefghijklmnop"), max_size=7, unique=True))
def test_of_one_group_no_two_share_a_colour_or_a_marker(group):
    found = distinct_styles([group]).values()
    assert len({one.colour for one in found}) == len({one.marker for one in found}) == len(group)


def test_panels_name_the_data_set_that_stands_for_the_papers():
    rows = [
        make_row(method, 0.9, dataset=name, error=0.1)
        for method in ("r_sdca", "norma")
        for name in ("covtype_93k", "a9a")
    ]
    text = document(drawing("dsgd_fig1_seconds", runs(*rows)).charts)
    assert "on covtype_93k<" in text
    assert "on a9a<" in text


# the page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = [rbf("svc", 0.98 + 0.002 * seed, seed, fit_wall_s=5.0) for seed in (0, 1)]
    rows += [rbf("dcsvm_early", 0.97, fit_wall_s=0.5)]
    rows += [  # which decide a claim about covtype alone
        rbf(method, 0.9, gamma=32, dataset="covtype_93k", fit_wall_s=seconds)
        for method, seconds in (("svc", 300.0), ("dcsvm_early", 1.0))
    ]
    rows += swept("svc", [2.0, 64.0]) + swept("dcsvm", [2.0, 64.0])
    rows += [failed("ltpu", "timeout", dataset="ijcnn1", params='{"C": 32, "gamma": 2}')]
    # Rows of no known method or data set break no page.
    rows += [rbf("of_a_plugin_that_is_gone", 0.999), rbf("svc", 0.5, dataset="mine")]
    return folder_of(tmp_path_factory.mktemp("papers") / "results", *rows)


@pytest.fixture(scope="module")
def written(folder):
    return write_report(folder)


def test_pages_hold_the_papers(written):
    names = {path.name for path in written}
    assert names >= {"index.html", "claims.csv", "dcsvm_fig5_8.svg"}


TABLE = 'document.querySelector("#detail table")'


@pytest.fixture(scope="module")
def one_file(folder, tmp_path_factory):
    """The page that holds its details."""
    path = tmp_path_factory.mktemp("page") / "papers.html"
    make_papers(folder, format="html", out=path)
    return path


@pytest.fixture
def opened(browser, one_file):
    yield from browser.visit(one_file.as_uri(), "dcsvm_table3")


@pytest.fixture
def beside(browser, written):
    """The page whose details are in a file beside it, and that file, which a test may change."""
    page, script = written[:2]
    content = script.read_bytes()
    browser.size(1280)
    browser.open("about:blank")
    browser.open(page.as_uri())
    yield page, script
    script.write_bytes(content)


def asked(browser):
    return [url.rpartition("/")[2] for url in browser.asked()]


def test_details_beside_the_page_are_loaded_once_when_the_first_is_opened(browser, beside):
    assert asked(browser) == ["index.html"]
    browser.js("location.hash = 'dcsvm_table3'; route(); route()")
    browser.wait("current === 'dcsvm_table3'")
    browser.go("claims")
    browser.go("dcsvm_table3")
    assert browser.js(f"{cell('LIBSVM', 'ijcnn1 accuracy, %, paper')}.textContent") == "98.69"
    assert asked(browser) == ["index.html", "index.details.js"]
    assert not browser.happened("Runtime.exceptionThrown")


def test_one_file_and_two_have_the_same_details(one_file, beside):
    alone = bundle(one_file.read_text())["details"]
    both = bundle(beside[1].read_text())["details"]
    assert both["dcsvm_table3"]["html"].count("<tr") == alone["dcsvm_table3"]["html"].count("<tr")
    assert both.keys() >= alone.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda script: script.unlink(), "which is not beside this page"),
        (lambda script: script.write_text('kbenchBundle("0", "")'), "written for another page"),
    ],
)
def test_a_page_without_its_details_says_so_and_keeps_its_lists(browser, beside, change, message):
    change(beside[1])
    browser.js("location.hash = 'dcsvm_table3'")
    browser.wait("document.querySelector('#missing').textContent !== ''")
    assert message in browser.js("document.querySelector('#missing').textContent")
    assert browser.js("document.querySelector('#lists').hidden") is False
    browser.go("tables")


def details(browser):
    """Show each detail in turn, and yield its address."""
    for name in browser.js("Object.keys(bundle.details)"):
        browser.js(f"showDetail({json.dumps(name)}, bundle.details[{json.dumps(name)}])")
        yield name


def cell(row, column):
    """A cell by its row's name and its column's header."""
    line = f"[...{TABLE}.tBodies[0].rows].find(r => r.cells[0].textContent === {json.dumps(row)})"
    return f"({line}).cells[{leaf(column)}.cellIndex]"


def leaf(column):
    """A header of one column, by its full name."""
    return f"""{TABLE}.querySelector('thead tr:last-child [aria-label="{column}"]')"""


def test_printed_and_measured_values_stand_side_by_side(opened):
    assert opened.js(f"{cell('LIBSVM', 'ijcnn1 accuracy, %, paper')}.textContent") == "98.69"
    mean = opened.js(f"{cell('LIBSVM', 'ijcnn1 accuracy, %, kbench')}.firstChild.textContent")
    assert mean == "98.10 ± 0.14"
    assert opened.js(f"{cell('DC-SVM (early)', 'ijcnn1 × LIBSVM, kbench')}.textContent") == "0.100"
    heads = opened.js("[...document.querySelectorAll('#detail thead th')].map(h => h.textContent)")
    assert {"ijcnn1", "cifar, data not present", "covtype, measured on covtype_93k"} <= set(heads)


def test_a_cell_opens_the_runs_behind_it(opened):
    opened.js(f"{cell('LIBSVM', 'ijcnn1 accuracy, %, kbench')}.querySelector('a').click()")
    opened.wait('document.querySelector("dialog").open')
    said = opened.js('document.querySelector("dialog").innerText')
    assert said.startswith("LIBSVM, ijcnn1 accuracy, % · DC-SVM Table 3")
    assert said.count("svc on ijcnn1 · seed ") == 2
    opened.js('document.querySelector("dialog").close()')


def test_a_header_sorts_by_what_was_measured(opened):
    header = leaf("ijcnn1 seconds, kbench")
    opened.js(f"{header}.firstElementChild.click()")
    assert opened.js(f"{header}.getAttribute('aria-sort')") == "ascending"
    assert opened.js(f"{TABLE}.querySelectorAll('[aria-sort]').length") == 1
    rows = opened.js(f"[...{TABLE}.tBodies[0].rows].map(r => r.cells[0].textContent)")
    assert rows[:2] == ["DC-SVM (early)", "LIBSVM"]


def test_no_printed_table_is_wider_than_its_page(opened):
    """Landscape A4 and A3 within margins of 12 mm, in CSS pixels."""
    opened.size(1032)
    opened.call("Emulation.setEmulatedMedia", media="print")
    pairs = "t => [t.scrollWidth, t.closest('.wide') !== null]"
    widths = f"[...document.querySelectorAll('#detail article table')].map({pairs})"
    try:
        found = [pair for _ in details(opened) for pair in opened.js(widths)]
    finally:
        opened.call("Emulation.setEmulatedMedia", media="")
    assert len(found) > 30
    assert [pair for pair in found if pair[0] > (1496 if pair[1] else 1032)] == []


def test_no_detail_is_cut_at_1280_pixels_or_wider_than_a_phone(opened):
    scrolls = "[...document.querySelectorAll('#detail .scroll')]"
    beyond = f"{scrolls}.map(s => s.scrollWidth - s.clientWidth)"
    for name in details(opened):
        assert not any(opened.js(beyond)), name
    opened.size(390)
    for name in details(opened):
        assert opened.js("document.documentElement.scrollWidth") == 390, name


@pytest.mark.parametrize("width", [390, 801, 1024, 1280, 1920])
def test_no_list_is_wider_than_the_window_or_its_page(opened, width):
    opened.size(width)
    for place in opened.js("views.map(view => view.id)"):
        opened.go(place)
        assert opened.js("document.documentElement.scrollWidth") == width, place
        right = "document.querySelector('#find').getBoundingClientRect().right"
        boxes = f"[...document.querySelectorAll('#{place} .scroll')]"
        assert not opened.js(f"{boxes}.some(b => b.getBoundingClientRect().right > {right} + 1)")


def test_no_two_landmarks_of_a_detail_have_one_name_and_every_header_has_one(opened):
    title = "document.querySelector('#detail-title').textContent"
    regions = "[...document.querySelectorAll('#detail [role=region], #detail section')]"
    for name in details(opened):
        labels = opened.js(f"{regions}.map(one => one.getAttribute('aria-label'))")
        labels.append(opened.js(title))
        assert len({*labels}) == len(labels), name
        headers = "[...document.querySelectorAll('#detail thead th, #detail button')]"
        assert opened.js(f"{headers}.every(one => one.textContent.trim())"), name


def test_figures_are_drawn_or_say_what_they_lack(opened):
    opened.go("dcsvm_fig5_8")
    assert opened.js("document.querySelectorAll('#detail .plot .line').length") >= 2
    opened.go("hss_fig2")
    bare = 'document.querySelector("#detail .frame").textContent'
    assert opened.js(bare) == 'too few rows: run "kbench -m experiment=hss_fig2,hss_table5"'


def test_the_picture_links_to_claims(opened):
    opened.go("overview")
    links = "[...document.querySelectorAll('#overview .plot a')]"
    targets = opened.js(f"{links}.map(a => a.getAttribute('href'))")
    claim = next(target for target in targets if target.startswith("#claim-"))
    opened.js(f"location.hash = {json.dumps(claim)}")
    opened.wait("current === 'claims'")
    assert opened.js("document.querySelector('.target').getBoundingClientRect().top") < 900


def test_search_and_filters_find_items_in_every_list(opened):
    opened.go("claims")
    shown = "[...document.querySelectorAll('#claims tbody tr')].filter(r => !r.hidden).length"
    every = opened.js(shown)
    verdict = "document.querySelector('#filter-verdict')"
    change = "dispatchEvent(new Event('input', {bubbles: true}))"
    opened.js(f"{verdict}.value = 'open: not run'; {verdict}.{change}")
    assert 0 < opened.js(shown) < every
    opened.js(f"document.querySelector('#search').value = 'zzz'; {verdict}.{change}")
    assert opened.js(shown) == 0
    assert opened.js("document.querySelector('#matches').textContent") == "0 matches in all lists"
    assert opened.js("document.querySelector('#claims .none').hidden") is False
    opened.js("document.querySelector('#clear').click()")
    opened.wait(f"{shown} === {every}")


@pytest.mark.parametrize("place", ["overview", "claims", "tables", "dcsvm_table3", "dcsvm_fig5_8"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_accessibility_violations(opened, place, width, scheme):
    opened.prefer(scheme)
    opened.size(width)
    opened.go(place)
    assert opened.axe_violations() == []


def test_a_claim_is_a_line_whose_details_unfold(opened):
    opened.go("claims")
    line = "document.querySelector('#claims tbody tr')"
    shown = opened.js(f"{line}.innerText")
    assert "124 ×" in shown
    assert "The claim holds if" not in shown
    opened.js(f"{line}.querySelector('summary').click()")
    assert "The claim holds if it is at least 100 ×." in opened.js(f"{line}.innerText")


def test_a_list_s_header_stays_below_the_filters_and_unfolded_claims_fit(opened):
    opened.go("claims")
    opened.js("document.querySelectorAll('#claims details').forEach(one => { one.open = true; })")
    opened.js("scrollTo(0, 2000)")
    box = "getBoundingClientRect()"
    gap = f"document.querySelector('#claims thead').{box}.top"
    opened.wait(f"Math.abs({gap} - document.querySelector('#find').{box}.bottom) < 1")
    assert opened.js("scrollY") > 500
    assert opened.js("document.documentElement.scrollWidth") == 1280


@pytest.mark.parametrize("name", ["dcsvm_fig2", "meka_fig1", "meka_fig7"])
def test_a_table_of_a_figure_opens_beside_the_figure(opened, name):
    opened.go(f"{name}_table")
    assert opened.js("document.querySelectorAll('#detail table').length") > 0
    opened.go(name)
    assert opened.js("document.querySelectorAll('#detail figure').length") == 1


def test_on_a_phone_the_data_set_of_the_columns_stays_in_sight(opened):
    """While columns of ijcnn1 are in sight, so is its name above them."""
    opened.size(390)
    scroll = "document.querySelector('#detail .scroll')"
    name = f"{scroll}.querySelector('thead th[colspan] span').getBoundingClientRect()"
    opened.js(f"{scroll}.scrollLeft = 60")
    assert 0 < opened.js(f"{name}.left") < opened.js(f"{name}.right") < 390


def test_the_overview_has_a_line_for_each_paper(opened):
    opened.go("overview")
    rows = "[...document.querySelectorAll('#overview tbody tr th')].map(t => t.textContent)"
    assert opened.js(rows)[:5] == ["DC-SVM", "MEKA", "DC-Pred++", "Doubly SGD", "HSS-ADMM"]
    values = opened.js("document.querySelector('#overview tbody tr').innerText")
    assert "300 ×" in values
    assert opened.js("document.querySelector('#overview a[href=\"#claim-1\"]') !== null")
