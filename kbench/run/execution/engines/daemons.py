"""Engines with permanent schedulers and workers: Dask and Ray."""

import contextlib
import importlib
import logging
import time
import uuid
from collections import deque
from collections.abc import Iterator
from typing import Any

from kbench.errors import ConfigError, counted, quoted, with_type
from kbench.run.execution.engines.on_node import Call, run_guarded
from kbench.run.execution.engines.states import ClusterLostError, EngineReport, Say, Stage
from kbench.run.execution.guard import RunOutcome
from kbench.settings import Settings

# Guard: seconds without any worker process after which the cluster is given up.
_LOST_S = 30.0
# Seconds between two requests for the list of worker processes. More frequent requests notice lost
# workers sooner and load the scheduler. Set by hand.
_POLL_S = 1.0
# Guard: seconds after which a request that the scheduler has not answered is given up.
_ANSWER_S = 10.0


class _Daemons:
    """Base of Dask and Ray, which counts workers and gives a cluster without workers up.

    Subclasses override `_ask`, which asks the scheduler how many runs its workers can do at the
    same time. `_ask` may raise any exception if the scheduler does not answer.
    """

    # Short, because most calls of `reports` send no request. Set by hand.
    poll_s = 0.02
    patience_s = 30.0  # guard: above `_ANSWER_S`, for which one request may wait
    keeps_runs = False
    _remedy = "start workers"  # for a cluster without any worker

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._n_slots = settings.parallel.jobs
        self._seen = self._polled = time.monotonic()

    def _ask(self) -> int:
        raise NotImplementedError

    def _check_workers(self) -> None:
        """Count the workers; give the cluster up after `_LOST_S` seconds without any."""
        if time.monotonic() < self._polled + _POLL_S:
            return
        no_answer = ""
        try:
            self._n_slots = self._ask()
        except Exception as error:  # libraries raise exceptions of many classes
            self._n_slots = 0
            no_answer = f", and its scheduler does not answer ({type(error).__name__})"
        now = time.monotonic()
        # If this process was stopped, the workers may have been there meanwhile.
        self._seen += max(0.0, now - self._polled - _POLL_S - _ANSWER_S)
        self._polled = now
        if self._n_slots:
            self._seen = self._polled
        elif self._polled - self._seen >= _LOST_S:
            raise ClusterLostError(
                f"the cluster has had no worker for {_LOST_S:g} s{no_answer}; {self._remedy}"
            )

    def announce_stop(self) -> None:
        pass  # only the scheduler reaches the workers

    def at_once(self) -> int:
        return max(1, min(self._n_slots, self._settings.parallel.jobs))

    def waits_for(self) -> str | None:
        return None  # the runner itself warns if no worker begins a run


@contextlib.contextmanager
def scheduler_of(settings: Settings) -> Iterator[str]:
    """The address of a Dask scheduler: `parallel.address`, or the address of a new cluster on this
    machine with a process for each job, which ends with the `with` block.
    """
    distributed = require_package("distributed", "dask")
    if settings.parallel.address is not None:
        yield settings.parallel.address
        return
    options = {
        "n_workers": settings.parallel.jobs,
        "threads_per_worker": 1,
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
        **settings.parallel.options,
    }
    with distributed.LocalCluster(**options) as cluster:
        yield cluster.scheduler_address


