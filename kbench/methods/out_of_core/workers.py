"""Independent tasks in the processes of joblib or the workers of a Dask cluster."""

import ctypes
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import cache
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from kbench.errors import KbenchError

# Parameters of mallopt, and the values to which glibc raises them while a program runs: up to 64
# MiB of free memory are kept, from which blocks of up to 32 MiB are taken.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _POOLED_BYTES = 64 << 20, 32 << 20


def results_in_order(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]], n_jobs: int | None
) -> Iterator[Any]:
    """Results of `function(*task)`, in the order of the tasks.

    joblib computes them, by its rules for `n_jobs` and its active backend. Under joblib's Dask
    backend all tasks go directly to the client. joblib would submit few tasks at a time and poll
    for their results: training 250 clusters of 4,000 rows took 8.1 s through joblib with two
    workers, 5.0 s through the client, 7.6 s without workers (`scripts/bench_chunks.py workers`).

    Raises KbenchError: the Dask cluster is lost. Other workers repeat the tasks of a lost worker.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        jobs = (delayed(function)(*task) for task in tasks)
        yield from Parallel(n_jobs, return_as="generator")(jobs)
        return
    from distributed import as_completed

    futures = [client.submit(_on_dask, function, *task, pure=False) for task in tasks]
    task_numbers = {future.key: k for k, future in enumerate(futures)}
    finished: dict[int, Any] = {}
    n_yielded, address = 0, client.scheduler.address
    try:
        with client.as_current():  # may differ from the default client of this process
            completed = as_completed(futures, with_results=True)
        for future, result in completed:
            if isinstance(result, CancelledError):
                raise KbenchError(
                    f"the Dask cluster at {address} is lost: {n_yielded} of {len(tasks)} tasks of "
                    "the fit are done"
                ) from None
            finished[task_numbers[future.key]] = result
            future.release()
            while n_yielded in finished:
                yield finished.pop(n_yielded)
                n_yielded += 1
    finally:
        if client.status == "running":  # not if its cluster is lost
            client.cancel(futures)


def _on_dask(function: Callable[..., Any], *task: Any) -> Any:
    _prepare_dask_worker()
    return function(*task)


def _prepare_dask_worker() -> None:
    """In a Dask worker, undo two of its settings that make compiled code slow.

    Dask limits the threads of BLAS and OpenMP, but not those of numba: with a worker for each core,
    every worker would use all cores. Dask also has glibc return free memory at once
    (MALLOC_TRIM_THRESHOLD_=65536), so that the system has to clear the pages of every new array:
    clusters of 4,000 rows then take 1.4 times the CPU time (61 instead of 44 ms,
    `scripts/bench_chunks.py workers`).
    """
    import numba
    from distributed import get_worker

    n_threads = get_worker().state.nthreads
    limit = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    numba.set_num_threads(min(n_threads, limit))
    _keep_freed_memory()


@cache
def _keep_freed_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if sys.platform == "linux" and mallopt is not None:
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _POOLED_BYTES)
