"""The keys of a command other than its method, data set and plan, typed and checked."""

import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from kbench.errors import ConfigError, one_line

BACKENDS = ("loky", "dask", "ray", "slurm")
RERUN = ("none", "failed", "changed", "all")
ON_ERROR = ("continue", "stop")

# Key of `parallel` that not every backend uses -> the backends that do.
_USED_BY = {"address": ("dask", "ray"), "options": BACKENDS[1:], "runs_per_job": ("slurm",)}

# Largest number of characters of a tag, which reports show. Set by hand.
_MAX_TAG_CHARS = 100

# Names of added scores (`kbench.run.results.added_scores`), which reports read, too.
SCORE = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.]*)?")

# End of a key -> the unit of its value, in words.
_UNITS = {"_s": "a number of seconds", "_mb": "a number of MiB"}

# Parameters of a job, as `sbatch` and submitit call them: those that a key of kbench sets, those
# that would give a run several tasks, and those that kbench sets itself.
_SET_BY_KEY = {
    **dict.fromkeys(("time", "timeout_min"), "timeout_min"),
    **dict.fromkeys(("mem", "mem_gb", "mem_per_cpu", "mem_per_gpu"), "mem_gb"),
    "cpus_per_task": "cpus_per_task",
}
_TASKS = ("nodes", "ntasks", "ntasks_per_node", "tasks_per_node")
_SET_BY_KBENCH = ("name", "job_name", "array", "output", "error", "signal", "wait")

# Number of runs that wait for jobs of SLURM at a time. Each run costs a file and a reservation, and
# a job that finds no waiting run ends. Set by hand.
_MAX_WAITING_RUNS = 1000
# With `parallel.runs_per_job=auto` a job of SLURM begins runs for `BEGIN_S` seconds, because the
# start of a job costs seconds. Set by hand. SLURM warns a job of submitit `_WARNING_LEAD_S` seconds
# before its time limit (submitit's default).
BEGIN_S, _WARNING_LEAD_S = 300, 90
# Seconds and GB of a job of SLURM whose runs have no limits. Set by hand.
_DEFAULT_JOB_S, _DEFAULT_JOB_GB = 7200.0, 8
# Seconds between two messages of a command that waits. Set by hand.
MESSAGE_INTERVAL_S = 30.0


@dataclass
class Limits:
    """Limits of one run; null means no limit.

    wall_s : seconds of fit, predict, scoring and keeping the model. cpu_s : CPU seconds of these
    steps, summed over all processes of the run. memory_mb : MiB beyond what a worker holds before
    the run starts. setup_s : seconds to load the prepared data and warm up. threads : number of
    threads of BLAS, OpenMP and numba, and of CPUs of the run's affinity. Defaults are set by hand.
    """

    wall_s: float | None = 3600.0
    cpu_s: float | None = None
    memory_mb: float | None = None
    setup_s: float = 120.0
    threads: int = 1


@dataclass
class Parallel:
    """Where runs are done, and how many at the same time.

    backend : loky runs guarded processes on this machine; dask, ray and slurm use a cluster.
    jobs : number of simultaneous runs, which rows record, because more than one per machine
    disturbs the timings. address : address of a running Dask scheduler or Ray cluster; by default a
    local one is started. options : arguments of the engine, or submitit's parameters of a job.
    model_mb : largest MiB of a model that a machine with its own disk sends back. runs_per_job :
    number of runs that a job of SLURM does one after the other; auto means as many as begin within
    five minutes. split : whether a cluster divides the runs of a plan, or each run's model.
    Defaults are set by hand.
    """

    backend: str = "loky"
    jobs: int = 1
    address: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    split: str = "runs"
    model_mb: float = 64.0
    runs_per_job: Any = "auto"

    @property
    def is_local(self) -> bool:
        """Whether guarded processes of this machine do the runs."""
        return self.backend == "loky" or self.split == "model"

    @property
    def at_once(self) -> int:
        """Number of runs at the same time."""
        return 1 if self.split == "model" else self.jobs

    @property
    def in_flight(self) -> int:
        """Number of runs that the runner hands over at a time; jobs of SLURM take several."""
        return max(self.jobs, _MAX_WAITING_RUNS) if self.backend == "slurm" else self.at_once

    def slurm_options(self, limits: Limits) -> dict[str, Any]:
        """Parameters of a job for submitit: the user's `options`, and defaults from `limits`.

        A job begins runs for `BEGIN_S` seconds, and the last of these runs may take all of its
        limits. kbench itself takes about 0.5 GB, so a job gets 1 GB more than a run.
        """
        needed_s, memory_gb = _DEFAULT_JOB_S, _DEFAULT_JOB_GB
        run_s = math.inf if limits.wall_s is None else limits.wall_s + limits.setup_s
        if math.isfinite(run_s):
            needed_s = BEGIN_S + _WARNING_LEAD_S + run_s
        if limits.memory_mb is not None and math.isfinite(limits.memory_mb):
            memory_gb = math.ceil(limits.memory_mb / 1024 + 1)
        return {
            "cpus_per_task": limits.threads,
            "timeout_min": math.ceil(needed_s / 60),
            "mem_gb": memory_gb,
            **{name: value for name, value in self.options.items() if value is not None},
        }


