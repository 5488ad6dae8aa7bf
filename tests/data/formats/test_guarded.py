"""Arrays survive every format; a parser that dies or needs too much memory is one line of error."""

import gzip
import importlib.util
import io
import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from support import left_over, named, one_file, shipped

from kbench.data import open_prepared, prepare, remove_abandoned
from kbench.data.formats import read
from kbench.data.formats.guarded import answer
from kbench.data.formats.guarded import read as read_guarded
from kbench.data.sources.fetch import exclusive
from kbench.errors import DataError
from kbench.run.execution import preparing
from kbench.run.execution.preparing import prepare_in_child
from kbench.run.execution.sandbox import Sandbox


@pytest.fixture(autouse=True)
def parsers_run_here():
    """Not here: the children are what is tested."""


def forked(folder):
    """Run `answer(folder)` in a fork of this process, which needs no new imports."""
    child = os.fork()
    if child == 0:
        try:
            answer(Path(folder))
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(name, path, source=None, **options):
    folder = path.parent / f"scratch_{os.urandom(8).hex()}"
    source = {"format": name} | (source or {})
    return read_guarded(
        name, {"all": [path]}, source, "regression", None, folder, start=forked, **options
    )["all"]


VALUES = st.sampled_from([0.0, 0.0, 0.0, 1.0, -2.5, 1e-30, 3e38, 7.0])
FORMS = ("dense", "fortran", "csc", "csr", "coo")


@st.composite
def tables(draw):
    n, d = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rows = draw(st.lists(VALUES, min_size=n * d, max_size=n * d))
    dtype = draw(st.sampled_from([np.float64, np.float32, ">f8"]))
    return np.array(rows, dtype=np.float64).reshape(n, d).astype(dtype)


def in_form(X, form):
    if form in ("dense", "fortran"):
        return np.array(X, order="C" if form == "dense" else "F")
    return getattr(scipy.sparse, f"{form}_matrix")(X.astype(np.float64))


@settings(max_examples=25)
@given(tables(), st.sampled_from(FORMS), st.sampled_from(["mat", "npz", "npy"]), st.booleans())
def test_arrays_of_every_form_come_back_as_they_were_written(
    tmp_path_factory, X, form, name, column
):
    """n <= d matters: a transposed matrix would then have enough rows for the targets."""
    folder = tmp_path_factory.mktemp("arrays")
    y = np.arange(len(X), dtype=float)
    written = in_form(X, form)
    if name == "mat":
        path = folder / "toy.mat"
        scipy.io.savemat(path, {"X": written, "y": y[:, None] if column else y})
        found = in_child(name, path)
    elif name == "npz":
        path = folder / "toy.npz"
        dense = written if isinstance(written, np.ndarray) else written.toarray()
        np.savez(path, X=dense, y=y[:, None] if column else y)
        found = in_child(name, path)
    else:
        dense = written if isinstance(written, np.ndarray) else written.toarray()
        np.save(folder / "X.npy", dense)
        np.save(folder / "y.npy", y)
        paths = [folder / "X.npy", folder / "y.npy"]
        found = read(name, {"all": paths}, {"format": name}, "regression", None, folder)["all"]
    read_back = found.X if isinstance(found.X, np.ndarray) else found.X.toarray()
    np.testing.assert_array_equal(read_back, X)
    np.testing.assert_array_equal(found.y, y)


def test_indices_outside_a_sparse_matrix_are_refused(tmp_path):
    matrix = scipy.sparse.csc_matrix(np.eye(4))
    matrix.indices[2] = 1_000_000
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"X": matrix, "y": np.arange(4.0)})
    path = tmp_path / "toy.mat"
    path.write_bytes(stream.getvalue())
    with pytest.raises(DataError, match=r"toy\.mat: .*should be a MATLAB file .*indices within"):
        in_child("mat", path)


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL, 3])
def test_a_parser_that_dies_is_one_line_that_names_the_file(tmp_path, how):
    def dies(folder):
        return how if how == 3 else -how

    path = tmp_path / "toy.mat"
    path.write_bytes(b"anything")
    ending = "exit code 3" if how == 3 else how.name
    with pytest.raises(DataError, match=rf"toy\.mat: the reader of format mat died \({ending}\)"):
        read_guarded("mat", {"all": [path]}, {}, "binary", None, tmp_path / "scratch", start=dies)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="limits memory on Linux only")
