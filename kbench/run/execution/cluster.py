"""Runs on other machines: Dask, Ray and SLURM, as `parallel.backend` names them.

A cluster replaces the sandbox in the runner. Each process of the cluster has its own sandbox, so
that a run has the same guard and limits as on this machine:

    runner -- engine's process -- cluster -- its worker process -- fork server -- guard -- worker

`engines/states.py` describes what happens to a run whose worker is lost. If the whole cluster is
lost, or its library ends or does not answer, runs that had begun become `interrupted` and the
others get no row; the same command starts all of them again. Only the runner writes rows, so the
machines need no common results folder. A file (`Proof`) shows a machine whether it shares the
runner's folders; otherwise the machine prepares the data itself and sends small models back.
"""

import contextlib
import itertools
import logging
import multiprocessing
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, counted, quoted
from kbench.run.execution.engines.daemons import Dask, Ray
from kbench.run.execution.engines.on_node import Call, Proof
from kbench.run.execution.engines.slurm import Slurm
from kbench.run.execution.engines.states import Engine, EngineReport, RemoteJob, Say, Stage, serve
from kbench.run.execution.guard import Work
from kbench.run.execution.temporary import runner_folder
from kbench.run.planning.task import Task
from kbench.settings import MESSAGE_INTERVAL_S, Limits, Settings
from kbench.signals import deferred

# Guard: seconds after Ctrl-C in which runs may still report their rows.
_STOP_S = 4.0
# Guard: seconds after which `Cluster` looks whether a starting engine has been silent for too long.
_LOOK_S = 4.0
# Guard: seconds in which an engine has to find its cluster or start one.
_OPEN_S = 60.0
# Guard: seconds in which an engine has to leave its cluster, including `_STOP_S` after Ctrl-C.
_CLOSE_S = 10.0

_ENGINES: dict[str, Callable[[Settings, Say], Engine]] = {"dask": Dask, "ray": Ray, "slurm": Slurm}

_LOG = logging.getLogger(__name__)


