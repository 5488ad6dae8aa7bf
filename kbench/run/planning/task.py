"""A run of a plan, and the task that a worker gets for it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kbench.run.planning.command import canonical
from kbench.settings import Limits

# Attributes of its run that a stored model holds.
_ORIGIN_ATTRIBUTES = [
    *("key", "method", "dataset", "variant", "task", "seed", "params"),
    *("data_sha256", "command"),
]


@dataclass(frozen=True)
class Run:
    """A run: a method with parameters on a data set with a seed."""

    key: str  # hash of everything on which the outcome depends
    label: str  # name among the runs of the plan, for messages
    method: str
    estimator: str  # the target, as in kbench.run.planning.registry
    dataset: str
    variant: str | None
    task: str  # binary, multiclass, regression or outlier
    data_sha256: str
    seed: int
    params: Mapping[str, Any]
    warmup: Mapping[str, Any]  # parameters that override `params` in the warm-up
    dataset_config: Mapping[str, Any]
    # Canonical texts of `params` and `dataset_config`, which a plan of many runs compares often.
    params_key: str
    data_key: str
    limits: Limits
    command: str  # a command line that reproduces the run
    tuned: str | None = None  # the tuned file that set some of the parameters
    tuned_sha256: str | None = None
    # Parameters along which a warm start re-uses the solution of the previous run.
    path: tuple[str, ...] = ()
    experiment: str | None = None  # experiments that contain the run, separated by commas
    method_version: int = 1  # rises when the results of the method change

    @property
    def threads(self) -> int:
        return self.limits.threads

    @property
    def path_id(self) -> str | None:
        """A text that is equal for runs that differ only along the path; None without a path.

        None also with `calibration` or `metric`, whose wrappers have no warm start.
        """
        if not self.path or {"calibration", "metric"} & set(self.params):
            return None
        other_params = {key: value for key, value in self.params.items() if key not in self.path}
        return canonical([self.method, other_params, self.seed, self.data_key, self.threads])

    @property
    def origin(self) -> dict[str, Any]:
        """Attributes for the stored model, as JSON types."""
        return {name: getattr(self, name) for name in _ORIGIN_ATTRIBUTES}


@dataclass(frozen=True)
class Task:
    """A run, or the runs of a regularisation path, for a worker; the data are prepared."""

    run: Run  # the first of the runs
    prepared: str  # folder of the prepared arrays
    datasets_dir: str  # with `download`, for a machine that has to prepare the data set itself
    download: bool
    metrics: tuple[str, ...] = ()  # additional scores
    cpus: tuple[int, ...] | None = None  # CPUs to which the worker is bound
    model: str | None = None  # file for the fitted model
    scheduler: str | None = None  # address of the Dask scheduler that joblib uses in the fit
    # The `params` of each run of a regularisation path, or empty. One estimator is fitted with each
    # of them in turn and with `warm_start`.
    path: tuple[Mapping[str, Any], ...] = ()

    @property
    def holdout(self) -> Mapping[str, Any] | None:
        """`dataset.holdout` of a trial of `kbench tune`; None for other runs."""
        return self.run.dataset_config.get("holdout")

    @property
    def n_runs(self) -> int:
        """Number of results that the worker reports."""
        return max(1, len(self.path))

    def steps(self) -> Iterator["Task"]:
        """The task of each run."""
        if not self.path:
            yield self
        for params in self.path:
            run = replace(self.run, params=params, params_key=canonical(params))
            yield replace(self, run=run)
