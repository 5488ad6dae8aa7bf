"""Runs on other machines: Dask, Ray and SLURM, as `parallel.backend` names them.

A cluster replaces the sandbox in the runner. Each process of the cluster has its own sandbox, so
that a run has the same guard and limits as on this machine:

    runner -- engine (Dask, Ray, SLURM) -- its worker process -- fork server -- guard -- worker

If a worker process of the engine dies, its run is started once more; if that fails, too, the run is
`crashed`. Only the runner writes rows, so the machines need no common results folder. If the file
system is shared, prepared data are read from the runner's path; otherwise the machine prepares them
itself. The machine of the run writes its model, so a model is kept only on a shared file system.
"""

import contextlib
import functools
import logging
import multiprocessing
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from kbench.errors import ConfigError, DataError, KbenchError, one_line
from kbench.run.execution.dask_fit import require_package
from kbench.run.execution.guard import Outcome, State, Work
from kbench.run.execution.preload import preloading_sandbox
from kbench.run.execution.sandbox import Job, Sandbox
from kbench.run.planning.task import Task
from kbench.run.results.environment import provenance
from kbench.run.results.rows import NOT_KEPT
from kbench.settings import Limits, Settings

# How often a run is started before it is `crashed`, if the engine loses its worker process.
ATTEMPTS = 2
# Seconds between two checks whether the user has stopped the run. A shorter time ends the run
# sooner, but sends the scheduler more requests.
_STOP_POLL_S = 0.5

_LOG = logging.getLogger(__name__)


class Engine(Protocol):
    """Interface of a cluster engine."""

    def submit(self, function: Callable[..., Outcome], *args: Any) -> Future[Outcome]:
        """Call `function(*args)` in a worker process; the future fails if that process dies."""

    def stop(self, future: Future[Outcome]) -> None:
        """End a call in progress; its future is then done or cancelled."""

    def workers(self) -> int | None:
        """Worker processes that are connected; None if the engine starts them as needed."""

    def close(self) -> None:
        """Disconnect from the cluster, and end it if it was started by this process."""


class Cluster:
    """Starts guarded workers by an engine; stands in for a `Sandbox`.

    If the engine has had no worker process for `lost_s` seconds, all its runs are `interrupted`,
    which the same command repeats.

    Parameters
    ----------
    engine : Engine
    preload : estimators whose classes a worker's fork server imports.
    lost_s : float
        Seconds without any worker process after which the cluster is given up.
    poll_s : float
        Seconds between two looks for worker processes.
    """

    def __init__(
        self, engine: Engine, preload: list[str], *, lost_s: float = 30.0, poll_s: float = 1.0
    ) -> None:
        self._engine = engine
        self._preload = tuple(preload)
        self._lost_s, self._poll_s = lost_s, poll_s
        self._jobs: list[RemoteJob] = []
        self._lost, self._closed = threading.Event(), threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        """Stop looking for workers, and disconnect."""
        self._closed.set()
        self._engine.close()

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._closed.wait(self._poll_s):
            try:
                n_workers = self._engine.workers()
            except Exception:  # the scheduler does not answer, whatever the engine raises then
                n_workers = 0
            if n_workers is None:
                return
            if n_workers:
                last = time.monotonic()
            elif time.monotonic() - last >= self._lost_s:
                break
        else:
            return
        _LOG.error(
            f"the cluster has had no worker for {self._lost_s:g} s: its runs are interrupted; "
            "start workers and give the same command again"
        )
        self._lost.set()
        for job in self._jobs:
            job.give_up()

    def start(self, work: Work, task: Task, limits: Limits, n_runs: int = 1) -> "RemoteJob":
        """Run `work(task, send)` in a worker of the cluster; returns at once."""
        job = RemoteJob(self._engine, (self._preload, work, task, limits, n_runs))
        self._jobs = [*(other for other in self._jobs if not other.ended), job]
        if self._lost.is_set():
            job.give_up()
        return job


class SharedModel:
    """Starts guarded workers on this machine whose fits use a Dask cluster.

    Parameters
    ----------
    sandbox : Sandbox
    scheduler : address of the cluster's scheduler.
    """

    def __init__(self, sandbox: Sandbox, scheduler: str) -> None:
        self._sandbox, self._scheduler = sandbox, scheduler

    def start(self, work: Work, task: Task, limits: Limits, n_runs: int = 1) -> Job:
        """As `Sandbox.start`."""
        return self._sandbox.start(work, replace(task, scheduler=self._scheduler), limits, n_runs)