class Cluster:
    """Starts guarded workers through an engine; has the interface of a `Sandbox`.

    preload : Estimators whose classes a worker's fork server imports.
    engine : A function that makes the engine in its process; by default the backend's engine.

    Raises ConfigError: the engine is not installed, refuses its options, or does not answer.
    """

    def __init__(
        self,
        settings: Settings,
        preload: Sequence[str],
        engine: Callable[[Settings, Say], Engine] | None = None,
    ) -> None:
        parallel = settings.parallel
        self._name, self._model_mb, self._hint = parallel.backend, parallel.model_mb, ""
        if parallel.address:
            self._hint = f"; is that the address of a scheduler of {self._name}?"
            self._name += f" at parallel.address={parallel.address}"
        self._preload, self._proof = tuple(preload), Proof()
        self._proofs: dict[Path, Path | None] = {}
        self._jobs: dict[int, RemoteJob] = {}
        self._numbers = itertools.count()
        self._stopped_at: float | None = None
        self._lost = ""  # reason why no more runs are started
        self._at_once = self._peak = 1  # number of simultaneous runs: now, and largest so far
        self._waits_for: str | None = None
        self._patience_s, self._warned_at = _OPEN_S, 0.0
        # Times of the engine's last message, of its last report on a run, and of the last look.
        self._heard_at = self._reported_at = self._listened_at = time.monotonic()
        self._log = runner_folder() / "engine.log"
        # A spawned process has neither this process's threads nor the fork server's settings.
        context = multiprocessing.get_context("spawn")
        self._connection, engine_end = context.Pipe()
        engine = engine or _ENGINES[parallel.backend]
        arguments = (engine_end, engine, settings, str(self._log))
        self._process = context.Process(target=serve, args=arguments)
        with deferred():
            self._process.start()
        engine_end.close()
        self._ready = False
        try:
            while not self._ready:  # `_listen` gives up an engine that does not answer
                self._listen(_LOOK_S)
                if self._lost:
                    raise ConfigError(self._lost)
        except BaseException:
            self._process.kill()
            self._process.join()
            raise

    def start(self, work: Work, task: Task, limits: Limits, n_runs: int = 1) -> RemoteJob:
        """Run `work(task, send)` in a worker of the cluster; returns at once."""
        folders = [Path(task.prepared).parent]
        if task.model is not None:
            folders.append(Path(task.model).parents[1])
        for folder in folders:
            if folder not in self._proofs:
                self._proofs[folder] = self._proof.write(folder)
        call = Call(self._preload, work, task, limits, n_runs, self._proof, self._model_mb)
        job = RemoteJob(call, self.stop)
        if self._lost:
            job.end(self._lost)
        else:
            number = next(self._numbers)
            self._jobs[number] = job
            self._submit(number)
        return job

    def _submit(self, number: int) -> None:
        self._jobs[number].submitted()
        self._send("start", number, self._jobs[number].call)

    def ready(self, jobs: Sequence[RemoteJob], timeout: float) -> list[RemoteJob]:
        """Jobs that have ended; waits at most `timeout` seconds for the first one."""
        if not any(job.outcome for job in jobs):
            self._listen(timeout)
        return [job for job in jobs if job.outcome is not None]

    def stop(self) -> None:
        """End all runs; returns at once. Runs in progress become `interrupted`."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._send("stop")

    def close(self) -> None:
        """Leave the cluster, and end the engine's process."""
        self._send("close")
        began = time.monotonic() if self._stopped_at is None else self._stopped_at
        self._process.join(max(0.0, began + _CLOSE_S - time.monotonic()))
        self._process.kill()
        self._process.join()
        for path in filter(None, self._proofs.values()):
            path.unlink(missing_ok=True)

    def _send(self, *order: Any) -> None:
        with contextlib.suppress(OSError):  # `_listen` handles an engine that has ended
            self._connection.send(order)

    def _listen(self, timeout: float) -> None:
        """Handle messages, waiting `timeout` s at most for the first; give up a silent engine."""
        try:
            while self._connection.poll(timeout):
                timeout = 0.0
                self._hear(*self._connection.recv())
        except (EOFError, OSError):
            self._give_up(f"{self._name} has ended: {self._last_words()}")
        now = time.monotonic()
        # If this process was stopped, with its engine or alone, the engine was not silent.
        stopped_s = max(0.0, now - self._listened_at - _LOOK_S)
        self._listened_at, self._heard_at = now, min(now, self._heard_at + stopped_s)
        if self._stopped_at is not None and now > self._stopped_at + _STOP_S:
            self._end_all("stopped by the user")
        elif now > self._heard_at + self._patience_s:
            self._process.kill()
            hint = "" if self._ready else self._hint
            self._give_up(f"{self._name} has not answered for {self._patience_s:g} s{hint}")
        elif now > max(self._reported_at, self._warned_at) + MESSAGE_INTERVAL_S and (
            self._jobs or not self._ready
        ):
            self._warned_at = now
            waits_for = self._waits_for
            if not (waits_for or any(job.begun for job in self._jobs.values())):
                waits_for = f"a worker of {self._name} that begins one"
            if now > self._heard_at + MESSAGE_INTERVAL_S:
                _LOG.warning(f"{self._name} has not answered for {now - self._heard_at:.0f} s")
            elif waits_for and self._ready:
                _LOG.warning(f"{counted(len(self._jobs), 'run')} to do, waiting for {waits_for}")

    def _hear(self, kind: str, content: Any) -> None:
        self._heard_at = time.monotonic()
        if kind == "ready":
            self._ready, self._patience_s = True, content
        elif kind == "say":
            _LOG.warning(content)
        elif kind == "alive":
            self._at_once, self._waits_for = content
        elif kind == "report":
            self._take(*content)
        elif kind == "lost":
            self._give_up(content)

    def _take(self, number: int, report: EngineReport) -> None:
        """Move a run to its next state, and forget it when it has ended."""
        job = self._jobs.get(number)
        if job is None or (job.begun and report.stage is Stage.BEGUN):
            return
        self._reported_at = self._heard_at
        if job.take(report, stopped=self._stopped_at is not None):
            if job.begun:
                label = job.call.task.run.label
                _LOG.warning(f"{label}: {report.why}: the run is started once more")
            self._submit(number)
        elif job.outcome is not None:
            self._peak = max(self._peak, min(len(self._jobs), self._at_once))
            job.outcome.at_once = self._peak
            del self._jobs[number]

    def _give_up(self, why: str) -> None:
        if any(job.begun for job in self._jobs.values()):
            _LOG.warning(f"{why}: its runs are interrupted; start the same command again to go on")
            why = "the cluster is lost"
        self._lost = self._lost or why
        self._end_all(self._lost)

    def _end_all(self, why: str) -> None:
        for job in self._jobs.values():
            job.end(why)
        self._jobs.clear()

    def _last_words(self) -> str:
        """The last line that the engine's process printed."""
        with contextlib.suppress(OSError):
            lines = self._log.read_text(errors="replace").split("\n")
            return quoted(next((line for line in reversed(lines) if line.strip()), ""))
        return ""
