"""What people use at millions of rows, beside DC-SVM with early prediction, on the same rows.

    python scripts/compare_chunks.py FOLDER [1000000 10000000] [MACHINE ...]

The rows are covtype_like's: 54 columns, 5 % of the labels flipped. They are generated once into
FOLDER, 2.2 GB for ten million, and every machine reads them in blocks by memory map. Each machine
is fitted in a process of its own with one thread, and predicts 200,000 other rows. The figures are
added to FOLDER/compared.json, and the same command goes on with the machines that are not in it;
MACHINE names some of them. At the end a table is printed.

CPU seconds are those of the fit; a fit of 8,000 rows has compiled and imported everything before.
Memory is the largest anonymous memory of the process (RssAnon, looked at every 20 ms), with the
packages that it imported; pages of mapped files, which the system can reclaim, are not in it.
The machine `incremental` needs dask-ml. C = 8 and gamma = 4 of DC-SVM were chosen by hand for these
data; width, loss and alpha of 1,000 random features on 100,000 training rows that were held out.
"""

import importlib.util
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

D, N_TEST = 54, 200_000
BLOCK = 10_000  # rows of a step of SGDClassifier
PREDICTED = 50_000  # rows that are predicted at a time
WIDTH, LOSS, ALPHA = 4.0, "log_loss", 1e-5  # of random features, see above
SUBSAMPLE = 1_000_000  # rows of gradient boosting
CLUSTER = 4000  # rows of a cluster of DC-SVM
MEMORY_MB = 1125.0  # for rows and machines of DC-SVM: three quarters of 1,500 MB
WARM = 8000  # rows of the fit before the clock begins

Predict = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Predict]


def random_features(n_components: int) -> Fit:
    """RBFSampler and one pass of SGDClassifier.partial_fit."""

    def fit(X: np.ndarray, y: np.ndarray) -> Predict:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDClassifier

        sampler = RBFSampler(gamma=WIDTH, n_components=n_components, random_state=0).fit(X[:1])
        linear = SGDClassifier(loss=LOSS, alpha=ALPHA, random_state=0)
        for start in range(0, len(y), BLOCK):
            rows = slice(start, start + BLOCK)
            linear.partial_fit(sampler.transform(X[rows]), y[rows], classes=[-1.0, 1.0])
        return lambda new: linear.predict(sampler.transform(new))

    return fit


def incremental(X: np.ndarray, y: np.ndarray) -> Predict:
    """Incremental of dask-ml around SGDClassifier, on 300 random features of a Dask array."""
    import dask
    import dask.array as da
    from dask_ml.wrappers import Incremental
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    sampler = RBFSampler(gamma=WIDTH, n_components=300, random_state=0).fit(X[:1])
    rows, labels = da.from_array(X, (BLOCK, D)), da.from_array(y, BLOCK)
    features = rows.map_blocks(sampler.transform, dtype=np.float32, chunks=(BLOCK, 300))
    linear = SGDClassifier(loss=LOSS, alpha=ALPHA, random_state=0)
    with dask.config.set(scheduler="synchronous"):
        model = Incremental(linear, shuffle_blocks=False).fit(features, labels, classes=[-1.0, 1.0])
    return lambda new: model.estimator_.predict(sampler.transform(new))


