"""Files larger than memory: pieces of any size give the same rows, errors and prepared arrays."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random_array, vstack
from support import libsvm_text, merge, one_file

from kbench.data import Folders, open_prepared, prepare
from kbench.data.formats import libsvm
from kbench.data.sources.content import text_pieces
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.data.sources.rows import CsrArrays, SparseRows
from kbench.errors import DataError

TEXT = (
    b"\xef\xbb\xbf# made by hand\n+1 1:0.5 3:-2 7:0\n\n-1 qid:4 2:1 # note\r\n"
    b"2.5\n0.1 1:1e-3 12:0.30000000000000004\n-1 12:7"
)


@given(text=st.text("ab \r\n", max_size=60), size=st.integers(1, 70))
def test_pieces_are_the_text_in_whole_lines(tmp_path_factory, chunk, text, size):
    path = tmp_path_factory.mktemp("text") / "f"
    path.write_bytes(text.encode())
    chunk(size)
    found = list(text_pieces(path))
    assert b"".join(piece for _, piece, _ in found) == text.encode()
    assert [last for _, _, last in found] == [False] * (len(found) - 1) + [True] * bool(found)
    line = 1
    for number, piece, last in found:
        assert number == line
        assert last or piece.endswith(b"\n")
        line += piece.count(b"\n")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 19, 64, 1 << 20])
@pytest.mark.parametrize("n_features", [None, 20])
def test_pieces_of_libsvm_text_are_its_rows(tmp_path, chunk, size, n_features):
    (tmp_path / "f").write_bytes(TEXT)
    chunk(size)
    whole = libsvm.parse(TEXT, name="f", n_features=n_features)
    found = list(libsvm.pieces(tmp_path / "f", n_features=n_features))
    stacked = vstack([rows.to_csr() for rows in found if rows.n_features == whole.n_features])
    assert found[-1].n_features == whole.n_features
    np.testing.assert_array_equal(np.concatenate([r.labels for r in found]), whole.labels)
    np.testing.assert_array_equal(np.concatenate([r.values for r in found]), whole.values)
    np.testing.assert_array_equal(np.concatenate([r.indices for r in found]), whole.indices)
    assert (stacked != whole.to_csr()[-stacked.shape[0] :]).nnz == 0


BAD = [
    b"1 1:2\n1 2:1\n1 3:nan\n1 1:1\n",
    b"1 1:2\n\n# x\n1 3:1\n1 3:1 2:2\n-1 1:1\n",
    b"1 1:2\n1 3:1 4:",
    b"1 1:2\n1 21:1\n",
    b"1 1:2\n<1 21:1\n",
    b"1 1:2\n1 2:\xff\n1 1:1\n",
    b"1 1:2\n1\r2 3:1\n",
    b"1 1:2\n-1 1:2\n\xef\xbb\xbf1 1:2\n",
    b"",
    b"\n\n# nothing\n",
]


@pytest.mark.parametrize("content", BAD)
def test_an_error_is_the_same_for_pieces_of_any_size(tmp_path, chunk, content):
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(DataError) as expected:
        libsvm.parse(content, name=str(path), n_features=20)
    for size in (1, 2, 5, 11, 1000):
        chunk(size)
        with pytest.raises(DataError) as found:
            list(libsvm.pieces(path, n_features=20))
        assert str(found.value) == str(expected.value)


@given(data=st.data())
@settings(max_examples=25)
def test_prepared_arrays_do_not_know_the_size_of_pieces_and_blocks(tmp_path_factory, chunk, data):
    """Whatever is read at once and held at once: the same bytes, and those of NumPy."""
    seed = data.draw(st.integers(0, 999))
    rng = np.random.default_rng(seed)
    n, d = data.draw(st.integers(8, 60)), data.draw(st.integers(1, 9))
    X = np.where(rng.random((n, d)) < 0.5, rng.normal(size=(n, d)).round(3), 0.0)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:4] = [1, -1, 1, -1]
    raw = tmp_path_factory.mktemp("raw")
    (raw / "toy").write_text(libsvm_text(X, y))
    scale = data.draw(st.sampled_from(["none", "unit", "symmetric", "standard", "unit_global"]))
    sparse = scale == "none" and data.draw(st.booleans())
    over = {"scale": scale, "scale_over": data.draw(st.sampled_from(["train", "all"]))}
    over |= {"storage": "csr" if sparse else "dense", "n_features": d}
    over["split"] = {"seed": data.draw(st.integers(0, 9))}
    folders = []
    for size, block in ((1 << 20, 32 << 20), (data.draw(st.integers(1, 200)), 8 * d)):
        chunk(size)
        with changed_piece_sizes(block=block):
            own = Folders(tmp_path_factory.mktemp("own"), (raw,))
            folders.append(prepare(merge(one_file(), over), own, download=False))
    arrays = sorted(path.name for path in folders[0].iterdir())
    assert arrays == sorted(path.name for path in folders[1].iterdir())
    ulps = 4 if scale == "standard" else 0  # sums of other blocks are rounded otherwise
    for name in arrays:
        if name.endswith(".npy"):
            first, second = (np.load(folder / name) for folder in folders)
            assert first.dtype == second.dtype
            if ulps:
                np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)
            else:
                assert first.tobytes() == second.tobytes()
    found = open_prepared(folders[1])
    order = np.random.RandomState(over["split"]["seed"]).permutation(n)
    cut = round(0.75 * n)
    np.testing.assert_array_equal(found.y_train, y[order[:cut]])
    if scale == "none":
        X_test = found.X_test.toarray() if sparse else found.X_test
        np.testing.assert_array_equal(X_test, X[order[cut:]].astype(np.float32))


@given(
    st.lists(st.integers(0, 29), min_size=1, max_size=40),
    st.integers(1, 400),
    st.sampled_from([np.int32, np.int64]),
)
def test_selected_rows_are_those_of_scipy(order, block, index):
    rng = np.random.default_rng(0)
    csr = random_array((30, 7), density=0.3, format="csr", rng=rng).astype(np.float32)
    arrays = CsrArrays(csr.data, csr.indices, csr.indptr.astype(index), 7)
    rows = SparseRows(arrays, np.arange(30.0)).take(np.array(order))
    expected = csr[order]
    with changed_piece_sizes(block=block):
        np.testing.assert_array_equal(np.vstack(list(rows.blocks())), expected.toarray())
        assert (vstack(list(rows.csr_blocks())) != expected).nnz == 0
    np.testing.assert_array_equal(rows.y, order)
    assert rows.nnz == expected.nnz


MEMORY = """
import resource, sys
from pathlib import Path
from support import one_file
from kbench.data import Folders, prepare
from kbench.data.formats import libsvm
from kbench.data.sources.piece_sizes import changed_piece_sizes
raw, own, mebibytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
libsvm.parse(b"1 1:2", name="f")  # compiled, or loaded, before the limit counts
toy = one_file(scale="unit", storage="dense", n_features=30)
small = one_file(scale="unit", storage="dense", n_features=30)
small["source"]["files"]["all"]["names"] = ["small"]
prepare(small, Folders(own, (raw,)), download=False)
held = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1])
limit = (held << 10) + (mebibytes << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
with changed_piece_sizes(block=1 << 20):
    prepare(toy, Folders(own, (raw,)), download=False)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA as Linux counts it")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """45 MB of text, 43 MB of values and as much on the way, with 25 MB of one's own."""
    row = " ".join(f"{j + 1}:{j + 0.25}" for j in range(30))
    block = "".join(f"{1 if k % 3 else -1} {row}\n" for k in range(1000))
    (tmp_path / "small").write_text(block)
    with open(tmp_path / "toy", "w") as out:
        for _ in range(180):
            out.write(block)
    assert (tmp_path / "toy").stat().st_size > 45e6
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), str(tmp_path / "own"), "24"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr[-2000:]
