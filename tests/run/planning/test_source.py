"""The hash of a method's source: what is in it, and which edits change it."""

import sys
from pathlib import Path

import pytest
from harness import python

from kbench.run.planning import registry, source
from kbench.run.planning.source import modules_of, source_sha256

METHODS = sorted(
    {value for value in registry._entry_points().values() if value.startswith("kbench.")}
)
IMPORTED = """
import importlib, sys
begin = set(sys.modules)
for name in sys.argv[1:]:
    for module in [m for m in sys.modules if m.partition(".")[0] == "kbench"]:
        del sys.modules[module]
    importlib.import_module(name)
    print(*[m for m in sys.modules if m.partition(".")[0] == "kbench"])
"""


def in_source(path):
    return modules_of({tuple(path.split(":"))})


@pytest.fixture(autouse=True)
def _fresh():
    """Files are read anew, as by another command."""
    yield
    forget()


def forget():
    for cached in vars(source).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def test_the_source_of_a_method_holds_whatever_its_import_loads():
    modules = sorted({path.partition(":")[0] for path in METHODS})
    done = python("-c", IMPORTED, *modules, check=True)
    for module, line in zip(modules, done.stdout.splitlines(), strict=True):
        assert set(line.split()) <= modules_of({(module, "")}), module


def test_the_source_of_every_engine_module_is_in_that_of_some_method():
    """Folders and loose modules are found by imports, so a new one needs no list."""
    covered = set().union(*map(in_source, METHODS))
    root = Path(source.__file__).parents[2]
    for folder in ("intrinsics", "kernels", "width_search", "solvers", "approximation"):
        for file in (root / folder).rglob("*.py"):
            if file.name == "__main__.py":
                continue
            name = ".".join(["kbench", *file.relative_to(root).with_suffix("").parts])
            assert name.removesuffix(".__init__") in covered


def test_no_method_depends_on_a_method_that_it_does_not_import():
    forests = {path: in_source(path) for path in METHODS}
    apart = forests["kbench.methods.exact.kernel_svc:KernelSVC"]
    assert "kbench.methods.stochastic.norma" not in apart
    assert not {name for name in apart if name.startswith(("kbench.run", "kbench.data"))}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A user's package whose class imports in every way that Python has."""
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "somebodys/__init__.py": "",
        "somebodys/method.py": "import somebodys.plain\nfrom somebodys import by_name\n"
        "from . import beside\nfrom .late import Late\nfrom kbench.errors import KbenchError\n"
        "class A:\n    def fit(self): from somebodys.inside import x\n",
        "somebodys/plain.py": "import somebodys.second",
        "somebodys/second.py": "",
        "somebodys/by_name.py": "",
        "somebodys/beside.py": "",
        "somebodys/inside.py": "x = 1",
        "somebodys/late/__init__.py": "T = {'Late': 'somebodys.late.one'}\n"
        "def __getattr__(name): ...",
        "somebodys/late/one.py": "class Late: ...",
        "somebodys/unused.py": "import somebodys.method",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    forget()
    return tmp_path, files


def test_an_edit_of_an_imported_file_changes_the_hash_and_no_other_does(package):
    folder, files = package
    before = source_sha256("somebodys.method:A")
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n# edited\n")
        forget()
        changed = source_sha256("somebodys.method:A") != before
        assert changed == (name != "somebodys/unused.py"), name
        (folder / name).write_text(text)
    forget()
    assert source_sha256("somebodys.method:A") == before
    assert "somebodys" not in sys.modules


def test_what_has_no_source_has_no_hash():
    assert source_sha256("no_such_package:A") is None
    assert source_sha256("sklearn.svm:SVC(part=no_such_package:B)") is None
    assert source_sha256("sklearn.svm:SVC") is not None


def test_a_method_may_be_in_a_file_without_a_package(package):
    (package[0] / "loose_file.py").write_text("class A: ...")
    assert modules_of({("loose_file", "A")}) == {"loose_file"}


def test_the_hash_of_a_composition_changes_with_its_parts():
    one, other = (
        registry.target("kernel_svc", {"part": f"sklearn.svm.{name}"}) for name in ("SVC", "SVR")
    )
    assert len({source_sha256(of) for of in (one, other, registry.target("kernel_svc"))}) == 3
