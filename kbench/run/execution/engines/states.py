"""The states of a run on a cluster: one state machine for every engine.

    submitted -> begun -> finished     the row is what the run reported
        |          +----> lost         started once more, or the row says why
        |          +----> cancelled    by the batch system: the row names the job
        +------> lost                  submitted again
        +------> refused               no row: the same command starts the run

Only a run that a machine has begun gets a row. If the user stops the command, or the cluster is
lost, the other runs are refused.

An engine only reports (`Engine`). It has a process of its own because its library may print, wait
for ever, or end the process, as Ray does if its head is lost. The runner's process then goes on.
"""

import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any, Protocol

from kbench.errors import KbenchError, quoted, with_type
from kbench.run.execution.engines.on_node import Call
from kbench.run.execution.guard import RunOutcome, RunState
from kbench.settings import Settings
from kbench.signals import ignore_interrupts

# Number of times that a run is begun before it counts as crashed. A second start saves runs whose
# machine was lost, and repeats runs that end their worker themselves. Set by hand.
ATTEMPTS = 2
# Guard: a run that no machine has begun is refused after this many submissions, because a worker
# that cannot start loses its runs every time.
SUBMISSIONS = 10
# Status of an outcome without a row: no machine has begun the run.
REFUSED = "refused"
# Seconds between two messages "alive" to the runner, which warns after MESSAGE_INTERVAL_S seconds.
# Set by hand.
_ALIVE_S = 1.0
# Guard: seconds after which an engine that has not disconnected is killed.
_LEAVE_S = 8

Stage = Enum("Stage", ["BEGUN", "FINISHED", "LOST", "CANCELLED", "REFUSED"])
Say = Callable[[str], None]  # shows the user a line


@dataclass
class EngineReport:
    """An engine's report of a run; `why` and `status` are for a run without an outcome."""

    stage: Stage
    why: str = ""
    outcome: RunOutcome | None = None
    status: str = "crashed"
    again: bool = False  # whether to start the run again; False after a limit of SLURM


@dataclass(eq=False)
class RemoteJob:
    """A run on a cluster, as the runner sees it; it has ended when it has an outcome."""

    call: Call
    interrupt: Callable[[], None]  # ends this and all other runs
    begun: bool = False  # whether it has begun since its last submission
    n_submitted: int = 0
    n_lost: int = 0  # how often it was lost after it had begun
    loss_reason: str = ""  # reason of the last loss
    outcome: RunOutcome | None = None

    @property
    def state(self) -> RunState:
        return RunState(f"{'running' if self.begun else 'queued'} on the cluster")

    def news(self) -> RunOutcome | None:
        """The outcome, if the run has ended."""
        return self.outcome

    def submitted(self) -> None:
        self.begun, self.n_submitted = False, self.n_submitted + 1

    def take(self, report: EngineReport, *, stopped: bool) -> bool:
        """Move to the next state; returns whether the run has to be submitted again.

        stopped : whether the user has stopped the command.
        """
        why = report.why
        if report.stage is Stage.BEGUN:
            self.begun = True
        elif report.outcome is not None:
            self.outcome = report.outcome
        elif stopped:
            self.end("stopped by the user")
        elif report.stage is Stage.REFUSED and self.n_lost:
            self.outcome = RunOutcome(
                "crashed", f"{self.loss_reason}; a second start was refused: {why}"
            )
        elif not report.again:
            self.outcome = RunOutcome(report.status if self.begun else REFUSED, why)
        else:
            self.n_lost, self.loss_reason = self.n_lost + self.begun, why
            if self.n_lost < ATTEMPTS and self.n_submitted < SUBMISSIONS:
                return True
            why = f"its worker process was lost {self.n_lost or self.n_submitted} times ({why})"
            self.outcome = RunOutcome("crashed" if self.n_lost else REFUSED, why)
        return False

    def end(self, why: str) -> None:
        """End a run about which no more reports come."""
        self.outcome = RunOutcome("interrupted" if self.begun else REFUSED, why)


