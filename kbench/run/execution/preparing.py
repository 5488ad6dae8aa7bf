"""Preparation of data sets in a guarded child process: a hostile file cannot exhaust our memory."""

import math
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.data import Folders, prepare, remove_abandoned, status
from kbench.errors import NO_CACHE, ConfigError, DataError, DataNotFoundError, KbenchError
from kbench.run.execution.guard import Send
from kbench.run.execution.sandbox import Sandbox
from kbench.settings import Limits, Settings

_ERRORS: dict[str, type[KbenchError]] = {
    error.__name__: error for error in (ConfigError, DataError, DataNotFoundError)
}


@dataclass(frozen=True)
class _Order:
    config: Mapping[str, Any]
    folders: Folders
    download: bool
    memory_mb: float | None


def prepare_guarded(config: Mapping[str, Any], settings: Settings, sandbox: Sandbox) -> Path:
    """The folder of a data set's prepared arrays, made in a child if it does not exist.

    The child is limited to `limits.memory_mb`, and so is the child in which it reads formats of
    foreign parsers; time is unlimited, as downloads may take hours.

    Raises
    ------
    ConfigError, DataError, DataNotFoundError
        As `kbench.data.prepare`; also if the child ends before it is done.
    """
    folders = Folders.from_environment(settings.datasets_dir)
    memory_mb = settings.limits.memory_mb
    return prepare_in_child(config, folders, memory_mb, sandbox, download=settings.download)


def prepare_in_child(
    config: Mapping[str, Any],
    folders: Folders,
    memory_mb: float | None,
    sandbox: Sandbox,
    *,
    download: bool,
) -> Path:
    """`prepare_guarded` with other folders than those of the settings."""
    if (known := status(config, folders).prepared) is not None:
        return known
    order = _Order(config, folders, download, memory_mb)
    limits = Limits(wall_s=None, memory_mb=memory_mb, setup_s=math.inf)
    outcome = sandbox.call(_prepare, order, limits, show=True)
    if outcome.status == "ok":
        return Path(outcome.result["row"]["folder"])
    if outcome.status == "error":
        error = _ERRORS.get(outcome.result.get("error", ""), DataError)
        raise error(outcome.message)
    remove_abandoned(config, folders)
    raise DataError(f"data set {config['name']} could not be prepared: {outcome.message}")


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    """Show a warning without the place in our source."""
    print(f"kbench: {message}", file=sys.stderr)


def _prepare(order: _Order, send: Send) -> None:
    send({"event": "start"})
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            folder = prepare(
                order.config, order.folders, download=order.download, memory_mb=order.memory_mb
            )
    except KbenchError as error:
        kind = type(error).__name__
        send({"event": "result", "status": "error", "message": str(error), "error": kind})
    except MemoryError:
        name = order.config["name"]
        message = f"data set {name}: its preparation needs more than limits.memory_mb"
        send({"event": "result", "status": "error", "message": message, "error": "DataError"})
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        send({"event": "result", "status": "error", "message": NO_CACHE, "error": "ConfigError"})
    else:
        send({"event": "result", "status": "ok", "row": {"folder": str(folder)}})
