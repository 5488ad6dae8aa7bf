"""The states of a run on a cluster: one machine for every engine, in a process of its own.

    submitted -> finished     the row is what the run reported
        +------> lost         started once more, or the row says why
        +------> cancelled    by the batch system: the row says by which job
        +------> refused      no row: the same command starts the run

The engine has a process of its own because its library may print, wait for ever, or end its
process: Ray ends that of a driver whose head is lost. The runner then loses the engine alone.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any, Protocol

from kbench.errors import KbenchError, one_line
from kbench.run.execution.engines.on_node import Call
from kbench.run.execution.guard import Outcome
from kbench.settings import Settings
from kbench.signals import ignore_interrupts

# How often a run is started before its row says that it was lost.
ATTEMPTS = 2
# Status of an outcome without a row: the batch system did not take the run.
REFUSED = "refused"
# Seconds between two signs of life to the runner.
_ALIVE_S = 1.0
# Seconds that an engine has to disconnect.
_LEAVE_S = 8.0
# Seconds without news after which it is said what the runs wait for.
_SAY_S = 30.0

Stage = Enum("Stage", ["FINISHED", "LOST", "CANCELLED", "REFUSED"])
Tell = Callable[[str, Any, Any], None]  # kind of message, number of the run, content


@dataclass
class Report:
    """What an engine says of a run.

    why : of a run that ended without an outcome. status : of its row. again : whether a second
    start may end otherwise, which it does not at a limit of the batch system.
    """

    stage: Stage
    why: str = ""
    outcome: Outcome | None = None
    status: str = "crashed"
    again: bool = False


class ClusterLostError(Exception):
    """The cluster is gone with all its runs; the text says what to do.

    begun : whether any run can have begun.
    """

    def __init__(self, text: str, *, begun: bool = True) -> None:
        super().__init__(text)
        self.begun = begun


class Engine(Protocol):
    """Interface of an engine. Every call returns within seconds, or its process is given up.

    poll_s : seconds between two calls of `reports`. patience_s : seconds after which the runner
    gives up an engine that does not answer. keeps_runs : whether runs go on without its process.
    """

    poll_s: float
    patience_s: float
    keeps_runs: bool

    def submit(self, number: int, call: Call) -> None:
        """Hand a run to the cluster."""

    def reports(self) -> Iterator[tuple[int, Report]]:
        """News of runs since the last call; raises `ClusterLostError`."""

    def waits_for(self) -> str | None:
        """What the runs wait for; None while they run."""

    def at_once(self) -> int:
        """Number of runs that the cluster does at the same time."""

    def stop(self) -> None:
        """End every run."""

    def close(self) -> None:
        """Disconnect from the cluster, and end it if it was started by this process."""


@dataclass
class _Run:
    call: Call
    attempt: int = 1
    lost: str = ""


class Runs:
    """The runs of one engine; `step` moves each to its next state and tells the runner."""

    def __init__(self, engine: Engine, tell: Tell, *, say_s: float = _SAY_S) -> None:
        self._engine, self._tell, self._say_s = engine, tell, say_s
        self._runs: dict[int, _Run] = {}
        self._stopped = False
        self._heard = time.monotonic()  # of the last answer of the engine
        self._peak = 1  # runs at the same time, at most so far

    def start(self, number: int, call: Call) -> None:
        """Submit a run; raises `ClusterLostError`."""
        self._runs[number] = _Run(call)
        self._submit(number)

    def stop(self) -> None:
        """End all runs; the runner does not wait for those that do not report."""
        self._stopped = True
        self._engine.stop()

    def step(self) -> None:
        """Take the news of the engine; raises `ClusterLostError`."""
        for number, report in self._engine.reports():
            self._heard = time.monotonic()
            if number in self._runs:
                self._take(number, report)
        if time.monotonic() > self._heard + self._say_s and self._runs:
            self._heard = time.monotonic()
            if waits_for := self._engine.waits_for():
                self._tell("say", None, f"{len(self._runs)} runs wait for {waits_for}")

    def _submit(self, number: int) -> None:
        try:
            self._engine.submit(number, self._runs[number].call)
        except Exception as error:  # whatever a library raises that has lost its cluster
            raise ClusterLostError(one_line(error, 300)) from error

    def _take(self, number: int, report: Report) -> None:
        run = self._runs[number]
        if report.outcome is not None:
            self._end(number, report.outcome)
        elif self._stopped and report.stage is not Stage.REFUSED:
            self._end(number, Outcome("interrupted", "stopped by the user"))
        elif report.again and run.attempt < ATTEMPTS:
            run.attempt, run.lost = run.attempt + 1, report.why
            self._submit(number)
        elif report.stage is Stage.REFUSED and run.attempt == 1:
            self._end(number, Outcome(REFUSED, report.why))
        elif report.stage is Stage.REFUSED:
            self._end(
                number, Outcome("crashed", f"{run.lost}; a second start was refused: {report.why}")
            )
        else:
            times = f"its worker process was lost {run.attempt} times ({report.why})"
            self._end(number, Outcome(report.status, times if report.again else report.why))

    def _end(self, number: int, outcome: Outcome) -> None:
        self._peak = max(self._peak, min(len(self._runs), self._engine.at_once()))
        outcome.at_once = self._peak
        del self._runs[number]
        self._tell("ended", number, outcome)


def serve(
    connection: Connection, make: Callable[[Settings, Tell], Engine], settings: Settings, log: str
) -> None:
    """The engine's process: connect, then take the runner's orders until it closes or is gone."""
    os.setsid()
    ignore_interrupts()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    def tell(kind: str, number: Any, content: Any) -> None:
        connection.send((kind, number, content))

    try:
        engine = make(settings, tell)
    except Exception as error:
        known = isinstance(error, KbenchError)
        tell("failed", None, str(error) if known else no_cluster(settings, one_line(error, 300)))
        return
    tell("ready", None, engine.patience_s)
    orders: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, orders), daemon=True).start()
    runs, alive = Runs(engine, tell), 0.0
    try:
        while True:
            for order in _orders(orders, engine.poll_s):
                if order is None or order[0] == "close":
                    _leave(engine, lost=order is None)
                elif order[0] == "stop":
                    runs.stop()
                else:
                    runs.start(*order[1:])
            runs.step()
            if time.monotonic() >= alive:
                alive = time.monotonic() + _ALIVE_S
                tell("alive", None, None)
    except ClusterLostError as error:
        tell("lost", None, (str(error), error.begun))
        _leave(engine, lost=False)
    except (BrokenPipeError, ConnectionError):
        _leave(engine, lost=True)


def no_cluster(settings: Settings, why: str) -> str:
    """The line for the user where an engine finds no cluster."""
    parallel = settings.parallel
    where = f" at parallel.address={parallel.address}" if parallel.address else ""
    return f"parallel.backend={parallel.backend}: no cluster{where}: {why}"


def _listen(connection: Connection, orders: "queue.SimpleQueue[tuple[Any, ...] | None]") -> None:
    """Queue the runner's orders; None at its end."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            orders.put(connection.recv())
    orders.put(None)


def _orders(
    orders: "queue.SimpleQueue[tuple[Any, ...] | None]", seconds: float
) -> Iterator[tuple[Any, ...] | None]:
    """Orders that are there, after waiting for the first."""
    with contextlib.suppress(queue.Empty):
        yield orders.get(timeout=seconds)
        while True:
            yield orders.get_nowait()


def _leave(engine: Engine, *, lost: bool) -> None:
    """End this process, when the cluster has been left or does not answer in time.

    If the runner is `lost`, runs that need this process are stopped, and others go on.
    """
    if lost and engine.keeps_runs:
        os._exit(0)

    def left() -> None:
        if lost:
            engine.stop()
        engine.close()

    leaving = threading.Thread(target=left, daemon=True)
    leaving.start()
    leaving.join(_LEAVE_S)
    os._exit(0)