def boosting(X: np.ndarray, y: np.ndarray) -> Predict:
    """HistGradientBoostingClassifier on the first rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(random_state=0).fit(X[:SUBSAMPLE], y[:SUBSAMPLE])
    return model.predict


def early(X: np.ndarray, y: np.ndarray) -> Predict:
    """DC-SVM with early prediction, in chunks."""
    from kbench.data import ChunkedRows
    from kbench.methods import DCSVC

    # Beside the rows, as the command line has it.
    scratch = Path(X.filename).parent / "scratch" if isinstance(X, np.memmap) else None
    rows = ChunkedRows.of_arrays(X, y, memory_mb=MEMORY_MB, scratch=scratch)
    n_clusters = max(1, len(y) // CLUSTER)
    return DCSVC(n_clusters, C=8, gamma=4, n_levels=1, random_state=0).fit(rows).predict


MACHINES: dict[str, tuple[str, Fit]] = {
    "rbf_300": ("`RBFSampler(300)`, `SGDClassifier.partial_fit`, one pass", random_features(300)),
    "rbf_1000": (
        "`RBFSampler(1000)`, `SGDClassifier.partial_fit`, one pass",
        random_features(1000),
    ),
    "incremental": ("dask-ml's `Incremental(SGDClassifier)` on `RBFSampler(300)`", incremental),
    "boosting": (
        f"`HistGradientBoostingClassifier`, first {SUBSAMPLE:,} rows at most",
        boosting,
    ),
    "early": ("`DCSVC`, early prediction, 4,000 rows a cluster", early),
}


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


class PeakMemory:
    """The largest anonymous memory of the process during a `with` block, in bytes."""

    def __enter__(self) -> "PeakMemory":
        self.bytes, self._ended = anonymous_bytes(), threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.bytes = max(self.bytes, anonymous_bytes())

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def measure(folder: Path, name: str, n: int, send: Callable[[dict[str, float]], None]) -> None:
    """Fit one machine to the first n rows and send its figures."""
    _, fit = MACHINES[name]
    X, y, new, labels = (
        np.load(folder / f"{part}.npy", mmap_mode="r") for part in ("X", "y", "X_test", "y_test")
    )
    X, y = X[:n], y[:n]
    fit(X[:WARM], y[:WARM])(new[:WARM])
    with PeakMemory() as peak:
        wall, begin = time.perf_counter(), time.process_time()
        predict = fit(X, y)
        cpu, wall = time.process_time() - begin, time.perf_counter() - wall
    begin, right = time.process_time(), 0
    for start in range(0, len(labels), PREDICTED):
        rows = slice(start, start + PREDICTED)
        right += int((predict(np.asarray(new[rows])) == labels[rows]).sum())
    rate = len(labels) / (time.process_time() - begin)
    accuracy = right / len(labels)
    send({"cpu_s": cpu, "wall_s": wall, "bytes": peak.bytes, "accuracy": accuracy, "rate": rate})


def generate(folder: Path, n: int) -> None:
    """Write the first n rows, and the test rows, unless they are in the folder."""
    from kbench.data import chunked_generator

    for part, size in (("", n), ("_test", N_TEST)):
        X_file, y_file = folder / f"X{part}.npy", folder / f"y{part}.npy"
        if y_file.exists() and len(np.load(y_file, mmap_mode="r")) >= size:
            continue
        X = np.lib.format.open_memmap(X_file, "w+", np.float32, (size, D))
        y, start = np.empty(size, np.float64), 0
        rows = chunked_generator("covtype_like", size, d=D, part="test" if part else "train")
        for block in rows.blocks(65536):
            X[start : start + len(block.X)] = block.X
            y[start : start + len(block.X)] = block.y
            start += len(block.X)
        X.flush()
        np.save(y_file, y)  # last: rows whose labels are there are complete


def table(found: dict[str, dict[str, float]]) -> str:
    lines = ["| rows | machine | fit, CPU s | memory, MiB | accuracy | rows predicted a CPU s |"]
    lines += ["|---|---|---|---|---|---|"]
    for n in sorted({int(key.split()[0]) for key in found}):
        for name, (what, _) in MACHINES.items():
            if figures := found.get(f"{n} {name}"):
                lines.append(
                    f"| {n:,} | {what} | {figures['cpu_s']:.1f} | {figures['bytes'] / 2**20:.0f} | "
                    f"{100 * figures['accuracy']:.2f} % | {figures['rate']:,.0f} |"
                )
    return "\n".join(lines)


def main() -> None:
    """Measure what is not measured yet, and print the table."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for threads in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{threads}_NUM_THREADS", "1")
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    sizes = [int(float(word)) for word in words if word not in MACHINES] or [10**6, 10**7]
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "compared.json"
    found: dict[str, dict[str, float]] = json.loads(results.read_text()) if results.exists() else {}
    context = multiprocessing.get_context("spawn")
    generate(folder, max(sizes))
    for n in sizes:
        for name in [word for word in words if word in MACHINES] or list(MACHINES):
            if f"{n} {name}" in found:
                continue
            if name == "incremental" and importlib.util.find_spec("dask_ml") is None:
                print("incremental: dask-ml is not installed")
                continue
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=measure, args=(folder, name, n, send.send))
            process.start()
            send.close()
            try:
                found[f"{n} {name}"] = receive.recv()
            except EOFError:
                print(f"{name} on {n:,} rows: no figures, see above")
            process.join()
            results.write_text(json.dumps(found, indent=1))
    print(table(found))


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    main()
