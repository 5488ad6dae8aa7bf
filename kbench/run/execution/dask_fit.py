"""Fits that a Dask cluster computes: joblib's calls of one run go to the cluster's workers."""

import contextlib
import importlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from kbench.errors import ConfigError


@contextlib.contextmanager
def joblib_on(scheduler: str | None, warm_up: Callable[[], None]) -> Iterator[Callable[[], float]]:
    """Have joblib compute on a Dask cluster, in this block; None changes nothing.

    Each worker of the cluster calls `warm_up()` before the block begins. The value of the block is
    a function: CPU seconds so far of the workers on this machine.
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
        addresses = list(client.nthreads())
        client.gather(
            [client.submit(warm_up, workers=[address], pure=False) for address in addresses]
        )

        def workers_cpu_s() -> float:
            found = {}
            # If the cluster is lost, the fit has failed and says so.
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                found = client.run(_host_and_cpu_s, on_error="ignore")
            here = socket.gethostname()
            return float(sum(cpu_s for host, cpu_s in found.values() if host == here))

        yield workers_cpu_s


def _host_and_cpu_s() -> tuple[str, float]:
    return socket.gethostname(), time.process_time()


def require_package(module: str, extra: str) -> Any:
    """The module of an engine; a ConfigError that names the extra if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"parallel.backend={extra} needs the package {error.name}: "
            f"pip install 'kbench[{extra}]'"
        ) from None
