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
    """One run, fully resolved.

    Attributes
    ----------
    key : hash of everything its outcome depends on. command : a command line that reproduces it.
    label : name among the runs of its plan, for messages.
    estimator : `module:Class`. params, warmup : its keyword parameters; `warmup` replaces some of
        them on the few rows of the warm-up.
    task : binary, multiclass, regression or outlier.
    dataset_config : the checked config of the data set.
    tuned, tuned_sha256 : the tuned file that set some of the parameters, and its hash.
    path : parameters along which a warm start re-uses the solution of the run before.
    experiment : the experiments of the command that ask for it, separated by commas.
    method_version : `meta.version` of the method, which rises when its results change.
    """

    key: str
    label: str
    method: str
    estimator: str
    dataset: str
    variant: str | None
    task: str
    data_sha256: str
    seed: int
    params: Mapping[str, Any]
    warmup: Mapping[str, Any]
    dataset_config: Mapping[str, Any]
    limits: Limits
    command: str
    tuned: str | None = None
    tuned_sha256: str | None = None
    path: tuple[str, ...] = ()
    experiment: str | None = None
    method_version: int = 1

    @property
    def threads(self) -> int:
        """Number of threads that the run may use."""
        return self.limits.threads

    @property
    def path_id(self) -> str | None:
        """The same for runs that differ only along the path; None for runs without one."""
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
    """One run, or the runs of one regularisation path, for one worker; its data are prepared.

    Attributes
    ----------
    run : The first of the runs
    prepared : Folder of the prepared arrays
    datasets_dir, download : As in the settings, for a machine that must prepare the data set itself
    metrics : tuple of str. Scores beside those of the task.
    cpus : tuple of int or None. CPUs that the worker is bound to.
    model : File to keep the fitted model in
    scheduler : Address of a Dask cluster that trains the parts of the model
    path : tuple of mappings
        If not empty, the `params` of several runs. One estimator is fitted to all of them in turn
        with `warm_start`, and their times are those of the steps.
    """

    run: Run
    prepared: str
    datasets_dir: str
    download: bool
    metrics: tuple[str, ...] = ()
    cpus: tuple[int, ...] | None = None
    model: str | None = None
    scheduler: str | None = None
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
