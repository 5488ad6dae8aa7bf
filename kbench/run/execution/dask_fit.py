"""Fits of one run on a Dask cluster: joblib sends its tasks to the cluster's workers."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kbench.errors import DataError
from kbench.run.execution.engines.daemons import require_package
from kbench.run.execution.engines.on_node import Proof

# Seconds without any worker after which a fit is given up: long enough for a scheduler that starts
# workers in place of lost ones. Seconds between two requests for the list of workers. Set by hand.
_LOST_S, _POLL_S = 30.0, 5.0


@contextlib.contextmanager
def joblib_on(
    scheduler: str | None, warm_up: Callable[[], None], folder: Path | None = None
) -> Iterator[Callable[[], float]]:
    """Have joblib compute on the Dask cluster of `scheduler` in this block; None changes nothing.

    Each worker of the cluster calls `warm_up()` before the block begins; one that is lost in the
    meantime is not waited for. The value of the block is a function that returns the CPU
    seconds that the workers on this machine have used so far.

    Raises DataError: a worker does not see `folder`, from which the workers read rows.
    """
    if scheduler is None:
        yield lambda: 0.0
        return
    import joblib

    distributed = require_package("distributed", "dask")
    with (
        distributed.Client(scheduler, set_as_default=False, timeout="15s") as client,
        joblib.parallel_config("dask", client=client),
    ):
        if folder is not None:
            _require_shared(client, folder)
        # These are not tasks: if all workers are lost, Dask waits for ever with a task that is
        # meant for one of them, even if others come.
        client.run(_in_a_thread, warm_up, on_error="ignore")
        ended = threading.Event()
        threading.Thread(target=_close_without_workers, args=(client, ended), daemon=True).start()

        def workers_cpu_s() -> float:
            seconds = {}
            # If the cluster is lost, the fit has failed and says so.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                seconds = client.run(_host_and_cpu_s, on_error="ignore")
            this_host = socket.gethostname()
            return float(sum(cpu_s for host, cpu_s in seconds.values() if host == this_host))

        try:
            yield workers_cpu_s
        finally:
            ended.set()


def _require_shared(client: Any, folder: Path) -> None:
    """Check that every worker sees a folder of this machine, not its own of the same name."""
    proof = Proof()
    if (written := proof.write(folder)) is None:
        return  # `folder` cannot be written, so rows in chunks are in another one
    try:
        sees = client.run(proof.holds, folder, on_error="ignore")
    finally:
        written.unlink(missing_ok=True)
    if lacking := [address for address, does in sees.items() if not does]:
        raise DataError(
            f"the Dask worker {lacking[0]} does not see the folder {folder} of this machine: "
            "parallel.split=model with rows in chunks needs a datasets_dir that all machines share"
        )


def _close_without_workers(client: Any, ended: threading.Event) -> None:
    """Close the client if all workers are gone: Dask would keep the fit's tasks for ever."""
    seen = time.monotonic()
    while not ended.wait(_POLL_S):
        with contextlib.suppress(Exception):  # the scheduler does not answer
            if client.nthreads():
                seen = time.monotonic()
        if time.monotonic() > seen + _LOST_S:
            client.close(timeout=2)
            return


async def _in_a_thread(call: Callable[[], None]) -> None:
    await asyncio.to_thread(call)  # the worker goes on to answer its scheduler


def _host_and_cpu_s() -> tuple[str, float]:
    return socket.gethostname(), time.process_time()