class Dask(_Daemons):
    """A Dask cluster at `parallel.address`, or a local one with a process for each job."""

    def __init__(self, settings: Settings, _: Say) -> None:
        super().__init__(settings)
        dask, distributed = require_package("dask", "dask"), require_package("distributed", "dask")
        self._on_close = contextlib.ExitStack()
        # The runner starts a lost run again, so the scheduler must not do so.
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
            address = self._on_close.enter_context(scheduler_of(settings))
        # Guard: 15 s for the connection.
        client = distributed.Client(address, set_as_default=False, timeout="15s")
        self._client = self._on_close.enter_context(client)
        self._sweep = f"kbench-{uuid.uuid4().hex}"
        self._begun: deque[int] = deque()
        self._client.subscribe_topic(self._sweep, lambda event: self._begun.append(event[1]))
        self._futures: dict[int, Any] = {}
        self._stopping = False
        # Address of a worker -> its last heartbeat and the time when that was read.
        self._beats: dict[str, tuple[Any, float]] = {}
        self._n_silent = 0  # workers that have sent no heartbeat for `_LOST_S`

    def submit(self, number: int, call: Call) -> None:
        arguments = self._sweep, number, call
        self._futures[number] = self._client.submit(_run_in_dask, *arguments, pure=False)

    def reports(self) -> Iterator[tuple[int, EngineReport]]:
        # The end of a run is read first, because Dask reports its beginning before its end.
        finished = [entry for entry in self._futures.items() if entry[1].status != "pending"]
        while self._begun:
            yield self._begun.popleft(), EngineReport(Stage.BEGUN)
        for number, future in finished:
            del self._futures[number]
            if future.status in ("cancelled", "lost"):
                yield number, self._cancelled()
                continue
            try:
                report = EngineReport(Stage.FINISHED, outcome=future.result(timeout=_ANSWER_S))
            except Exception as error:
                report = EngineReport(Stage.LOST, quoted(with_type(error)), again=True)
            yield number, report
        if self._client.status == "closed":
            self._cancelled()
        self._check_workers()

    def _cancelled(self) -> EngineReport:
        """The report of a cancelled run; raises ClusterLostError if `stop` did not cancel it."""
        if self._stopping:
            return EngineReport(Stage.CANCELLED)
        if self._client.status == "running":
            raise ClusterLostError("another client has restarted the cluster or cancelled its runs")
        raise ClusterLostError(
            "the cluster has had no worker since its scheduler was lost; start both again"
        )

    def _ask(self) -> int:
        """Slots of the workers that send heartbeats: Dask itself takes a worker whose process is
        stopped for alive, for five minutes."""
        ask = self._client.scheduler.identity
        workers = self._client.sync(ask, callback_timeout=_ANSWER_S)["workers"]
        now, before = time.monotonic(), self._beats
        self._beats = {}
        for address, worker in workers.items():
            beat, since = before.get(address, (None, now))
            last = worker["last_seen"]
            self._beats[address] = (last, now if last != beat else since)
        answering = [a for a, (_, since) in self._beats.items() if now - since < _LOST_S]
        self._n_silent = len(workers) - len(answering)
        return sum(workers[address]["nthreads"] for address in answering)

    def waits_for(self) -> str | None:
        if not self._n_silent:
            return None
        workers = counted(self._n_silent, "worker")
        return f"{workers} of {len(self._beats)}, silent for more than {_LOST_S:g} s"

    def stop(self) -> None:
        self._stopping = True
        with contextlib.suppress(Exception):  # the scheduler may be lost
            ask = self._client.scheduler.event_set
            self._client.sync(ask, name=self._sweep, callback_timeout=_ANSWER_S)
            self._client.cancel(list(self._futures.values()))

    def close(self) -> None:
        self._on_close.close()


def _run_in_dask(sweep: str, number: int, call: Call) -> RunOutcome:
    """Do a run in a worker of Dask, until an event with the name of the sweep is set."""
    from distributed import Event, get_worker

    # A scheduler that somebody else has started gives the task of a lost worker to another one.
    begun = Event(str(get_worker().get_current_task()))
    if begun.is_set():
        raise RuntimeError("the worker process that had begun the run was lost")
    begun.set()
    get_worker().log_event(sweep, number)
    try:
        return run_guarded(call, Event(sweep).is_set)
    finally:
        begun.clear()  # the scheduler keeps events that are set


class Ray(_Daemons):
    """A Ray cluster at `parallel.address`, or a local one with a process for each job."""

    def __init__(self, settings: Settings, _: Say) -> None:
        super().__init__(settings)
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
        self._remote = self._ray.remote(num_cpus=self._threads, max_retries=0)(_run_in_ray)
        # Number of a run -> generator of two references: to None when it begins, to its outcome.
        self._streams: dict[int, Any] = {}

    def submit(self, number: int, call: Call) -> None:
        self._streams[number] = self._remote.remote(call)

    def reports(self) -> Iterator[tuple[int, EngineReport]]:
        for number, stream in list(self._streams.items()):
            if not self._ray.wait([stream], timeout=0)[0]:
                continue
            try:
                outcome = self._ray.get(next(stream), timeout=_ANSWER_S)
                report = EngineReport(
                    Stage.BEGUN if outcome is None else Stage.FINISHED, outcome=outcome
                )
            except self._ray.exceptions.OutOfMemoryError as error:
                report = EngineReport(
                    Stage.LOST, f"out of memory: {quoted(with_type(error))}", status="memory"
                )
            except Exception as error:
                report = EngineReport(Stage.LOST, quoted(with_type(error)), again=True)
            if report.stage is not Stage.BEGUN:
                del self._streams[number]
            yield number, report
        self._check_workers()

    def _ask(self) -> int:
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        cpus = [node.get("CPU", 0) for node in nodes]
        if cpus:
            self._remedy = (
                f"start a node with CPUs for limits.threads={self._threads}, the largest of "
                f"{counted(len(cpus), 'node')} has {max(cpus):g}"
            )
        return sum(int(n // self._threads) for n in cpus)

    def stop(self) -> None:
        for stream in self._streams.values():
            self._ray.cancel(stream, force=True)

    def close(self) -> None:
        self._ray.shutdown()


def _run_in_ray(call: Call) -> Iterator[RunOutcome | None]:
    """Do a run in a worker of Ray: yields None when the run begins, then its outcome."""
    yield None
    yield run_guarded(call)


def require_package(module: str, extra: str) -> Any:
    """Import the module of an engine; raises ConfigError that names the extra if it is absent."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"parallel.backend={extra} needs the package {error.name}: "
            f"pip install 'kbench[{extra}]'"
        ) from None