def test_a_file_that_unpacks_to_more_than_the_memory_allowed(folders):
    """400 MB of zeros, 0.4 MB compressed, refused by a fresh process under 100 MiB."""
    name = "toy.mat"
    with gzip.open(folders.read_only[0] / name, "wb") as out:
        for _ in range(400):
            out.write(bytes(1_000_000))
    config = named(task="regression", split={"kind": "first", "n_train": 1})
    file = {"names": [name], "url": None}
    config["source"] = {"kind": "files", "format": "mat", "files": {"all": file}}
    with pytest.raises(DataError, match=r"toy\.mat.*: needs more memory than is allowed") as error:
        prepare(config, folders, memory_mb=100)
    assert "\n" not in str(error.value)
    assert left_over(folders.own) == []


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="limits memory on Linux only")
def test_a_parquet_file_larger_than_the_memory_allowed_is_prepared(folders):
    """One row group of 122 MiB, read by a fresh process that may allocate 115 MiB.

    The process needs about 60 MiB for pyarrow, and the rest for pages and targets.
    """
    n, d = 500_000, 64
    X = np.random.default_rng(0).random((d, n), dtype=np.float32)
    table = pa.table([*X, X[0] > 0.5], names=[*map(str, range(d)), "y"])
    path = folders.read_only[0] / "toy"
    plain = {"compression": "none", "use_dictionary": False, "data_page_size": 1 << 16}
    pa.parquet.write_table(table, path, row_group_size=n, **plain)
    assert path.stat().st_size > 115 << 20
    split = {"kind": "first", "n_train": n - 1000, "test_fraction": None}
    config = one_file(source={"format": "parquet"}, split=split)
    data = open_prepared(prepare(config, folders, memory_mb=115))
    assert np.array_equal(data.X_train, X[:, :-1000].T)
    assert np.array_equal(data.X_test, X[:, -1000:].T)
    assert np.array_equal(data.y_train, np.where(X[0, :-1000] > 0.5, 1, -1))


def _fuzz_formats():
    script = Path(__file__).resolve().parents[3] / "scripts" / "fuzz_formats.py"
    spec = importlib.util.spec_from_file_location("fuzz_formats", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZ = _fuzz_formats()


@pytest.mark.parametrize("name", FUZZ.VALID)
def test_damaged_files_are_read_or_refused_in_one_line(name):
    n_files = 100 if name == "csv" else 10  # the others are read in a process each
    counts = FUZZ.run(name, n_files, seed=7)
    assert counts["foreign"] == 0
    assert counts.total() == n_files


# Characters that Python's texts take for white space, but its bytes do not.
_WHITE_SPACE = [c for c in map(chr, range(0x3001)) if c.isspace() and c.encode().strip()]
_TEXTS = {name for name, files in FUZZ.VALID.items() if all(f.isascii() for f in files)} - {"idx"}


@pytest.mark.parametrize("name", sorted(_TEXTS))
def test_lines_of_any_white_space_are_read_or_refused_in_one_line(name, tmp_path):
    """In a file of two columns, and where white space separates fields, too."""
    # A process reads each file of molecules, so that these are few.
    places, n_kinds = ((1,), 1) if name == "xyz" else ((0, 1, -1), 3)
    for number, content in enumerate(FUZZ.VALID[name]):
        rows = [line.split(b",") for line in content.split(b"\n")]
        kinds = [
            [b",".join(r) for r in rows],
            [b" ".join(r) for r in rows],
            [b" ".join(r[:2]) for r in rows],
        ]
        for kind, lines in enumerate(kinds[:n_kinds]):
            for place, c in itertools.product(places, _WHITE_SPACE):
                folder = tmp_path / f"{number}-{kind}-{place}-{ord(c)}"
                folder.mkdir()
                found = b"\n".join([*lines[:place], c.encode(), *lines[place:]])
                assert FUZZ.outcome(name, found, folder) in ("read", "refused")


def _is_killed_while_it_prepares(order, send):
    """A preparation that the kernel ends, for example because the memory is exhausted."""
    config, folders = order.args
    home = folders.prepared / config["name"]
    (home / f".key.{os.getpid()}" / "scratch").mkdir(parents=True)
    send({"event": "start"})
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_preparation_leaves_no_folder(folders, monkeypatch):
    monkeypatch.setattr(preparing, "_prepare", _is_killed_while_it_prepares)
    with pytest.raises(DataError, match=r"data set covtype_like could not be prepared: .*kill"):
        prepare_in_child(shipped("covtype_like"), folders, None, Sandbox(), download=False)
    assert left_over(folders.own) == []


def test_the_folder_of_a_preparation_at_work_is_not_removed(folders):
    home = folders.prepared / "covtype_like"
    (home / ".key.1").mkdir(parents=True)
    with exclusive(home):
        remove_abandoned(shipped("covtype_like"), folders)
        assert (home / ".key.1").is_dir()
    remove_abandoned(shipped("covtype_like"), folders)
    assert left_over(folders.own) == []