@dataclass
class Settings:
    """The keys of kbench other than method, dataset, grid and plan."""

    seed: int = 0
    results_dir: str = "results"
    datasets_dir: str = "datasets"
    download: bool = True
    rerun: str = "none"
    keep_model: bool = False
    tag: str | None = None
    metrics: list[str] = field(default_factory=list)
    callbacks: list[str] = field(default_factory=list)
    on_error: str = "continue"
    limits: Limits = field(default_factory=Limits)
    parallel: Parallel = field(default_factory=Parallel)


def settings(config: Mapping[str, Any], overrides: Collection[str] = ()) -> Settings:
    """The keys of `Settings` in a composed config, typed and checked.

    overrides : words of the command, which tell the user's limits from defaults

    Raises ConfigError: a value is wrong; the message has the key, the value and the valid values.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    composed = {f.name: config[f.name] for f in fields(Settings) if f.name in config}
    composed.pop("seed", None)
    try:
        typed = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Settings), composed))
    except OmegaConfBaseException as error:
        key = str(getattr(error, "full_key", None) or getattr(error, "key", "?"))
        match = re.match(r"Value '(.*)' of type '\w+' could not be converted to (\w+)", str(error))
        if match and match[2] in ("Float", "Integer"):
            expected = "a number" if match[2] == "Float" else "a whole number"
            unit = next((u for end, u in _UNITS.items() if key.endswith(end)), expected)
            raise ConfigError(f"{key} is {match[1]!r}, should be {unit}") from None
        if unknown := re.match(r"Key '(\w+)' not in '(Limits|Parallel)'", str(error)):
            type_ = Limits if unknown[2] == "Limits" else Parallel
            names = ", ".join(f.name for f in fields(type_))
            raise ConfigError(f"no key is called {key!r}, should be one of {names}") from None
        if re.match("Incompatible value 'None'", str(error)):
            raise ConfigError(
                f"{key} is null, should have a value; without the key its default holds"
            ) from None
        if match := re.match(r"Value '(.*)' is not a valid bool", str(error)):
            raise ConfigError(f"{key} is {match[1]!r}, should be true or false") from None
        if isinstance(getattr(Settings(), key, None), list):
            value = composed[key]
            content = value if isinstance(value, str) else "NAME"
            raise ConfigError(f"{key} is {value!r}, should be a list: {key}=[{content}]") from None
        raise ConfigError(f"{key}: {one_line(str(error).split(chr(10))[0])}") from None
    assert isinstance(typed, Settings)
    for name in ("wall_s", "cpu_s", "memory_mb", "setup_s", "threads"):
        value = getattr(typed.limits, name)
        if value is not None and not value > 0:
            raise ConfigError(f"limits.{name} is {value}, should be above 0")
    n_cpus = os.cpu_count() or 1
    if typed.parallel.is_local and typed.limits.threads > n_cpus:
        raise ConfigError(
            f"limits.threads is {typed.limits.threads}, this machine has {n_cpus} CPUs"
        )
    if typed.parallel.jobs < 1:
        raise ConfigError(f"parallel.jobs is {typed.parallel.jobs}, should be 1 or more")
    if typed.parallel.split not in ("runs", "model"):
        raise ConfigError(f"parallel.split is {typed.parallel.split!r}, should be runs or model")
    if typed.parallel.split == "model" and typed.parallel.backend != "dask":
        raise ConfigError(
            f"parallel.split=model needs parallel=dask, parallel.backend is "
            f"{typed.parallel.backend}"
        )
    if typed.parallel.backend not in BACKENDS:
        raise ConfigError(
            f"parallel.backend is {typed.parallel.backend!r}, should be one of "
            f"{', '.join(BACKENDS)}"
        )
    _check_used(typed.parallel)
    _check_slurm(typed, overrides)
    if not typed.results_dir:
        raise ConfigError("results_dir is empty; write results_dir=FOLDER, or leave it out")
    if typed.rerun not in RERUN:
        raise ConfigError(f"rerun is {typed.rerun!r}, should be one of {', '.join(RERUN)}")
    if typed.on_error not in ON_ERROR:
        raise ConfigError(f"on_error is {typed.on_error!r}, should be one of {', '.join(ON_ERROR)}")
    _check_tag(typed.tag)
    for name in typed.metrics:
        if not SCORE.fullmatch(name):
            raise ConfigError(
                f"metrics names {name!r}, should be names of scores, as in "
                "metrics=[log_loss,matthews_corrcoef,package.module:function]"
            )
    for name in typed.callbacks:
        if ":" not in name or not SCORE.fullmatch(name):
            raise ConfigError(f"callbacks names {name!r}, should be package.module:function")
    return typed


def _check_tag(tag: str | None) -> None:
    """Refuse a tag that a report could not select by `tag=A,B`."""
    if tag is None:
        return
    if not tag.strip() or tag != tag.strip() or "," in tag or not tag.isprintable():
        raise ConfigError(
            f"tag is {tag!r}, should be one label without commas, as in tag=first-try"
        )
    if len(tag) > _MAX_TAG_CHARS:
        raise ConfigError(f"tag has {len(tag)} characters, should have {_MAX_TAG_CHARS} at most")


def _check_used(parallel: Parallel) -> None:
    """Refuse keys that the backend would ignore."""
    for name, backends in _USED_BY.items():
        value = getattr(parallel, name)
        if value != getattr(Parallel(), name) and parallel.backend not in backends:
            raise ConfigError(
                f"parallel.{name} is {value!r}, and parallel.backend={parallel.backend} does not "
                f"use it; write parallel={'|'.join(backends)}, or leave it out"
            )
    if parallel.address == "":
        raise ConfigError("parallel.address is empty; leave it out, and a local cluster is started")
    if parallel.backend == "dask" and parallel.address and parallel.options:
        raise ConfigError(
            f"parallel.options are those of a local Dask cluster, should be empty beside "
            f"parallel.address={parallel.address}: its workers have options of their own"
        )


def _check_job(options: Mapping[str, Any]) -> None:
    """Refuse parameters of a job that contradict those from which kbench derives its limits.

    submitit takes most of them under several names, and the last one counts.
    """
    further = options.get("slurm_additional_parameters")
    named = further if isinstance(further, Mapping) else {}
    named = {f"slurm_additional_parameters.{name}": value for name, value in named.items()}
    for name, value in {**options, **named}.items():
        word = name.rpartition(".")[2].removeprefix("slurm_").replace("-", "_")
        if word in _TASKS and value != 1:
            raise ConfigError(
                f"parallel.options.{name} is {value!r}, should be 1: a run is one task of one node"
            )
        if _SET_BY_KEY.get(word, name) != name:
            raise ConfigError(
                f"parallel.options.{name} is {value!r}: write parallel.options."
                f"{_SET_BY_KEY[word]}=..., by which kbench plans its runs"
            )
        if word in _SET_BY_KBENCH:
            raise ConfigError(f"parallel.options.{name} is set by kbench; leave it out")


def _check_slurm(typed: Settings, overrides: Collection[str]) -> None:
    """Refuse limits of runs that exceed what the limits of SLURM's jobs leave for a run."""
    parallel, limits = typed.parallel, typed.limits
    runs_per_job = parallel.runs_per_job
    if runs_per_job != "auto" and not (isinstance(runs_per_job, int) and runs_per_job >= 1):
        raise ConfigError(f"parallel.runs_per_job is {runs_per_job!r}, should be auto or 1 or more")
    if not parallel.model_mb >= 0:
        raise ConfigError(f"parallel.model_mb is {parallel.model_mb:g}, should be 0 or more")
    if parallel.backend != "slurm":
        return
    options = parallel.slurm_options(limits)
    _check_job(options)
    for name in ("timeout_min", "mem_gb", "cpus_per_task"):
        if not (isinstance(options[name], (int, float)) and options[name] > 0):
            raise ConfigError(f"parallel.options.{name} is {options[name]!r}, should be above 0")
    left_s = 60 * options["timeout_min"] - _WARNING_LEAD_S
    # A job may be shorter than the default of `wall_s`: the job then ends the run, as the row says.
    is_named = any(word.lstrip("+").startswith("limits.wall_s=") for word in overrides)
    is_named |= limits.wall_s != Limits.wall_s
    if is_named and limits.wall_s is not None and limits.wall_s > left_s:
        raise ConfigError(
            f"limits.wall_s={limits.wall_s:g} is above the {left_s:g} s that "
            f"parallel.options.timeout_min={options['timeout_min']:g} leaves after submitit's "
            f"{_WARNING_LEAD_S} s"
        )
    if limits.memory_mb is not None and limits.memory_mb > 1024 * options["mem_gb"]:
        raise ConfigError(
            f"limits.memory_mb={limits.memory_mb:g} is above parallel.options.mem_gb="
            f"{options['mem_gb']:g}"
        )
    if limits.threads > options["cpus_per_task"]:
        raise ConfigError(
            f"limits.threads={limits.threads} is above parallel.options.cpus_per_task="
            f"{options['cpus_per_task']}"
        )
