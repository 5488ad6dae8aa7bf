"""Mutated model files: loading and predicting must refuse them or compute, and never crash.

    python scripts/fuzz_models.py [--mutations N] [--seed S] [--bounds] [METHOD ...]

Every method of configs/method whose models can be stored is fitted on small data, once for each of
its tasks, and stored. Each mutation changes the file as a hostile author would: entries, shapes and
dtypes of arrays, numbers, texts, classes and references of the manifest; then all checksums are
repaired. A guarded child process loads the file and predicts rows as wide as the loaded model asks
for, one mutation in four also rows of another width. The function and the kind of rows (dense
float32, dense float64, CSR) are drawn from the mutation's number. Memory and CPU time of the child
are limited. The mutations of a method are divided among its tasks.

Printed for each method: files refused by `load_model` (`ModelError`), models that raised an
exception on prediction, models that predicted, and failures, which must be zero. A failure is

    crash      the child died of a signal
    foreign    `load_model` raised something other than a one-line `ModelError`
    bounds     (with --bounds) compiled code indexed an array out of bounds

"slow" counts files that took more than 20 seconds, for example because they ask for a million
votes; it is shown, but is not a failure, because a user can stop a prediction.

--bounds compiles everything again with numba's bounds checks, into a temporary cache, and finds
accesses that happened not to crash. The exit code is 1 after a failure. Mutations are numbered from
the seed, so that `--seed S --only K METHOD` repeats the K-th one in this process with its
traceback.
"""

import argparse
import copy
import hashlib
import io
import json
import math
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMORY = 3 << 30  # bytes of address space that a child may add to what it has
SECONDS = 20  # for one file

# Extreme and neighbouring integers; floats that are special, or large once they are cast.
INTEGERS = (-(1 << 62), -(1 << 31), -1000, -2, -1, 0, 1, 2, 3, 7, 16, 17, 1000, 1 << 20, 1 << 31,
            1 << 40, 1 << 62)  # fmt: skip
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, 1e39, -1e39, 0.5, 1e5)
DTYPES = ("<f4", "<f8", "<i8", "<i4", "<u4", "<u8", "|b1", "|u1", "<c16", "<f2", ">i8", "<U1")


def stored_methods(chosen: list[str]) -> Iterator[tuple[str, bytes, float]]:
    """(method and task, content of its model file, share) of the methods that can be stored.

    The share is the part of a method's mutations that this model gets.
    """
    import yaml
    from sklearn.exceptions import ConvergenceWarning

    from kbench.errors import UnavailableError
    from kbench.prediction import ModelError, save_model
    from kbench.run.planning import registry

    warnings.simplefilter("ignore", ConvergenceWarning)
    folder = Path(__file__).parents[1] / "configs" / "method"
    for path in sorted(folder.glob("*.yaml")):
        if chosen and path.stem not in chosen:
            continue
        config = yaml.safe_load(path.read_text())
        meta = config["meta"]
        if meta.get("extra") or meta["role"] == "diagnostic":
            continue
        for task in meta["tasks"]:
            estimator = config["estimator"]
            estimator = estimator[task] if isinstance(estimator, dict) else estimator
            if estimator.startswith("sklearn."):
                continue  # stored by skops, whose bytes have their own checks
            params = {
                key: value
                for key, value in config.items()
                if key not in registry.RESERVED and not str(value).startswith("${")
            }
            params |= meta.get("warmup") or {}
            X, y = training_rows(task, 16 if config.get("kernel") == "convolution" else 6)
            target = registry.target(estimator, config.get("parts"))
            try:
                model = registry.build(target, params, 0).fit(X, y)
            except UnavailableError as error:  # a package that is not installed
                print(f"{path.stem}: {error}")
                continue
            with tempfile.TemporaryDirectory() as temporary:
                try:
                    content = save_model(Path(temporary) / "model.npz", model).read_bytes()
                except ModelError as error:
                    print(f"{path.stem}: cannot be stored: {error}")
                    continue
            yield f"{path.stem}-{task}", content, 1 / len(meta["tasks"])


