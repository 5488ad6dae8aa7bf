"""Start runs in separate processes, under limits that a run cannot evade.

A fork server that has imported the numerical packages forks a guard for each run, and the guard
forks the worker (`kbench.run.execution.guard` gives the reasons):

    runner -- fork server -- guard -- worker -- whatever the method starts
"""

import contextlib
import importlib.machinery
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import spawn
from multiprocessing.connection import Connection, wait
from typing import Any

from kbench.errors import KbenchError
from kbench.run.execution.guard import RunOutcome, RunState, Work, guard
from kbench.run.execution.temporary import runner_folder
from kbench.settings import Limits
from kbench.signals import deferred
from kbench.streams import describe

# Guard: attempts to start a worker before the command gives up. A fork server that was killed is
# started again each time.
_STARTS = 5
# Seconds between two attempts, so that a killed process can end. Set by hand.
_PAUSE_S = 0.05
# The environment variable that names the main module of the command to its fork server.
_MAIN = "KBENCH_MAIN_MODULE"


class Sandbox:
    """Starts guarded workers from one fork server.

    preload : Names of modules that the fork server imports once. Their imports must start no
        threads, which would not survive a fork.
    environment : Environment variables of the fork server.
    """

    def __init__(
        self, preload: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._preload = list(preload)
        self._environment = dict(environment or {})
        self._ready = False

    def start(
        self, work: Work, task: Any, limits: Limits, n_runs: int = 1, *, show: bool = False
    ) -> "Job":
        """Run `work(task, send)` in a worker; returns when the worker exists.

        The limits `wall_s` and `cpu_s` count from the worker's message {"event": "start"} on.
        `n_runs` is the number of results that the worker reports, each under the same limits. With
        `show` the worker's output goes to the runner's output and not into a log.

        Raises KbenchError: the fork server cannot be started, or ends `_STARTS` times.
        """
        # One socket would lose the guard's last messages if the guard ended with unread input.
        report, report_end = self._context.Pipe(duplex=False)
        control_end, control = self._context.Pipe(duplex=False)
        arguments = (control_end, report_end, work, task, limits, n_runs, show)
        for _ in range(_STARTS):
            process = self._context.Process(target=guard, args=arguments)
            try:
                self.prepare()
                # A signal here would cut off the guard's arguments, and it would print a traceback.
                with deferred():
                    process.start()
                break
            except (OSError, EOFError) as error:
                self._ready = False
                reason = describe(error) if isinstance(error, OSError) else "it has ended"
                time.sleep(_PAUSE_S)
        else:
            if not runner_folder().is_dir():
                raise KbenchError(
                    f"no worker can be started: the folder {runner_folder()} was removed; start "
                    "the same command again"
                )
            raise KbenchError(
                f"no worker can be started: the fork server ended {_STARTS} times "
                f"({reason}); is the machine out of memory or processes?"
            )
        control_end.close()
        report_end.close()
        return Job(process, report, control)

    def ready(self, jobs: Sequence["Job"], timeout: float) -> list["Job"]:
        """Jobs with a message; waits at most `timeout` seconds for the first one."""
        job_of = {job.connection: job for job in jobs}
        return [job_of[connection] for connection in wait(list(job_of), timeout)]  # type: ignore[index]

    def call(self, work: Work, task: Any, limits: Limits, *, show: bool = False) -> RunOutcome:
        """The outcome of `work(task, send)` in a worker, started once more if it was killed."""
        outcome = self.start(work, task, limits, show=show).outcome()
        if outcome.status == "crashed" and "kill" in outcome.message:
            outcome = self.start(work, task, limits, show=show).outcome()
        return outcome

    def prepare(self) -> None:
        """Start the fork server unless it runs; its imports go on after this call returns."""
        if self._ready and not _server_has_ended():
            return
        from multiprocessing import forkserver

        runner_folder()
        # Libraries in the server get one thread, because a pool of threads does not survive a fork.
        one_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
        )
        # Without PYTHONSAFEPATH, Python would import a file such as random.py from the working
        # directory.
        changed = one_thread | {"PYTHONSAFEPATH": "1"} | _main_module() | self._environment
        before = {name: os.environ.get(name) for name in changed}
        os.environ.update(changed)
        try:
            self._context.set_forkserver_preload([__name__, *self._preload])
            with deferred():
                forkserver.ensure_running()
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self._ready = True


def _server_has_ended() -> bool:
    """Whether the fork server has ended; False if the system cannot show that.

    If this were not checked, multiprocessing would start the next server itself, in an environment
    without the settings of `Sandbox.prepare`.
    """
    from multiprocessing import forkserver

    pid = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    if pid is None or not hasattr(os, "waitid"):
        return False
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Job:
    """A run in progress: wait for `connection`, then call `news()`; `state` is the last state."""

    def __init__(self, process: Any, connection: Connection, control: Connection) -> None:
        self._process = process
        self._control = control
        self.connection = connection
        self.state = RunState()

    def interrupt(self) -> None:
        """Ask the guard to end the run, whose outcome then is `interrupted`."""
        with contextlib.suppress(OSError):
            self._control.send("interrupt")

    def news(self) -> RunOutcome | None:
        """Wait for one message; returns the outcome, or None if the message changed `state`.

        If the guard ended without a report, the outcome is `crashed`.
        """
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            message = RunOutcome("crashed", "the guard of the run was killed")
        if isinstance(message, RunState):
            self.state = message
            return None
        self.connection.close()
        self._control.close()
        self._process.join()
        self._process.close()
        outcome: RunOutcome = message
        return outcome

    def outcome(self) -> RunOutcome:
        """Block until the run has ended."""
        while (outcome := self.news()) is None:
            pass
        return outcome


def _main_module() -> dict[str, str]:
    """Environment variables by which the fork server's children do not import the main module.

    multiprocessing runs the script of the command again in each child, unless the main module of
    the fork server has the same name or file. A guard does not need the script, and the script of a
    Dask or Ray worker would import the whole library for every run.
    """
    main = spawn.get_preparation_data("kbench")
    return {_MAIN: json.dumps([main.get(f"init_main_from_{key}") for key in ("name", "path")])}


if _MAIN in os.environ:  # only in a fork server, which imports this module first
    _name, _file = json.loads(os.environ.pop(_MAIN))
    if _name is not None:
        sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec(_name, None)
    elif _file is not None:
        sys.modules["__main__"].__file__ = _file