class RemoteJob:
    """A run on another machine; wait on `connection`, then take `news()`."""

    def __init__(self, engine: Engine, call: tuple[Any, ...]) -> None:
        self._engine = engine
        self._call = call
        self._attempts = 0
        self._interrupted = False
        self._outcome: Outcome | None = None
        self._ending = threading.Lock()
        self.state = State(phase="running on the cluster")
        self.connection, self._done = multiprocessing.Pipe(duplex=False)
        self._submit()

    def interrupt(self) -> None:
        """End the run; its outcome will be `interrupted`."""
        if not self._interrupted:
            self._interrupted = True
            self._engine.stop(self._future)

    @property
    def ended(self) -> bool:
        return self._outcome is not None

    def give_up(self) -> None:
        """End the run because the cluster has no workers."""
        self._end(Outcome("interrupted", "the cluster has no workers"))
        self._interrupted = True
        self._future.cancel()

    def news(self) -> Outcome:
        """Block until the run has ended; returns its outcome."""
        with contextlib.suppress(EOFError):
            self.connection.recv_bytes()
        self.connection.close()
        assert self._outcome is not None
        return self._outcome

    def _submit(self) -> None:
        self._attempts += 1
        self._future = self._engine.submit(run_guarded, *self._call)
        self._future.add_done_callback(self._ended)

    def _ended(self, future: Future[Outcome]) -> None:
        try:
            outcome = future.result()
        except (Exception, CancelledError) as error:
            if self._interrupted:
                outcome = Outcome("interrupted", "stopped by the user")
            elif self._attempts < ATTEMPTS:
                return self._submit()
            else:
                what = one_line(error, 200)
                message = f"its worker process was lost {ATTEMPTS} times"
                outcome = Outcome("crashed", f"{message} ({type(error).__name__}: {what})")
        return self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        with self._ending:
            if self._outcome is None:
                self._outcome = outcome
                self._done.close()


@functools.cache
def _sandbox(preload: tuple[str, ...]) -> Sandbox:
    # Dask starts daemonic processes, which multiprocessing does not allow to have children. The
    # sandbox's processes end by themselves when their parent is gone.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    return preloading_sandbox(preload)


def run_guarded(
    preload: tuple[str, ...],
    work: Work,
    task: Task,
    limits: Limits,
    n_runs: int,
    stopped: Callable[[], bool] = bool,
) -> Outcome:
    """Do one run in a sandbox of this process, on the machine of this process.

    `stopped()` is called twice a second; True ends the run.
    """
    unkept = None
    sandbox = _sandbox(preload)
    if not Path(task.prepared).is_dir():
        try:
            prepared = str(_prepared_here(task, limits, sandbox))
        except KbenchError as error:
            return Outcome("error", str(error), provenance=provenance())
        unkept = task.model
        task = replace(task, prepared=prepared, model=None)
    job = sandbox.start(work, task, limits, n_runs)
    outcome = None
    while outcome is None:
        if job.connection.poll(_STOP_POLL_S):
            outcome = job.news()
        if outcome is None and stopped():
            job.interrupt()
    for each in outcome.all:
        each.provenance = provenance()
    if unkept and outcome.status == "ok":
        outcome.message = f"{NOT_KEPT}: {platform.node()} does not share the runner's file system"
    return outcome


def _prepared_here(task: Task, limits: Limits, sandbox: Sandbox) -> Path:
    """Prepare the run's data on a machine that does not share the runner's file system."""
    from kbench.data import Folders, fingerprint
    from kbench.run.execution.preparing import prepare_guarded

    settings = Settings(datasets_dir=task.datasets_dir, download=task.download, limits=limits)
    prepared = prepare_guarded(task.dataset, settings, sandbox)
    folders = Folders.from_environment(task.datasets_dir)
    if (sha256 := fingerprint(task.dataset, folders)) != task.about.data_sha256:
        raise DataError(
            f"data set {task.dataset['name']} is another one on {platform.node()}: checksum "
            f"{sha256}, should be {task.about.data_sha256} as on the machine that runs kbench"
        )
    return prepared


@contextlib.contextmanager
def open_cluster(settings: Settings, preload: list[str]) -> Iterator[Cluster]:
    """Connect to the cluster of `parallel.backend`, or start one; disconnect at the end.

    Raises
    ------
    ConfigError
        The engine is not installed, refuses its options, or does not answer.
    """
    parallel = settings.parallel
    try:
        engine = _ENGINES[parallel.backend](settings)
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        what = one_line(error, 200)
        where = f" at parallel.address={parallel.address}" if parallel.address else ""
        raise ConfigError(
            f"parallel.backend={parallel.backend}: no cluster{where}: {what}"
        ) from None
    cluster = Cluster(engine, preload)
    try:
        yield cluster
    finally:
        cluster.close()


