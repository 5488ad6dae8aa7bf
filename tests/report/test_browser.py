"""The page in a headless Chromium, as a reader uses it."""

import functools
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from report_rows import failed, make_row

from kbench.cli import main
from kbench.report import make_report
from kbench.run.results.folder import ResultsFolder

NASTY = "</script>\"'<b>&"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("page")
    folder = ResultsFolder(path / "results")
    seconds = {"svc": 10.5, "knn": 0.002, "mlp": 9.25}
    rows = [
        make_row(
            method,
            0.9 - 0.1 * i + 0.01 * seed,
            seed,
            fit_wall_s=seconds[method] * (1 + seed),
            command=f"kbench method={method} seed={seed}",
        )
        for i, method in enumerate(seconds)
        for seed in (0, 1)
    ]
    rows += [make_row(method, 0.5, dataset="usps", n_train=999) for method in ("knn", "svc")]
    rows += [make_row("svm", c / 10, params=json.dumps({"C": c})) for c in range(1, 8)]
    rows.append(failed("ridge", "timeout", message=NASTY, log=f"1\n{NASTY}"))
    for row in rows:
        folder.write(row)
    make_report(folder, format="html", out=path / "page.html")
    return (path / "page.html").as_uri()


@pytest.fixture
def opened(browser, address):
    """The page just loaded; in the end nothing was complained about or asked for."""
    yield from browser.visit(address, DETAIL)


# Links that people have kept must not break.
DETAIL = "data-digits-multiclass-d1-1000-500-64-10"
TABLE = 'document.querySelector("#detail table")'


def shown(browser, column=0):
    """The texts of one column of the first data set's visible lines."""
    return browser.js(
        f"[...{TABLE}.tBodies[0].rows].filter(row => row.offsetParent)"
        f".map(row => row.cells[{column}].textContent)"
    )


def test_a_click_on_a_header_sorts_and_failures_stay_last(opened):
    header = f"{TABLE}.tHead.rows[0].cells[2]"
    opened.js(f"{header}.firstElementChild.click()")
    assert opened.js(f"{header}.getAttribute('aria-sort')") == "ascending"
    seconds = [float(text.partition("±")[0]) for text in shown(opened, 2) if text]
    assert seconds == sorted(seconds)
    assert seconds[0] == 0.003
    assert shown(opened)[-1] == "ridge"
    opened.js(f"{header}.firstElementChild.click()")
    assert opened.js(f"{header}.getAttribute('aria-sort')") == "descending"
    seconds = [float(text.partition("±")[0]) for text in shown(opened, 2) if text]
    assert seconds == sorted(seconds, reverse=True)
    assert shown(opened)[-1] == "ridge"
    opened.js(f"{TABLE}.tHead.rows[0].cells[0].firstElementChild.click()")
    assert shown(opened) == sorted(shown(opened))
    assert opened.js(f"{TABLE}.querySelectorAll('[aria-sort]').length") == 1


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["1,347", "1,000,000", "1,000", "999", ""], ["999", "1,000", "1,347", "1,000,000", ""]),
        (
            ["88.9 ×", "9.58 ×", "-1.09 points", "−2 %"],
            ["−2 %", "-1.09 points", "9.58 ×", "88.9 ×"],
        ),
        ([".5 ± .1", "0.06 ± 2", "fails", "~ 2"], ["0.06 ± 2", ".5 ± .1", "~ 2", "fails"]),
        (["at most 3 ×", "from 0 to 9 ×", "1e-3"], ["from 0 to 9 ×", "1e-3", "at most 3 ×"]),
        (["Table 10", "Table 9", "20news", "a9a"], ["20news", "a9a", "Table 9", "Table 10"]),
    ],
)
def test_numbers_sort_by_value_however_they_are_written(opened, texts, order):
    lines = "".join(f"<tr><th>a</th><td>{text}</td></tr>" for text in texts)
    head = "<tr><th></th><th class='word'>b</th></tr>"
    made = (
        f"Object.assign(document.createElement('table'), {{innerHTML: {json.dumps(head + lines)}}})"
    )
    parts = "t.createTHead().append(t.rows[0])"
    sorted_texts = "[...t.tBodies[0].rows].map(row => row.cells[1].textContent)"
    script = f"var t = {made}; {parts}; sort(t.tHead.rows[0].cells[1]); {sorted_texts}"
    assert opened.js(script) == order


def test_a_list_sorts_by_its_numbers(opened):
    opened.go("data")
    names = "[...document.querySelectorAll('#data thead th')].map(cell => cell.textContent)"
    column = opened.js(names).index("train rows")
    opened.js(f"document.querySelectorAll('#data thead button')[{column}].click()")
    cells = (
        f"[...document.querySelectorAll('#data tbody tr')].map(r => r.cells[{column}].innerText)"
    )
    assert opened.js(cells) == ["999", "1,000"]


def test_the_keyboard_sorts_too(opened):
    opened.js(f"{TABLE}.tHead.rows[0].cells[1].firstElementChild.focus()")
    for kind in ("keyDown", "keyUp"):
        opened.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r")
    assert opened.js(f"{TABLE}.tHead.rows[0].cells[1].getAttribute('aria-sort')") == "descending"


