"""Damage valid files of every format at random; each is read, or refused by one line of text.

    python scripts/fuzz_formats.py [files per format, default 1000] [seed, default 0] [FORMAT ...]

Each file is read as a preparation reads it, by `kbench.data.formats.guarded` where the format asks
for it, except that the child process is a fork of this one, which starts faster. Prints for each
format how many files were read, were refused, or ended their reader (a crash, which the guard turns
into an error). Any other exception, a message of several lines or without the file's name, or an
array that is not finite is printed and ends the script with exit code 1.
"""

import bz2
import faulthandler
import gzip
import io
import lzma
import os
import random
import resource
import signal
import sys
import tarfile
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.io
import scipy.sparse
from pyarrow import parquet

from kbench.data import formats
from kbench.data.formats import (
    guarded,
    molecules,  # noqa: F401  (imported before the forks)
)
from kbench.data.sources.content import read as read_bytes
from kbench.errors import ConfigError, DataError

MEMORY_MB = 512
SECONDS = 60  # of processor time a file; more is taken for an endless loop
_RNG = np.random.default_rng(0)
_X = np.round(_RNG.normal(size=(5, 3)), 3)
_Y = np.arange(5.0)


def _written(save: Callable[[io.BytesIO], object]) -> bytes:
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def _tar(members: dict[str, bytes]) -> bytes:
    def save(stream: io.BytesIO) -> None:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))

    return _written(save)


def _zip(content: bytes) -> bytes:
    def save(stream: io.BytesIO) -> None:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("toy", content)

    return _written(save)


def _idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def _table(stream: io.BytesIO) -> None:
    columns = {"x": _X[:, 0], "k": ["u", "v", "u", "w", "u"], "y": _Y}
    parquet.write_table(pa.table(columns), stream)


_SPARSE = scipy.sparse.csc_matrix(np.where(_X > 0, _X, 0.0))
_CSV = b"a,k,y\n1.5,u,1\n-2,v,0\n1e3,u,1\n"
_ARFF = b"""@relation t
@attribute x real
@attribute k {u, 'v w'}
@attribute y {a,b}
@data
1,u,a
2,'v w',b
"""
_SPARSE_ARFF = _ARFF[: _ARFF.index(b"1,u")] + b"{0 1, 2 b}\n{1 'v w'}\n"
_SHEET = b"a;k;y;;\r\n1,5;u;1;;\r\n-2;v;0;;\r\n1.000,25;u;1;;\r\n;;;;\r\n"
_MOLECULES = {
    "hof.txt": b"a.xyz -1.5\nb.xyz -2.5\n",
    "a.xyz": b"2\nc\nH 0 0 0\nC 0 0 1.1\n",
    "b.xyz": b"1\nc\nO 0 0 0\n",
}

VALID: dict[str, list[bytes]] = {
    "npy": [
        _written(lambda s: np.save(s, _X)),
        _written(lambda s: np.save(s, np.asfortranarray(_X))),
    ],
    "npz": [
        _written(lambda s: np.savez(s, X=_X, y=_Y)),
        _written(lambda s: np.savez_compressed(s, X=_X.astype(np.float32), y=_Y)),
    ],
    "mat": [
        _written(lambda s: scipy.io.savemat(s, {"X": _X, "y": _Y})),
        _written(lambda s: scipy.io.savemat(s, {"X": _SPARSE, "y": _Y})),
        _written(lambda s: scipy.io.savemat(s, {"X": _SPARSE, "y": _Y}, do_compression=True)),
        _written(lambda s: scipy.io.savemat(s, {"X": _X, "y": _Y}, format="4")),
    ],
    "idx": [_idx(np.arange(30).reshape(5, 3, 2)), _idx(np.arange(10).reshape(5, 2))],
    "arff": [_ARFF, _SPARSE_ARFF],
    "parquet": [_written(_table)],
    "xyz": [_tar(_MOLECULES)],
    "csv": [_CSV, b"1 2 3\n4 2 6\n7 8 9\n", _CSV.replace(b",", b"\t"), _SHEET],
    "zip": [_zip(_CSV)],
    "gz": [gzip.compress(_CSV)],
    "bz2": [bz2.compress(_CSV)],
    "xz": [lzma.compress(_CSV)],
}
"""Small valid files by format; an archive or compressed file holds CSV text."""

