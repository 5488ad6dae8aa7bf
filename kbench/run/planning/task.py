"""The message from a plan to the worker that executes one of its runs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class About:
    """The run that a kept model comes from; stored beside the model.

    `task` is binary, multiclass, regression or outlier; `command` reproduces the run.
    """

    key: str
    method: str
    dataset: str
    variant: str | None
    task: str
    seed: int
    params: Mapping[str, Any]
    data_sha256: str
    command: str

    def plain(self) -> dict[str, Any]:
        """As a dictionary that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Task:
    """One run, or the runs of one regularisation path, for one worker; its data are prepared.

    Attributes
    ----------
    about : About
        Names, seed and the kind of problem.
    estimator : str
        `module:Class`.
    params, warmup : mapping
        Keyword parameters of the estimator; `warmup` replaces some of them on the few rows of the
        warm-up.
    threads : int
        Number of threads of every thread pool.
    memory_mb : float or None
        The run's limit in MiB, by which rows are read in chunks.
    dataset : mapping
        The checked config of the data set, for a machine that must prepare it itself.
    datasets_dir, download
        As in the settings, for the same purpose.
    prepared : str
        Folder of the prepared arrays.
    cpus : tuple of int or None
        CPUs that the worker is bound to.
    model : str or None
        File to keep the fitted model in.
    scheduler : str or None
        Address of a Dask cluster that trains the parts of the model.
    metrics : tuple of str
        Scores beside those of the task.
    path : tuple of mappings
        If not empty, the `params` of several runs. One estimator is fitted to all of them in turn
        with `warm_start`, and their times are those of the steps.
    """

    about: About
    estimator: str
    params: Mapping[str, Any]
    warmup: Mapping[str, Any]
    threads: int
    memory_mb: float | None
    dataset: Mapping[str, Any]
    datasets_dir: str
    download: bool
    prepared: str
    cpus: tuple[int, ...] | None = None
    model: str | None = None
    scheduler: str | None = None
    metrics: tuple[str, ...] = ()
    path: tuple[Mapping[str, Any], ...] = ()

    @property
    def holdout(self) -> Mapping[str, Any] | None:
        """The part of the training rows that is held out and scored, of a trial of `tune`."""
        return self.dataset.get("holdout")

    @property
    def n_runs(self) -> int:
        """Number of results that the worker reports."""
        return max(1, len(self.path))

    def steps(self) -> Iterator["Task"]:
        """The task of each of its runs."""
        if not self.path:
            yield self
        for params in self.path:
            yield replace(self, params=params)
