"""Prepare data sets in a guarded child process, so that files cannot exhaust kbench's memory."""

import functools
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kbench.data import Folders, prepare, remove_abandoned, status
from kbench.errors import NO_CACHE, ConfigError, DataError, DataNotFoundError, KbenchError
from kbench.run.execution.guard import Send
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning.plan import Obtain
from kbench.settings import Limits, Settings

_ERRORS: dict[str, type[KbenchError]] = {
    error.__name__: error for error in (ConfigError, DataError, DataNotFoundError)
}


def prepare_in_child(
    config: Mapping[str, Any],
    folders: Folders,
    memory_mb: float | None,
    sandbox: Sandbox,
    *,
    download: bool,
) -> Path:
    """The folder of a data set's prepared arrays, made in a child if it does not exist.

    The child and its own child, which runs foreign parsers, are limited to `memory_mb` each. Time
    is not limited, because downloads may take hours.

    Raises ConfigError, DataError, DataNotFoundError: as in `kbench.data.prepare`.
    Raises DataError: the child ended before it was done.
    """
    if (existing := status(config, folders).prepared) is not None:
        return existing
    call = functools.partial(prepare, config, folders, download=download, memory_mb=memory_mb)
    limits = Limits(wall_s=None, memory_mb=memory_mb, setup_s=math.inf)
    outcome = sandbox.call(_prepare, call, limits, show=True)
    if outcome.status == "ok":
        return Path(outcome.result["row"]["folder"])
    if outcome.status == "error":
        error = _ERRORS.get(outcome.result.get("error", ""), DataError)
        raise error(outcome.message)
    remove_abandoned(config, folders)
    raise DataError(f"data set {config['name']} could not be prepared: {outcome.message}")


def obtain_in(sandbox: Sandbox) -> Obtain:
    """A function that prepares a plan's data sets in guarded children of `sandbox`."""

    def obtain(config: Mapping[str, Any], settings: Settings) -> Path:
        folders = Folders.from_environment(settings.datasets_dir)
        memory_mb = settings.limits.memory_mb
        return prepare_in_child(config, folders, memory_mb, sandbox, download=settings.download)

    return obtain


def _prepare(call: Callable[[], Path], send: Send) -> None:
    """Prepare a data set in the child, and report its folder, or the class of the error."""

    def show(message: Any, *_: Any, **__: Any) -> None:  # without kbench's file and line
        print(f"kbench: {message}", file=sys.stderr)

    send({"event": "start"})
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            folder = call()
    except KbenchError as error:
        kind = type(error).__name__
        send({"event": "result", "status": "error", "message": str(error), "error": kind})
    except MemoryError:
        message = "it needs more than limits.memory_mb"
        send({"event": "result", "status": "memory", "message": message})
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        send({"event": "result", "status": "error", "message": NO_CACHE, "error": "ConfigError"})
    else:
        send({"event": "result", "status": "ok", "row": {"folder": str(folder)}})