def training_rows(task: str, d: int) -> tuple[Any, Any]:
    import numpy as np
    from sklearn.datasets import make_classification, make_regression

    if task == "regression":
        X, y = make_regression(100, d, noise=1.0, random_state=0)
        return X.astype(np.float32), y
    X, y = make_classification(
        100, d, n_informative=4, n_classes=2 if task == "binary" else 3, random_state=0
    )
    return X.astype(np.float32), y


class Mutator:
    """Mutations of one model file, each a function of (seed, number)."""

    def __init__(self, content: bytes) -> None:
        import numpy as np

        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            self.manifest = json.loads(archive.read("manifest.json"))
            self.arrays = {
                name: np.load(io.BytesIO(archive.read(f"{name}.npy")))
                for name in self.manifest["arrays"]
            }
        self._written = {id(array): _block(array) for array in self.arrays.values()}

    def mutated(self, seed: int, number: int) -> bytes:
        """The file after one to three changes, with right checksums."""
        import numpy as np

        rng = np.random.default_rng([seed, number])
        tree, arrays = copy.deepcopy(self.manifest["estimator"]), dict(self.arrays)
        for _ in range(int(rng.integers(1, 4))):
            if arrays and rng.random() < 0.6:
                name = str(rng.choice(sorted(arrays)))
                arrays[name] = self._changed_array(arrays[name], rng)
            else:
                self._change_tree(tree, arrays, rng)
        return self._file(tree, arrays)

    def _changed_array(self, array: Any, rng: Any) -> Any:
        """Other entries (half of the time), another shape or another dtype."""
        import numpy as np

        kind = rng.random()
        flat = array.ravel()
        if kind < 0.5 and flat.size:
            flat = flat.copy()
            places = rng.integers(flat.size, size=rng.integers(1, 4))
            values = FLOATS if flat.dtype.kind in "fc" else (*INTEGERS, flat.size, flat.size - 1)
            for place in places:
                value = values[rng.integers(len(values))]
                with np.errstate(all="ignore"):
                    flat[place] = (
                        np.array(value).astype(flat.dtype)
                        if flat.dtype.kind in "fc"
                        else np.array(value, np.int64).astype(flat.dtype)
                    )
            return flat.reshape(array.shape)
        if kind < 0.85:
            shapes = [(0,), (1,), (), (max(0, flat.size - 1),), (flat.size, 1), (1, flat.size)]
            if array.ndim:
                first, *rest = array.shape
                *front, last = array.shape
                shapes += [array.shape[::-1], (*array.shape, 1), (1, *array.shape)]
                shapes += [(length, *rest) for length in (0, max(0, first - 1), first + 3)]
                shapes += [(*front, length) for length in (max(0, last - 1), last + 3)]
                shapes += [tuple(-(-length // 2) for length in array.shape)]
            shape = shapes[rng.integers(len(shapes))]
            return np.resize(flat, shape) if flat.size else np.zeros(shape, array.dtype)
        if kind < 0.93:
            dtype = DTYPES[rng.integers(len(DTYPES))]
            with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                try:
                    return array.astype(dtype)
                except (ValueError, TypeError):
                    return array
        return np.asfortranarray(array) if array.ndim > 1 else array

    def _change_tree(self, tree: Any, arrays: dict[str, Any], rng: Any) -> None:
        """Another number, text, reference, class or structure at a random node."""
        places = [(*found, key) for *found, key in _places(tree)]
        holder, key = places[rng.integers(len(places))]
        value = holder[key]
        if isinstance(value, bool):
            holder[key] = not value
        elif isinstance(value, int):
            values = (*INTEGERS, value + 1, value - 1, 2 * value)
            holder[key] = values[rng.integers(len(values))]
        elif isinstance(value, float):
            number = FLOATS[rng.integers(len(FLOATS))]
            holder[key] = number if math.isfinite(number) else {"float": repr(number)}
        elif isinstance(value, str):
            texts = [text for _, k, text in _texts(tree) if k == key] or [value]
            holder[key] = texts[rng.integers(len(texts))]
        elif isinstance(value, dict) and "array" in value and rng.random() < 0.7:
            holder[key] = {"array": str(rng.choice(sorted(arrays)))}
        else:
            other, k = places[rng.integers(len(places))]
            choices: list[Any] = [None, 0, [], {"tuple": []}, "rbf", 1.5, copy.deepcopy(other[k])]
            choices.append({"array": str(rng.choice(sorted(arrays)))} if arrays else 1)
            if isinstance(holder, dict) and rng.random() < 0.1:
                del holder[key]
            else:
                holder[key] = choices[rng.integers(len(choices))]

    def _file(self, tree: Any, arrays: dict[str, Any]) -> bytes:
        from kbench.prediction import model_file

        blocks, described = {}, {}
        for name, array in arrays.items():
            blocks[name], described[name] = self._written.get(id(array)) or _block(array)
        manifest = {**self.manifest, "estimator": tree, "arrays": described}
        del manifest["sha256"]
        manifest["sha256"] = model_file.manifest_digest(manifest)
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr("manifest.json", json.dumps(manifest))
            for name, block in blocks.items():
                archive.writestr(f"{name}.npy", block)
        return stream.getvalue()


def _block(array: Any) -> tuple[bytes, dict[str, Any]]:
    """An array's member of the archive, and what the manifest says about it."""
    import numpy as np

    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getvalue(), {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "fortran_order": bool(array.flags.f_contiguous and not array.flags.c_contiguous),
        "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
    }


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of every node of a JSON tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        yield tree, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


def _texts(tree: Any) -> Iterator[tuple[Any, Any, str]]:
    for holder, key in _places(tree):
        if isinstance(holder[key], str):
            yield holder, key, holder[key]


def outcome(path: Path, seed: int, number: int) -> str:
    """Load a file and predict with it: "refused", "raised", "predicted", or a kind of failure."""
    import numpy as np
    import scipy.sparse as sp

    from kbench.prediction import ModelError, load_model

    try:
        model = load_model(path).estimator
    except ModelError as error:
        return "refused" if "\n" not in str(error) else "foreign"
    except MemoryError:
        return "refused"
    rng = random.Random(f"{seed} {number}")
    stated = getattr(model, "n_features_in_", None)
    right = isinstance(stated, (int, np.integer)) and 0 < stated <= 4096
    widths = [int(stated)] if right else []
    if not right or rng.random() < 0.25:
        widths.append(rng.choice((1, 6, 16)))
    functions = [
        name for name in ("predict", "decision_function") if callable(getattr(model, name, None))
    ]
    raised = False
    for width in widths:
        rows = np.random.RandomState(0).normal(size=(40, width))
        X = rows.astype(rng.choice((np.float32, np.float64)))
        X = sp.csr_matrix(X) if rng.random() < 0.3 else X
        for name in functions:
            try:
                getattr(model, name)(X)
            except IndexError as error:
                if _in_compiled_code(error):
                    return "bounds"
                raised = raised or width == stated
            except Exception:  # any exception is an answer; only crashes are not
                raised = raised or width == stated
    return "raised" if raised else "predicted"


def _in_compiled_code(error: IndexError) -> bool:
    """Whether numba's bounds check raised this: it has its own message."""
    return str(error) == "index is out of bounds"


def child(mutator: Mutator, seed: int, numbers: range, pipe: int, path: Path) -> None:
    """Report (number, outcome) of each mutation through the pipe; runs in a forked process."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, soft))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for number in numbers:
        os.write(pipe, pickle.dumps((number, "started")).ljust(64))
        signal.alarm(SECONDS)
        path.write_bytes(mutator.mutated(seed, number))
        try:
            result = outcome(path, seed, number)
        except BaseException:
            result = "foreign"
        os.write(pipe, pickle.dumps((number, result)).ljust(64))


def fuzz(mutator: Mutator, seed: int, count: int, folder: Path) -> tuple[Counter, dict[str, int]]:
    """Counts by outcome, and the first mutation of each kind of failure."""
    counts: Counter = Counter()
    first: dict[str, int] = {}
    start = 0
    while start < count:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            code = 1
            try:
                child(mutator, seed, range(start, count), writing, folder / "mutated.npz")
                code = 0
            finally:
                os._exit(code)
        os.close(writing)
        running = start
        with os.fdopen(reading, "rb") as stream:
            while record := stream.read(64):
                running, result = pickle.loads(record)
                if result != "started":
                    counts[result] += 1
                    if result in ("bounds", "foreign"):
                        first.setdefault(result, running)
        _, status = os.waitpid(pid, 0)
        if status == 0:
            break
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        result = "slow" if killed == signal.SIGALRM else "crash"
        counts[result] += 1
        if result == "crash":
            first.setdefault(result, running)
        start = running + 1
    return counts, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", help="names of configs/method; all by default")
    parser.add_argument("--mutations", type=int, default=1000, help="of each method's models")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run this mutation here, with its traceback")
    parser.add_argument("--bounds", action="store_true", help="numba's bounds checks")
    options = parser.parse_args()
    if options.bounds and "NUMBA_BOUNDSCHECK" not in os.environ:
        cache = Path(tempfile.gettempdir()) / f"kbench-bounds-{os.getuid()}"
        bounds = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **bounds})
    kinds = ("refused", "raised", "predicted", "crash", "foreign", "bounds", "slow")
    print(f"{'model':34}" + "".join(f"{kind:>10}" for kind in kinds) + f"{'seconds':>9}")
    failed = False
    total: Counter = Counter()
    for name, content, share in stored_methods(options.methods):
        mutator, begin = Mutator(content), time.monotonic()
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            # The child inherits what is compiled.
            original = folder / "original.npz"
            original.write_bytes(content)
            assert {outcome(original, 0, number) for number in range(12)} <= {"predicted", "raised"}
            if options.only is not None:
                repeat(mutator, options.seed, options.only, folder)
                continue
            counts, first = fuzz(
                mutator, options.seed, math.ceil(share * options.mutations), folder
            )
        total += counts
        seconds = time.monotonic() - begin
        line = f"{name:34}" + "".join(f"{counts[kind]:10}" for kind in kinds) + f"{seconds:9.1f}"
        print(line + "".join(f"  {kind}: {number}" for kind, number in first.items()), flush=True)
        failed = failed or bool(first)
    if options.only is None:
        print(f"{'all':34}" + "".join(f"{total[kind]:10}" for kind in kinds))
    return int(failed)


def repeat(mutator: Mutator, seed: int, number: int, folder: Path) -> None:
    """One mutation in this process: prints what it changed and how it ends."""
    import faulthandler

    import numpy as np

    faulthandler.enable()
    path = folder / "mutated.npz"
    path.write_bytes(mutator.mutated(seed, number))
    twin = Mutator(path.read_bytes())
    for name, array in twin.arrays.items():
        old = mutator.arrays[name]
        if old.shape != array.shape or old.dtype != array.dtype:
            print(f"{name}: {old.dtype}{old.shape} -> {array.dtype}{array.shape}")
        elif not np.array_equal(old, array):
            places = np.flatnonzero(old.ravel() != array.ravel())[:4]
            print(f"{name}{list(places)}: {old.ravel()[places]} -> {array.ravel()[places]}")
    before, after = (json.dumps(m.manifest["estimator"], indent=1) for m in (mutator, twin))
    import difflib

    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=4):
        print(line)
    from kbench.prediction import ModelError, load_model

    try:
        model = load_model(path).estimator
        rows = np.random.RandomState(0).normal(size=(40, model.n_features_in_))
        model.predict(rows.astype(np.float32))
    except ModelError as error:
        print(f"refused: {error}")
    except Exception:
        traceback.print_exc()
    print(outcome(path, seed, number))


if __name__ == "__main__":
    sys.exit(main())
