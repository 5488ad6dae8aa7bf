"""Fit the estimator of a run on a Dask cluster, to whose workers joblib sends its tasks."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kbench import __version__
from kbench.errors import DataError, UnavailableError
from kbench.run.execution.engines.daemons import require_package
from kbench.run.execution.engines.on_node import Proof

# Guard: seconds without any worker after which a fit is given up. Until then, a scheduler may
# replace lost workers.
_LOST_S = 30.0
# Guard: seconds between two requests for the list of workers.
_POLL_S = 5.0


@contextlib.contextmanager
def joblib_on(
    scheduler: str | None, warm_up: Callable[[], None], folder: Path | None = None
) -> Iterator[Callable[[], float]]:
    """Let joblib compute on the Dask cluster of `scheduler` in a `with` block; None has no effect.

    Each worker calls `warm_up()` before the block begins, unless it is lost. The value of the block
    is a function that returns the CPU seconds so far of the workers on this machine.

    Raises DataError: a worker does not see `folder`, from which the workers read rows.
    """
    if scheduler is None:
        yield lambda: 0.0
        return
    import joblib

    distributed = require_package("distributed", "dask")
    with (
        # Guard: 15 s for the connection.
        distributed.Client(scheduler, set_as_default=False, timeout="15s") as client,
        joblib.parallel_config("dask", client=client),
    ):
        _require_version(client)
        if folder is not None:
            _require_shared(client, folder)
        # The warm-up is not a Dask task, because a task for a worker that is lost waits for ever.
        client.run(_in_a_thread, warm_up, on_error="ignore")
        fit_ended = threading.Event()
        threading.Thread(
            target=_close_without_workers, args=(client, fit_ended), daemon=True
        ).start()

        def workers_cpu_s() -> float:
            seconds = {}
            # If the cluster is lost, the fit raises the error.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                seconds = client.run(_host_and_cpu_s, on_error="ignore")
            this_host = socket.gethostname()
            return float(sum(cpu_s for host, cpu_s in seconds.values() if host == this_host))

        try:
            yield workers_cpu_s
        finally:
            fit_ended.set()


def _require_version(client: Any) -> None:
    """Check that every worker has the kbench of this process."""
    # A worker gets the text of the lambda, which does not depend on its kbench.
    versions = client.run(lambda: __import__("kbench").__version__, on_error="ignore")
    for address, version in versions.items():
        if version != __version__:
            raise UnavailableError(
                f"the Dask worker {address} has kbench {version}, should have {__version__} as here"
            )


def _require_shared(client: Any, folder: Path) -> None:
    """Check that every worker sees this machine's folder, and not another one of the same path."""
    proof = Proof()
    if (proof_file := proof.write(folder)) is None:
        return  # `chunked.rows_in_chunks` gives the workers no folder that cannot be written
    try:
        answers = client.run(proof.holds, folder, on_error="ignore")
    finally:
        proof_file.unlink(missing_ok=True)
    if lacking := [address for address, sees_folder in answers.items() if not sees_folder]:
        raise DataError(
            f"the Dask worker {lacking[0]} does not see the folder {folder} of this machine: "
            "parallel.split=model with rows in chunks needs a datasets_dir that all machines share"
        )


def _close_without_workers(client: Any, fit_ended: threading.Event) -> None:
    """Close the client if there are no workers, because the fit's tasks would wait for ever."""
    last_seen = time.monotonic()
    while not fit_ended.wait(_POLL_S):
        with contextlib.suppress(Exception):  # the scheduler does not answer
            if client.nthreads():
                last_seen = time.monotonic()
        if time.monotonic() > last_seen + _LOST_S:
            client.close(timeout=2)  # guard: seconds
            return


async def _in_a_thread(call: Callable[[], None]) -> None:
    await asyncio.to_thread(call)  # meanwhile the worker can answer its scheduler


def _host_and_cpu_s() -> tuple[str, float]:
    return socket.gethostname(), time.process_time()
