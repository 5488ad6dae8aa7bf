"""One run of a plan, and the message with which a worker executes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kbench.run.planning.command import canonical
from kbench.settings import Limits

# What a kept model holds of its run.
_ORIGIN = [
    *("key", "method", "dataset", "variant", "task", "seed", "params"),
    *("data_sha256", "command"),
]


@dataclass(frozen=True)
class Run:
    """One run, fully resolved."""

    key: str  # hash of everything its outcome depends on
    label: str  # name among the runs of its plan, for messages
    method: str
    estimator: str  # its target, as in kbench.run.planning.registry
    dataset: str
    variant: str | None
    task: str  # binary, multiclass, regression or outlier
    data_sha256: str
    seed: int
    params: Mapping[str, Any]
    warmup: Mapping[str, Any]  # parameters that replace those of `params` in the warm-up
    dataset_config: Mapping[str, Any]
    limits: Limits
    command: str  # a command line that reproduces it
    tuned: str | None = None  # the tuned file that set some of the parameters
    tuned_sha256: str | None = None
    # Parameters along which a warm start re-uses the solution of the run before.
    path: tuple[str, ...] = ()
    experiment: str | None = None  # those of the command that ask for it, separated by commas
    method_version: int = 1  # rises when the results of the method change

    @property
    def threads(self) -> int:
        return self.limits.threads

    @property
    def path_id(self) -> str | None:
        """A text that runs have in common which differ only along the path; None without one."""
        if not self.path or {"calibration", "metric"} & set(self.params):
            return None
        rest = {key: value for key, value in self.params.items() if key not in self.path}
        return canonical([self.method, rest, self.seed, self.dataset_config, self.threads])

    @property
    def origin(self) -> dict[str, Any]:
        """What is stored in a kept model of this run, for JSON."""
        return {name: getattr(self, name) for name in _ORIGIN}


@dataclass(frozen=True)
class Task:
    """One run, or the runs of one regularisation path, for one worker; its data are prepared."""

    run: Run  # the first of the runs
    prepared: str  # folder of the prepared arrays
    datasets_dir: str  # with `download`, for a machine that must prepare the data set itself
    download: bool
    metrics: tuple[str, ...] = ()  # scores beside those of the task
    cpus: tuple[int, ...] | None = None  # CPUs that the worker is bound to
    model: str | None = None  # file to keep the fitted model in
    scheduler: str | None = None  # address of a Dask cluster that trains the parts of the model
    # If not empty, the `params` of several runs. One estimator is fitted to all of them in turn
    # with `warm_start`, and their times are those of the steps.
    path: tuple[Mapping[str, Any], ...] = ()

    @property
    def holdout(self) -> Mapping[str, Any] | None:
        """The part of the training rows that is held out and scored, of a trial of `tune`."""
        return self.run.dataset_config.get("holdout")

    @property
    def n_runs(self) -> int:
        """Number of results that the worker reports."""
        return max(1, len(self.path))

    def steps(self) -> Iterator["Task"]:
        """The task of each of its runs."""
        if not self.path:
            yield self
        for params in self.path:
            yield replace(self, run=replace(self.run, params=params))