def test_any_cell_opens_the_runs_behind_it(opened):
    line = f"[...{TABLE}.tBodies[0].rows].find(row => row.textContent.startsWith('svc'))"
    for column in range(3):
        opened.js(f"({line}.cells[{column}].querySelector('a') ?? {line}.cells[{column}]).click()")
        opened.wait('document.querySelector("dialog").open')
        said = opened.js('document.querySelector("dialog").innerText')
        assert said.startswith("svc, digits") or "svc" in said.splitlines()[0]
        assert said.count("seed ") == 2
        opened.js('document.querySelector("dialog").close()')
        opened.wait('!document.querySelector("dialog").open && !location.hash.includes("/run-")')


def test_details_of_a_failed_run_show_its_message_and_log_verbatim(opened):
    opened.js(f"{TABLE}.querySelector('.failed td').click()")
    opened.wait('document.querySelector("dialog").open')
    texts = opened.js('[...document.querySelectorAll("dialog pre")].map(pre => pre.textContent)')
    assert texts[:2] == [NASTY, f"1\n{NASTY}"]


def test_an_address_of_a_run_opens_it(opened):
    fragment = opened.js(f"{TABLE}.querySelector('tbody a').getAttribute('href')")
    opened.js(f"location.hash = {json.dumps(f'#{DETAIL}/{fragment[1:]}')}")
    opened.wait('document.querySelector("dialog").open')


def test_a_filter_hides_lines_and_marks_and_marks_the_best_anew(opened):
    first = "cell.parentElement.cells[0].textContent"
    best = f"[...{TABLE}.querySelectorAll('td.best')].map(cell => {first})"
    assert set(opened.js(best)) == {"svc", "knn"}
    field = "document.querySelector('.lines input')"
    change = "dispatchEvent(new Event('input'))"
    opened.js(f"{field}.value = 'knn, mlp ridge'; {field}.{change}")
    assert shown(opened) == ["knn", "mlp", "ridge"]
    assert set(opened.js(best)) == {"knn"}
    visible = "[...document.querySelectorAll('.plot a')].filter(a => a.getClientRects().length)"
    assert opened.js(f"new Set({visible}.map(a => a.dataset.m)).size") == 2
    opened.js(f"{field}.value = ''; {field}.{change}")
    assert len(shown(opened)) == 9  # five of svm's seven settings


def test_a_detail_goes_back_to_where_its_list_was(opened):
    assert opened.js("document.activeElement.id") == "detail-title"
    opened.js("document.querySelector('.back').click()")
    opened.wait("current === 'data'")
    assert opened.js("document.querySelector('#detail').hidden")
    assert opened.js("document.querySelector('nav [aria-current]').getAttribute('href')") == "#data"


def test_an_unknown_address_shows_the_overview(opened):
    opened.js("location.hash = '#nothing-here'")
    opened.wait("current === 'overview'")


def test_headers_stay_visible_in_both_directions_of_scrolling(opened):
    opened.size(1280, 300)
    opened.js("document.querySelector('#detail .scroll').scrollIntoView()")
    opened.js("document.querySelector('#detail .scroll').scrollTop = 150")
    top = "document.querySelector('#detail .scroll').getBoundingClientRect().top"
    moved = opened.js(f"{TABLE}.tHead.getBoundingClientRect().top - {top}")
    assert moved == pytest.approx(0, abs=1)
    position = "getComputedStyle(document.querySelector('#detail tbody th')).position"
    assert opened.js(position) == "sticky"


def test_further_settings_show_on_demand(opened):
    opened.js("document.querySelector('.all').click()")
    assert len(shown(opened)) == 11
    opened.js("document.querySelector('.all').click()")
    assert len(shown(opened)) == 9


def test_light_and_dark(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.js(ground)
    opened.prefer("dark")
    dark = opened.js(ground)
    assert light != dark
    opened.js("document.querySelector('#theme').click()")
    assert opened.js(ground) == light
    opened.prefer("light")
    opened.js("document.querySelector('#theme').click()")
    assert opened.js(ground) == dark
    opened.js("localStorage.clear()")


@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_a_list_begins_at_the_top_of_the_page(opened, width):
    opened.size(width, 300)
    for place in ("overview", "data", "environments", "data"):
        opened.go(place)
        drawn = "requestAnimationFrame(() => requestAnimationFrame(() => { drawn = true; }))"
        opened.js(f"var drawn = false; {drawn}")
        opened.wait("drawn")
        assert opened.js("scrollY") == 0


@pytest.mark.parametrize("width", [390, 1024, 1280, 1920])
def test_no_element_is_wider_than_the_window(opened, width):
    opened.size(width)
    for place in ("overview", "data", "environments", DETAIL):
        opened.go(place)
        assert opened.js("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_accessibility_violations(opened, scheme, width):
    opened.prefer(scheme)
    opened.size(width)
    for place in ("overview", "data", "environments", DETAIL):
        opened.go(place)
        assert opened.axe_violations() == []


def test_a_published_site_is_shown_by_a_web_server(browser, address, tmp_path):
    results = ResultsFolder(tmp_path / "results")
    results.write(make_row("svc", 0.9))
    words = [f"out={tmp_path / 'site'}", f"results_dir={results.path}"]
    assert main(["publish", *words]) == 0
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_port}/#data")
        browser.wait("current === 'data'")
        browser.go(DETAIL)
        assert "svc" in browser.js(f"{TABLE}.innerText")
        server.shutdown()


def test_it_prints_without_controls(opened):
    opened.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert opened.js("getComputedStyle(document.querySelector('header')).display") == "none"
        assert shown(opened)
    finally:
        opened.call("Emulation.setEmulatedMedia", media="")
