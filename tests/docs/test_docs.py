"""Every command, program and config of the documentation, as a reader would type them.

A page is one working directory: its ```yaml and ```python blocks that name a file in one of their
first two lines become that file, whole; other ```python blocks are run, and of ```sh blocks every
line must end with the exit code that its comment states, 0 where it states none. A page whose
command wants real data is skipped where these are in no folder of KBENCH_DATA and cannot be
fetched.
"""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness import python, run_here

from kbench.run.results.rows import STATUSES, schema

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
FILE = re.compile(r"\A(?:#.*\n)?# (?:file: )?(\S+\.(?:ya?ml|py|txt|csv))$", re.M)

# What a shell would expand or redirect, and commands that read the reference rows, which are hidden
# from the process of the tests (`conftest.py`).
SHELL = re.compile(r"[$|<>;&*?`~]|^\w+=|^kbench (?:report|publish|merge|import)\b")
ABSENT = re.compile(r"\S+ is not there, fetching \S+ failed: .*")


def run(command, here):
    """A command, by a shell, or in this process, whose imports serve all of them."""
    words = shlex.split(command)
    if words[0] == "kbench" and not SHELL.search(command):
        done = run_here(here, *words[1:], own_data=True)
        assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"
        return done
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=here,
        env=os.environ | {"PATH": path, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "Traceback" not in done.stderr, f"{command}\n{done.stderr}"
    return done


@pytest.mark.timeout(900)  # every command of a page, one after the other
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_does_what_it_says(page, tmp_path):
    for language, text in BLOCK.findall(page.read_text()):
        if named := FILE.match(text):
            path = tmp_path / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "python":
            output_of(["-c", text], tmp_path)
        elif language == "sh":
            for line in text.replace("\\\n", " ").splitlines():
                command, _, comment = line.partition("  #")
                if not command.strip() or command.startswith("#"):
                    continue
                expected = re.search(r"exit code (\d+)", comment)
                done = run(command, tmp_path)
                wanted = int(expected[1]) if expected else 0
                if absent := ABSENT.search(done.stderr):
                    pytest.skip(absent[0])
                assert done.returncode == wanted, f"{page.name}: {line}\n{done.stdout}{done.stderr}"


def programs_with_mapie():
    """(name, program) of what the page on uncertainty and its picture take MAPIE for."""
    blocks = BLOCK.findall((ROOT / "docs" / "uncertainty.md").read_text())
    for language, text in blocks:
        if language == "python" and (named := FILE.match(text)):
            yield named[1], text
    yield "picture", (ROOT / "docs" / "gallery" / "uncertainty.py").read_text()


def output_of(arguments, folder):
    """What a Python with these arguments prints, which has to end well."""
    environment = os.environ | {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = python(*arguments, cwd=folder, env=environment, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "program"), list(programs_with_mapie()))
def test_a_program_with_mapie_prints_what_its_page_says(name, program, tmp_path):
    pytest.importorskip("mapie", reason="MAPIE is not installed")
    printed = output_of(["-c", program], tmp_path)
    page = " ".join((ROOT / "docs" / "uncertainty.md").read_text().split())
    for line in printed.splitlines():
        assert name == "picture" or f"`{line}`" in page


def test_the_gallery_s_onnx_model_has_the_same_labels(tmp_path):
    pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    printed = output_of([ROOT / "docs" / "gallery" / "onnx_model.py"], tmp_path)
    said = re.search(r"([\d.]+) of the labels are equal; .* (\S+)$", printed.strip())
    assert said
    assert float(said[1]) == 1.0
    assert float(said[2]) < 2e-5


def test_the_commands_of_readme_are_commands(tmp_path):
    """Its indented blocks: one run and all reports are made, longer runs are planned."""
    lines = re.findall(r"^    (\S.*)$", BLOCK.sub("", (ROOT / "README.md").read_text()), re.M)
    program = [line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")]
    commands = [line.partition("  #")[0].strip() for line in lines if not line.startswith(">>> ")]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
    assert len(commands) > 8
    rows = "".join(f"{20 + k},{'ab'[k % 2]},{'high' if k % 3 else 'low'}\n" for k in range(60))
    (tmp_path / "people.csv").write_text(f"age,job,income\n{rows}")
    for command in commands:
        if command == "source .venv/bin/activate":
            continue
        tool, *words = command.split()
        assert tool in ("make", "kbench"), command
        if tool == "make":
            assert words[0] in targets, command
            continue
        done = run(re.sub(r"^kbench (?:-m|tune) ", "kbench plan -m ", command), tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert program
    output_of(["-c", "\n".join([*program, "assert len(rows) == 1"])], tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" not in target:
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            titles = re.findall(r"^#+ (.*)", there.read_text(), re.M) if heading else []
            slugs = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}
            assert not heading or heading in slugs, f"{page.name} links to {target}#{heading}"


def test_every_picture_is_shown_by_a_page():
    shown = {name for page in PAGES for name in re.findall(r"images/([\w.-]+)", page.read_text())}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown


def test_every_page_stands_in_the_site_and_in_readme():
    listed = set()
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    for page in (ROOT / "docs").glob("*.md"):
        for block in re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text(), re.M | re.S):
            listed.update(re.findall(r"<?([\w/-]+)>?$", block, re.M))
    assert pages <= listed | {"index"}
    shown = set(re.findall(r"docs/([\w-]+)\.md", (ROOT / "README.md").read_text()))
    assert pages - shown == {"api", "developing", "guide", "index", "releasing"}


# A measured time or ratio: "1.5 s", "12x"; not a bound such as "below 0.2 s".
FIGURE = re.compile(r"(?<![\w.=-])(?<!below )(?<!than )\d[\d,.]*(?: ?(?:s|ms|us|ns)|x)\b")


def measured_parts():
    """(name, text) of the sections of README and the pages of docs/ that state measured figures."""
    for page in PAGES:
        text = BLOCK.sub("", page.read_text())
        parts = re.split(r"^(?=## )", text, flags=re.M) if page.name == "README.md" else [text]
        for part in parts:
            if FIGURE.search(part):
                yield f"{page.name}: {part.splitlines()[0].strip('# ')}", part


@pytest.mark.parametrize(("name", "text"), list(measured_parts()), ids=lambda value: value[:60])
def test_figures_carry_the_script_that_prints_them_and_a_date(name, text):
    scripts = set(re.findall(r"\b(\w+\.py)\b", text))
    assert scripts & {path.name for path in (ROOT / "scripts").glob("*.py")}, name
    assert re.search(r"\b20\d\d-\d\d-\d\d\b", text), name


def test_every_script_stands_in_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert {path.name for path in (ROOT / "scripts").glob("*.py")} <= set(
        re.findall(r"\w+\.py", text)
    )


def test_the_page_on_results_explains_every_column_and_status():
    text = (ROOT / "docs" / "results.md").read_text()
    explained = set(re.findall(r"`(\w+)`", text))
    assert set(schema().names) <= explained
    section = text.partition("## Statuses")[2].partition("## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.M)) == STATUSES


def test_the_constants_of_the_solver_have_the_values_that_its_page_states():
    text = (ROOT / "docs" / "solver.md").read_text()
    rows = re.findall(r"^\| (`\w+`.*?) \(([\w/]+)\) \| (.+?) \|", text, re.M)
    assert len(rows) > 15
    for names, module, values in rows:
        path = module if module.startswith("kbench/") else f"kbench/solvers/box_dual/{module}"
        holder = importlib.import_module(path.replace("/", "."))
        holder = holder.SolverOptions if module == "options" else holder
        actual = [getattr(holder, name) for name in re.findall(r"`(\w+)`", names)]
        assert actual == [float(value.replace(",", "")) for value in values.split(", ")], names


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_a_notebook_runs_from_the_top_and_holds_no_outputs(path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    output_of(["-c", "\n".join("".join(cell["source"]) for cell in cells)], path.parent)