class Engine(Protocol):
    """Interface of an engine. Every call must return within `patience_s` seconds.

    An exception means that the cluster is lost with all its runs; its text has the remedy.
    """

    poll_s: float  # seconds between two calls of `reports`
    patience_s: float  # seconds after which the runner gives up an engine that does not answer
    keeps_runs: bool  # whether runs go on after the engine's process has ended

    def submit(self, number: int, call: Call) -> None:
        """Hand a run to the cluster."""

    def reports(self) -> Iterator[tuple[int, EngineReport]]:
        """Reports of runs, by number, since the last call."""

    def waits_for(self) -> str | None:
        """The reason why runs wait, for a message; None while they run."""

    def at_once(self) -> int:
        """Number of runs that the cluster does at the same time."""

    def announce_stop(self) -> None:
        """Let runs end that can do so without the library; called while it may not answer."""

    def stop(self) -> None:
        """End every run."""

    def close(self) -> None:
        """Disconnect from the cluster, and end it if it was started by this process."""


class ClusterLostError(Exception):
    """An engine has lost its cluster."""


def serve(
    connection: Connection, make: Callable[[Settings, Say], Engine], settings: Settings, log: str
) -> None:
    """The engine's process: connect, then take the runner's orders until the runner ends."""
    os.setsid()
    ignore_interrupts()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    def tell(kind: str, content: Any) -> None:
        connection.send((kind, content))

    try:
        engine = make(settings, lambda text: tell("say", text))
    except Exception as error:
        is_known = isinstance(error, KbenchError)
        problem = f"parallel.backend={settings.parallel.backend}: no cluster"
        if settings.parallel.address:
            problem += f" at parallel.address={settings.parallel.address}"
        tell("lost", str(error) if is_known else f"{problem}: {quoted(error)}")
        return
    tell("ready", engine.patience_s)
    # A thread receives the orders, so that the runner never waits for the engine's library.
    orders: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, engine, orders), daemon=True).start()
    next_alive = 0.0
    try:
        while True:
            for order in _orders(orders, engine.poll_s):
                if order is None or order[0] == "close":
                    _leave(engine, runner_lost=order is None)
                elif order[0] == "stop":
                    engine.stop()
                else:
                    engine.submit(*order[1:])
            if time.monotonic() >= next_alive:
                next_alive = time.monotonic() + _ALIVE_S
                tell("alive", (engine.at_once(), engine.waits_for()))
            for report in engine.reports():
                tell("report", report)
    except Exception as error:  # the library has lost its cluster, or the runner has ended
        is_known = isinstance(error, ClusterLostError)
        runner_lost = True
        with contextlib.suppress(OSError):
            tell("lost", str(error) if is_known else quoted(with_type(error)))
            runner_lost = False
        _leave(engine, runner_lost=runner_lost)


def _listen(
    connection: Connection, engine: Engine, orders: "queue.SimpleQueue[tuple[Any, ...] | None]"
) -> None:
    """Queue the runner's orders, and None when the runner has ended."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            order = connection.recv()
            if order[0] == "stop":
                engine.announce_stop()
            orders.put(order)
    orders.put(None)


def _orders(
    orders: "queue.SimpleQueue[tuple[Any, ...] | None]", seconds: float
) -> Iterator[tuple[Any, ...] | None]:
    """All queued orders; waits at most `seconds` for the first one."""
    with contextlib.suppress(queue.Empty):
        yield orders.get(timeout=seconds)
        while True:
            yield orders.get_nowait()


def _leave(engine: Engine, *, runner_lost: bool) -> None:
    """Disconnect from the cluster and end this process, after `_LEAVE_S` seconds at the latest.

    runner_lost : Whether the runner has ended. Runs that need this process are then stopped.
    """
    try:
        if not (runner_lost and engine.keeps_runs):
            signal.alarm(_LEAVE_S)  # its signal ends the process
            if runner_lost:
                engine.stop()
            engine.close()
    finally:
        os._exit(0)
