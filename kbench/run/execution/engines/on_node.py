"""Do a run on a machine of a cluster, under a guard as on the runner's machine."""

import functools
import multiprocessing
import os
import platform
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from kbench import __version__
from kbench.errors import DataError, KbenchError
from kbench.run.execution.guard import RunOutcome, Work
from kbench.run.execution.preload import preloading_sandbox
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning.task import Task
from kbench.run.results.environment import provenance
from kbench.run.results.rows import NOT_KEPT
from kbench.settings import Limits

# Seconds between two checks whether the user has stopped the run. A shorter time ends the run
# sooner, but sends the scheduler more requests. Set by hand.
_STOP_POLL_S = 0.5


@dataclass(frozen=True)
class Proof:
    """A file, written for this sweep, that shows whether a machine shares a folder of the runner.

    An equal path does not show it, because machines with own disks may have equal paths.
    """

    name: str = field(default_factory=lambda: f".shared-{uuid.uuid4().hex}")

    def write(self, folder: Path) -> Path | None:
        """Write the file into `folder`; returns its path, or None if that is not possible."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / self.name).touch()
        except OSError:
            return None
        return folder / self.name

    def holds(self, folder: Path) -> bool:
        """Whether this machine shares the runner's `folder`."""
        return (folder / self.name).is_file()


@dataclass(frozen=True)
class Call:
    """A task for a machine of the cluster, with the arguments of `Sandbox.start`."""

    preload: tuple[str, ...]  # estimators whose classes the fork server imports
    work: Work
    task: Task
    limits: Limits
    n_runs: int
    proof: Proof
    model_mb: float  # maximum MiB of a model that is sent back if the results folder is not shared
    version: str = __version__  # version of kbench on the runner's machine


@functools.cache
def _sandbox(preload: tuple[str, ...]) -> Sandbox:
    # Dask's processes are daemonic, and multiprocessing refuses children of daemonic processes. The
    # sandbox's processes end by themselves when their parent has ended.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    return preloading_sandbox(preload)


def run_guarded(call: Call, stopped: Callable[[], bool] = bool) -> RunOutcome:
    """Do one run in a sandbox of this process, on the machine of this process.

    stopped : A function that is called twice a second; True ends the run. `bool` is always False.
    """
    if call.version != __version__:
        message = f"kbench {__version__} is on {platform.node()}, should be {call.version} as here"
        return RunOutcome("unavailable", message, provenance=provenance())
    if call.limits.threads > (n_cpus := os.cpu_count() or 1):
        message = f"limits.threads is {call.limits.threads}, {platform.node()} has {n_cpus} CPUs"
        return RunOutcome("unavailable", message, provenance=provenance())
    task, sandbox = call.task, _sandbox(call.preload)
    if not (call.proof.holds(Path(task.prepared).parent) and Path(task.prepared).is_dir()):
        try:
            task = replace(task, prepared=str(prepared_here(task, sandbox)))
        except KbenchError as error:
            message = f"{error} (on {platform.node()})"
            return RunOutcome("error", message, provenance=provenance())
    if task.model is None or call.proof.holds(Path(task.model).parents[1]):
        return _run(replace(call, task=task), sandbox, stopped)
    with tempfile.TemporaryDirectory() as scratch:
        model_file = Path(scratch, *Path(task.model).parts[-2:])
        outcome = _run(replace(call, task=replace(task, model=str(model_file))), sandbox, stopped)
        if outcome.status == "ok" and model_file.is_file():
            _send_along(outcome, model_file, call)
    return outcome


def _run(call: Call, sandbox: Sandbox, stopped: Callable[[], bool]) -> RunOutcome:
    began = datetime.now(UTC)
    job = sandbox.start(call.work, call.task, call.limits, call.n_runs)
    outcome = None
    while outcome is None:
        if job.connection.poll(_STOP_POLL_S):
            outcome = job.news()
        if outcome is None and stopped():
            job.interrupt()
    for result in outcome.all:
        result.provenance, result.began = provenance(), began
    return outcome


def _send_along(outcome: RunOutcome, model_file: Path, call: Call) -> None:
    """Add a small model to the outcome; for a larger one, add a message that it is not kept."""
    model_mib = model_file.stat().st_size / 2**20
    if model_mib <= call.model_mb:
        outcome.model = model_file.read_bytes()
        return
    outcome.result["row"].pop("model")
    outcome.message = (
        f"{NOT_KEPT}: {platform.node()} does not share the runner's folder "
        f"{Path(str(call.task.model)).parents[1]}, and the model of {model_mib:.3g} MiB is larger "
        f"than parallel.model_mb={call.model_mb:g}"
    )


def prepared_here(task: Task, sandbox: Sandbox) -> Path:
    """Prepare the run's data on a machine that does not share the runner's file system."""
    from kbench.data import Folders, fingerprint
    from kbench.run.execution.preparing import prepare_in_child

    folders, config = Folders.from_environment(task.datasets_dir), task.run.dataset_config
    memory_mb = task.run.limits.memory_mb
    prepared = prepare_in_child(config, folders, memory_mb, sandbox, download=task.download)
    if (sha256 := fingerprint(config, folders)) != task.run.data_sha256:
        raise DataError(
            f"data set {task.run.dataset} differs on {platform.node()}: checksum "
            f"{sha256}, should be {task.run.data_sha256} as on the machine that runs kbench"
        )
    return prepared
