"""Our threads (`kbench.kernels.threads`) beside numba's `prange` on loops of 10 us to 10 s.

    python scripts/bench_threads.py [--busy] [--longest SECONDS] [--largest ROWS]

Wall microseconds of a call, medians, of one loop by one thread, by ours, and by `prange` with one
block a thread and with 32 blocks. Then two threads of this process call the loop at the same time.
Last come fits of linear kernels, by one thread and by two, which share the passes over the rows.
With --busy another process keeps one core busy meanwhile.
"""

import argparse
import multiprocessing
import threading
import time
from collections.abc import Callable
from statistics import median

import numba
import numpy as np
from numba import njit, prange
from sklearn.datasets import make_classification

from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share
from kbench.methods import KernelSVC

N, THREADS, MANY_BLOCKS = 4096, 2, 32
# Additions an iteration; the last takes about ten seconds.
SIZES = (1, 4, 16, 64, 256, 1024, 16_384, 262_144, 4_194_304)
TOGETHER = (16, 256, 4096)
LINEAR = ((100_000, 20), (500_000, 20), (100_000, 100))


@njit(nogil=True, cache=True, fastmath=True)
def _sums(x, out, size, start, stop):
    for i in range(start, stop):
        total, value = 0.0, x[i]
        for k in range(size):
            total += (value - k) * (value - k)
        out[i] = total


_expose = divided(_sums)


@njit(nogil=True, cache=True)
def _shared_sums(arguments, n, block, mailboxes):
    share(_expose(arguments), n, block, mailboxes)


LOOP = Loop(_sums, _shared_sums)


@njit(parallel=True, nogil=True, cache=True, fastmath=True)
def _parallel_sums(x, out, size, n_blocks):
    n = len(x)
    for b in prange(n_blocks):
        for i in range(b * n // n_blocks, (b + 1) * n // n_blocks):
            total, value = 0.0, x[i]
            for k in range(size):
                total += (value - k) * (value - k)
            out[i] = total


def microseconds(call: Callable[[], object], limit: float = 0.3) -> float:
    """Median of the calls that fit into `limit` seconds, at least three, after an untimed one."""
    call()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begin < limit:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * median(times)


def by_two_callers(call: Callable[[], object], n_calls: int = 50) -> float:
    """Microseconds for each of `n_calls` calls that two threads make at the same time."""
    callers = [threading.Thread(target=lambda: [call() for _ in range(n_calls)]) for _ in range(2)]
    start = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return 1e6 * (time.perf_counter() - start) / n_calls


def spin() -> None:
    while True:
        pass


def measure(longest: float) -> None:
    numba.set_num_threads(THREADS)
    x = np.random.default_rng(0).normal(size=N)
    out = np.empty(N)
    print(f"{'one thread':>12} {'ours':>12} {'prange, 2':>12} {'prange, 32':>12}   us")
    for size in SIZES:
        one = microseconds(lambda: _sums(x, out, size, 0, N))  # noqa: B023
        if one > 1e6 * longest:
            break
        ours = microseconds(lambda: run(LOOP, x, out, size, n=N, nanoseconds=1e3 * one, multiple=1))  # noqa: B023
        peers = [
            microseconds(lambda: _parallel_sums(x, out, size, blocks))  # noqa: B023
            for blocks in (THREADS, MANY_BLOCKS)
        ]
        print(f"{one:12.1f} {ours:12.1f} {peers[0]:12.1f} {peers[1]:12.1f}", flush=True)
    print("two callers at the same time")
    for size in TOGETHER:
        one = microseconds(lambda: _sums(x, out, size, 0, N))  # noqa: B023
        ours = by_two_callers(
            lambda: run(LOOP, x, np.empty(N), size, n=N, nanoseconds=1e3 * one, multiple=1)  # noqa: B023
        )
        peer = by_two_callers(lambda: _parallel_sums(x, np.empty(N), size, MANY_BLOCKS))  # noqa: B023
        print(f"{one:12.1f} {ours:12.1f} {'':12} {peer:12.1f}", flush=True)
    print(f"numba's layer: {numba.threading_layer()}")


def linear_fits(largest: int) -> None:
    for n, d in [size for size in LINEAR if size[0] <= largest]:
        X, y = make_classification(n, d, n_informative=10, flip_y=0.02, random_state=1)
        times = []
        for n_threads in (1, THREADS):
            numba.set_num_threads(n_threads)
            fit = KernelSVC(kernel="linear", C=1.0).fit
            times.append(microseconds(lambda: fit(X, y), limit=0.0) / 1e6)  # noqa: B023
        print(f"linear kernel, {n:,} x {d}: {times[0]:.2f} s, {THREADS} threads {times[1]:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--longest", type=float, default=1.0, metavar="SECONDS")
    parser.add_argument("--largest", type=int, default=500_000, metavar="ROWS")
    arguments = parser.parse_args()
    busy = multiprocessing.Process(target=spin, daemon=True)
    if arguments.busy:
        busy.start()
    try:
        measure(arguments.longest)
        linear_fits(arguments.largest)
    finally:
        if arguments.busy:
            busy.terminate()


if __name__ == "__main__":
    main()
