"""Fixtures that several folders of tests share."""

import functools
import gc
import os
import shutil
import tomllib
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest

# Threads of BLAS spin while they wait: problems of a hundred rows took three times the CPU seconds.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from kbench.data.formats import guarded  # noqa: E402

# What lands a change must not depend on luck: new examples are for the developer's machine, and no
# test depends on seconds.
hypothesis.settings.register_profile("default", derandomize="CI" in os.environ, deadline=None)
hypothesis.settings.load_profile("default")

PLUGIN = Path(__file__).parent / "example_plugin"
# A lone text in place of a list would match by its letters.
SOAK = tomllib.loads((Path(__file__).parent / "tiers.toml").read_text()).get("soak", [])
assert all(isinstance(entry["tests"], list) for entry in SOAK)


# Collected tests live to the end: looking for garbage among them took a third of the collection.
gc.disable()


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


@functools.cache
def entries(path):
    """The entries of `tiers.toml` that may name cases of the function at `path`."""
    return [e for e in SOAK if any(path.startswith(n.partition("[")[0]) for n in e["tests"])]


def pytest_collection_modifyitems(items):
    """Mark the tests of the second tier, with their reason, as `tiers.toml` lists them."""
    for item in items:
        if item.get_closest_marker("xfail"):
            # Nobody sees the traceback, and its source takes 0.1 s to find.
            item.repr_failure = str
        name = item.nodeid.removeprefix("tests/")
        path, _, case = name.removesuffix("]").partition("[")
        function = path.rpartition("::")[2]
        for entry in entries(path):
            kept = bool({function, case} & {*entry.get("keep", ())})
            if "of" in entry:
                kept |= not any(f"-{one}-" in f"-{case}-" for one in entry["of"])
            if name.startswith(tuple(entry["tests"])) and not kept:
                item.add_marker(pytest.mark.soak(reason=entry["reason"]))
                break
    # Those that may take minutes begin first, so that no process waits for them at the end.
    items.sort(key=lambda item: -max((m.args[0] for m in item.iter_markers("timeout")), default=0))


@pytest.fixture(autouse=True, scope="session")
def rows_of_the_test_alone():
    """A folder of a test has no reference rows but those that the test writes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kbench.run.results.folder._REFERENCE_FOLDERS", ())
        yield


@pytest.fixture(autouse=True)
def parsers_run_here(monkeypatch):
    """Guarded parsers run in this process, without their limit of memory, which would stay.

    A process for each file costs most of a second. Tests of the guard itself override this.
    """

    def start(folder):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(guarded, "limit_memory", lambda _: None)
            guarded.answer(folder)
        return 0

    monkeypatch.setattr(guarded, "_start", start)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium with an empty page."""
    from chromium import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def peak_bytes():
    """A function measure(call): the peak of the memory that `call` allocates, in bytes.

    `call` is made twice and the second time is measured: the first may compile, which allocates
    megabytes where numba's cache is empty.
    """

    def measure(call):
        call()
        tracemalloc.start()
        try:
            call()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


@pytest.fixture
def largest_file():
    """A context manager of a number of bytes: no file can grow beyond it, as on a full disk.

    The system's error is then EFBIG, not ENOSPC. Python ignores the signal that comes with it.
    """
    import resource  # not on Windows

    @contextmanager
    def limited(nbytes):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory, without data of the user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KBENCH_DATA", raising=False)
    return tmp_path


@pytest.fixture
def config_file(tmp_path):
    """A function write(name, text): a file of the user's in configs/ of the test's folder."""

    def write(name, text):
        path = tmp_path / "configs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def installed_plugin(tmp_path_factory):
    """The example plug-in as an installer would leave it: its package and its entry points."""
    site = tmp_path_factory.mktemp("site-packages")
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    shutil.copytree(PLUGIN / "kbench_parzen", site / "kbench_parzen")
    info = site / f"kbench_parzen-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return site