OTHERS: dict[str, bytes] = {
    "npy": _written(lambda s: np.save(s, _Y)),
    "idx": _idx(np.arange(5)),
}
"""The undamaged file of the targets, for formats of two files."""

TOKENS = (b"nan", b"1e999", b"1_0", b"\xff\xfe", b"\x00", b"-1", b"99999999999", b",", b"\n", b"'",
          b'"', b"{", b"(", b"\x7f\xff\xff\xff", b"\xff" * 8, b"True", b"'O'", b"%")  # fmt: skip


def damage(rng: random.Random, content: bytes) -> bytes:
    """`content` after one to four random edits, or cut off."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(7):
            case 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                found[at:at] = bytes([rng.randrange(256)])
            case 2:
                del found[at : at + rng.randint(1, 8)]
            case 3:
                token = rng.choice(TOKENS)
                found[at : at + rng.choice((0, len(token)))] = token
            case 4:
                stop = min(len(found), at + rng.randint(1, 64))
                found[at:at] = found[at:stop]
            case 5:
                if at < len(found):
                    found[at] ^= 1 << rng.randrange(8)
            case 6:
                del found[at:]
    return bytes(found)


def forked(folder: Path) -> int:
    """Run `guarded.answer(folder)` in a fork of this process; its exit code."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # a crash is counted, its traceback would only fill the screen
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            guarded.answer(folder)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(name: str, content: bytes, folder: Path) -> str:
    """Whether a file is read, refused or has crashed its reader; AssertionError otherwise."""
    path = folder / ("toy.npz" if name == "npz" else "toy")  # another zip archive is unpacked
    path.write_bytes(content)
    if name in OTHERS:
        (folder / "y").write_bytes(OTHERS[name])
    paths = [path, folder / "y"] if name in OTHERS else [path]
    form = name if name in formats.FORMATS else "csv"
    source = {"format": form, "columns": {"categorical": [2]} if form == "csv" else {}}
    request = (form, {"all": paths}, source, "multiclass", None)
    try:
        scratch = folder / "scratch"
        if formats.FORMATS[form].guarded:
            found = guarded.read(*request, scratch, memory_mb=MEMORY_MB, start=forked)
        else:
            found = formats.read(*request, scratch)
        read_bytes(path)
    except (DataError, ConfigError) as error:
        message = str(error)
        assert message.isprintable(), f"message {message!r}"
        assert str(path) in message or str(folder / "y") in message, f"message {message!r}"
        return "crashed" if " died (" in message else "refused"
    for part in found.values():
        values = part.X if isinstance(part.X, np.ndarray) else part.X.data
        assert np.isfinite(values.astype(np.float32)).all(), "a value that is not finite"
        assert not np.isinf(part.y).any(), "a target that is infinite"
        assert part.X.shape[0] == part.y.size
    return "read"


def run(name: str, n: int, seed: int) -> Counter[str]:
    """Read n damaged files of one format; the number of each outcome."""
    rng = random.Random(f"{name} {seed}")
    counts: Counter[str] = Counter()
    for content in VALID[name]:
        with tempfile.TemporaryDirectory() as folder:
            assert outcome(name, content, Path(folder)) == "read", f"{name}: no valid file"
    for k in range(n):
        content = damage(rng, rng.choice(VALID[name]))
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts[outcome(name, content, Path(folder))] += 1
            except Exception as error:
                kind = type(error).__name__
                print(f"{name}, file {k} of seed {seed}: {kind}: {error}\n  {content[:2000]!r}")
                counts["foreign"] += 1
    return counts


def main() -> int:
    """Fuzz the formats that are named, or all; 1 if any outcome is foreign."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    wrong = 0
    for name in sys.argv[3:] or VALID:
        begin = time.perf_counter()
        counts = run(name, n, seed)
        wrong += counts["foreign"]
        shown = ", ".join(f"{counts[k]} {k}" for k in ("read", "refused", "crashed", "foreign"))
        print(f"{name:8s} {n} files: {shown}; {time.perf_counter() - begin:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    sys.exit(main())
