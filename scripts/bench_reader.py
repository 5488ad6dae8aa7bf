"""LIBSVM reader against scikit-learn's, from memory, one thread, in one process.

    python scripts/bench_reader.py [FILE ...]

By default it reads those of ijcnn1, covtype_93k and a9a that are in $KBENCH_DATA or datasets/.
Prints the best of seven times of each reader (float64, all checks of kbench on) and their ratio,
then the time to open a prepared data set.
"""

import functools
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from kbench.config import composer
from kbench.data import Folders, locate, open_prepared, prepare
from kbench.data.formats.libsvm import parse
from kbench.data.sources.content import read

SETS = ("ijcnn1", "covtype_93k", "a9a")
REPEATS = 7  # timed calls, of which the fastest counts


def best(call: Callable[[], object]) -> float:
    """Least wall seconds of REPEATS calls."""
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def compare(path: Path) -> None:
    """Print one line for one file; the two readers must agree."""
    content = bytes(read(path))
    ours = parse(content, name=str(path))  # compiles
    X, y = load_svmlight_file(io.BytesIO(content), dtype=np.float64)
    assert np.array_equal(X.indices, ours.indices)
    assert np.array_equal(y, ours.labels)
    np.testing.assert_allclose(X.data, ours.values, rtol=2e-15)
    t = best(lambda: parse(content, name=str(path)))
    t_peer = best(lambda: load_svmlight_file(io.BytesIO(content), dtype=np.float64))
    megabytes = len(content) / 1e6
    print(
        f"{path.name:32s} {megabytes:5.1f} MB   kbench {1e3 * t:6.1f} ms, {megabytes / t:4.0f} MB/s"
        f"   scikit-learn {1e3 * t_peer:6.1f} ms   {t_peer / t:5.1f}x"
    )


def main() -> None:
    """Compare on the named files, or on the default ones that exist."""
    files = [Path(name) for name in sys.argv[1:]]
    if files:
        for path in files:
            compare(path)
        return
    with composer() as compose, tempfile.TemporaryDirectory() as own:
        for name in SETS:
            config = compose.compose([f"dataset={name}"])["dataset"]
            found = locate(config, Folders.from_environment())
            if any(file.path is None for file in found):
                print(f"{name}: no file; looked for {found[0].candidates[0]} and in $KBENCH_DATA")
                continue
            assert found[0].path is not None
            compare(found[0].path)
            folders = Folders.from_environment()
            prepared = prepare(config, Folders(Path(own), (folders.own, *folders.read_only)))
            seconds = best(functools.partial(open_prepared, prepared))
            print(f"{name:32s} opened in {1e3 * seconds:.2f} ms")


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