@contextlib.contextmanager
def scheduler_of(settings: Settings) -> Iterator[str]:
    """The address of a Dask scheduler; a local cluster, if one is started, ends with the block.

    A worker process that is lost costs what it was computing: the scheduler gives that to another.
    """
    if settings.parallel.address is not None:
        yield settings.parallel.address
        return
    with _local_dask(settings) as cluster:
        yield cluster.scheduler_address


def _local_dask(settings: Settings) -> Any:
    """A Dask cluster on this machine, with a process for each job."""
    require_package("dask", "dask")
    options = {
        "n_workers": settings.parallel.jobs,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        **settings.parallel.options,
    }
    return require_package("distributed", "dask").LocalCluster(**options)


class _Dask:
    """A Dask cluster: at the scheduler's address, or local with a process for each job."""

    def __init__(self, settings: Settings) -> None:
        dask, distributed = require_package("dask", "dask"), require_package("distributed", "dask")
        parallel = settings.parallel
        self._cluster: Any = None
        self._stop = f"kbench-stop-{uuid.uuid4().hex}"
        if parallel.address is None:
            # `RemoteJob` starts a lost run again, so the scheduler must not.
            with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
                self._cluster = _local_dask(settings)
        where = self._cluster or parallel.address
        self._client = distributed.Client(where, set_as_default=False, timeout="15s")
        self._executor = self._client.get_executor(pure=False)
        self._event = distributed.Event(self._stop, client=self._client)

    def submit(self, function: Callable[..., Outcome], *args: Any) -> Future[Outcome]:
        return self._executor.submit(function, *args, stopped=_DaskEvent(self._stop))

    def stop(self, future: Future[Outcome]) -> None:
        self._event.set()  # Dask cancels what is queued, not what runs
        future.cancel()

    def workers(self) -> int | None:
        return len(self._client.nthreads())

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


class _DaskEvent:
    """Callable that returns whether an event of the cluster is set; called in its workers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> bool:
        from distributed import Event

        return bool(Event(self._name).is_set())


class _Ray:
    """A Ray cluster: at its address, or local with a process for each job."""

    def __init__(self, settings: Settings) -> None:
        self._ray = require_package("ray", "ray")
        parallel, self._threads = settings.parallel, settings.limits.threads
        local = {"num_cpus": parallel.jobs * self._threads, "include_dashboard": False}
        self._ray.init(
            address=parallel.address,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            **({} if parallel.address else local),
            **parallel.options,
        )
        self._references: dict[Future[Outcome], Any] = {}

    def submit(self, function: Callable[..., Outcome], *args: Any) -> Future[Outcome]:
        remote = self._ray.remote(num_cpus=self._threads, max_retries=0)(function)
        reference = remote.remote(*args)
        future: Future[Outcome] = reference.future()
        self._references[future] = reference
        return future

    def workers(self) -> int | None:
        return None

    def stop(self, future: Future[Outcome]) -> None:
        self._ray.cancel(self._references[future], force=True)

    def close(self) -> None:
        self._ray.shutdown()


class _Slurm:
    """A job of the batch system for each run, by submitit.

    `parallel.options` are submitit's parameters (timeout_min, slurm_partition, ...); `cluster`
    among them is slurm, or local for processes of this machine.
    """

    def __init__(self, settings: Settings) -> None:
        submitit = require_package("submitit", "slurm")
        parallel = settings.parallel
        options = {"cpus_per_task": settings.limits.threads, **parallel.options}
        folder = Path(settings.results_dir) / "_slurm"
        self._executor = submitit.AutoExecutor(folder, cluster=options.pop("cluster", "slurm"))
        self._executor.update_parameters(**options)
        self._waiting = ThreadPoolExecutor(2 * parallel.jobs)
        self._jobs: dict[Future[Outcome], Any] = {}

    def submit(self, function: Callable[..., Outcome], *args: Any) -> Future[Outcome]:
        job = self._executor.submit(function, *args)
        future = self._waiting.submit(job.result)
        self._jobs[future] = job
        return future

    def workers(self) -> int | None:
        return None

    def stop(self, future: Future[Outcome]) -> None:
        self._jobs[future].cancel(check=False)

    def close(self) -> None:
        self._waiting.shutdown()


_ENGINES: dict[str, Callable[[Settings], Engine]] = {"dask": _Dask, "ray": _Ray, "slurm": _Slurm}
