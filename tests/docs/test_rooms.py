"""Sizes of the rooms: modules that can be read at a sitting, folders that can be looked over."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import kbench

ROOT = Path(kbench.__file__).parent
REPOSITORY = ROOT.parent
MODULES, TESTS = (sorted(folder.rglob("*.py")) for folder in (ROOT, REPOSITORY / "tests"))
MAX_LINES, MAX_MODULES = 500, 20

PAGE = REPOSITORY / "docs" / "architecture.md"
ROWS = re.findall(
    r"^\| .*$", PAGE.read_text(encoding="utf-8").partition("## Where to change")[2], re.M
)
KERNELS = ROOT / "kernels" / "functions"  # one kernel a module, and all of them are of one kind


def test_no_module_has_more_lines_than_a_reader():
    long = {
        str(path.relative_to(ROOT)): n
        for path in MODULES
        if (n := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long


def test_no_folder_has_more_modules_than_a_screen():
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert len(counts) > 10
    assert not {str(folder): n for folder, n in counts.items() if n > MAX_MODULES}


def binds(path, name):
    """Whether a module binds a name: as a class, a function, a constant, a field, an attribute."""
    text = path.read_text(encoding="utf-8")
    return re.search(rf"(?:def|class) {name}\b|^[\w\s,.]*\b{name}\b[\w, ]*(?::|=)", text, re.M)


@cache
def places(name):
    """What a path of the page may mean: it begins in kbench/ or above it, or is a bare name."""
    found = {base / name for base in (ROOT, REPOSITORY) if (base / name).exists()}
    return found | {path for path in (*MODULES, *TESTS) if path.name == name}


def named(text):
    """(file or folder, names that follow it) for each path of a text; None before the first."""
    found = [(None, set())]
    for token in re.findall(r"`([^`\s]+)`", text):
        if re.fullmatch(r"[\w./-]*(?:/|\.(?:py|ya?ml|md|toml))", token):
            assert len(places(token)) == 1, f"{token} is {len(places(token))} files"
            found.append((*places(token), set()))
        elif token.isidentifier():
            found[-1][1].add(token)
    return found


def test_files_on_the_page_of_the_architecture_exist_and_bare_names_are_unique():
    assert len(named(PAGE.read_text(encoding="utf-8"))) > 400


def test_rows_of_where_to_change_what_are_lines_whose_names_are_in_the_file_before_them():
    assert len(ROWS) > 100
    assert not [row for row in ROWS if len(row) > 400]
    for row in ROWS:
        for path, names in named(row)[1:]:
            if path.suffix == ".py":
                lacking = {name for name in names if not binds(path, name)}
                assert not lacking, f"{path}: {lacking}"


def test_every_module_is_named_by_a_row_or_by_a_folder_in_which_it_lies():
    rows = {path for row in ROWS for path, _ in named(row)}
    lost = {
        path.relative_to(ROOT)
        for path in MODULES
        if path not in rows and path.parent != KERNELS and not path.stem.startswith("__")
    }
    for file in (path for path in MODULES if path.name == "__init__.py"):
        folder = file.parent.relative_to(ROOT)
        told = re.findall(r'(?<=["`.])\w+(?=["`.])', file.read_text(encoding="utf-8"))
        lost = {path for path in lost if not (path.is_relative_to(folder) and path.stem in told)}
    assert not lost


def test_the_first_lines_of_a_folder_name_the_room_of_what_does_not_live_there():
    for file in (path for path in MODULES if path.name == "__init__.py" and path.parent != ROOT):
        text = re.match(r'"""(.*?)"""', file.read_text(encoding="utf-8"), re.S)[1]
        assert len(re.findall(r"[.:;](?:\s|$)", text)) > 1, file
        rooms = set()
        for name in re.findall(r"`([\w./]+)`", text):
            inside = name.removeprefix("kbench.").removesuffix(".py").replace(".", "/")
            for base in (ROOT, file.parent.parent):
                rooms |= {path for path in (base / inside, base / f"{inside}.py") if path.exists()}
        assert {path for path in rooms if not path.is_relative_to(file.parent)}, file


def test_tests_mirror_the_rooms_but_where_the_page_says_so():
    """A folder's tests are in the folder of its name, or in the one above it."""
    elsewhere = {
        folder
        for folder in {path.parent.relative_to(ROOT) for path in MODULES} - {Path()}
        if not (REPOSITORY / "tests" / folder).is_dir()
    }
    sentence = PAGE.read_text(encoding="utf-8").partition("Tests mirror the rooms")[2]
    said = {Path(name) for name in re.findall(r"`([^`]*)`", sentence.partition("##")[0])}
    assert elsewhere
    assert not {f for f in elsewhere if f not in said and f.parent not in said}
