"""Seconds, memory and network of early DC-SVM out of core on rows and machines that are not there.

The costs of the stages are measured on this machine by fits of seconds (`_early_svc_probe`) and put
into plain formulas. With n rows in K clusters, of s = n / K rows, and L = log_b(K) levels of the
tree:

    stage     CPU seconds                                   grows as     divides among machines
    survey    survey n                                      n            no: one process reads
    tree      tree m L,  m sampled rows                     n log n      no: one process
    divide    (divide + level L) n                          n log n      no: one process writes
    train     K solve(s, n), solve = factor s^p n^q         n^(1 + q)    yes, but for what the
              + task T + record K, in the process           n            process that collects the
              that collects the machines of T tasks                      machines spends
    predict   (row + level L + centre c) u + visits         log n        no: one process for u rows

The clusters are scheduled by the longest-processing-time rule (Graham, "Bounds on Multiprocessing
Timing Anomalies", SIAM J. Appl. Math. 17, 1969, theorem 3): at most 4/3 of the best schedule. A
stage takes as long as the slowest of what it needs at the same time: processes, the process that
collects, the link of the machine that has the rows, and its disk if the rows exceed its memory.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbench.chunked import ChunkedRows
from kbench.errors import ConfigError
from kbench.methods.out_of_core.out_of_core import cluster_memory, most_rows, sample_size, task_size
from kbench.prediction.packed_machines import DECODED_BYTES

# Bytes of a row in the process that divides: its number in the order, its cluster and its label.
_ORDER = 20
# Bytes that the process that collects keeps of each cluster: the numbers of its record.
_RECORD = 700
# Bytes of a page, the least that a disk reads.
_PAGE = 4096
# Stages of one process, which more machines do not make faster.
SERIAL = ("survey", "tree", "divide")
# Fraction of the workers' time above which opening runs of rows is worth a note.
_OPENING = 0.1


@dataclass(frozen=True)
class PowerLaw:
    """factor s^cluster n^rows, for clusters of s of n rows."""

    factor: float
    cluster: float
    rows: float

    def __call__(self, s: Any, n: float) -> Any:
        return self.factor * s**self.cluster * n**self.rows


@dataclass(frozen=True)
class Machines:
    """What a simulated fit runs on.

    Attributes
    ----------
    machines : int
        Alike; one of them has the rows, and its folder is read by all.
    workers, cores : int
        Worker processes, and cores for them, of each machine.
    link : float
        Bytes a second of the network link of the machine that has the rows.
    disk : float
        Bytes a second of its disk.
    memory : float
        Bytes of its memory; fewer rows are read from there and not from the disk.
    """

    machines: int
    workers: int
    cores: int
    link: float
    disk: float
    memory: float


@dataclass(frozen=True)
class Stage:
    """What a stage takes.

    Attributes
    ----------
    seconds : float
        Elapsed, on machines that do nothing else.
    bound : str
        What the seconds are those of: compute, collect, network or disk.
    cpu_s : float
        Of all processes together.
    memory : float
        Bytes of the largest process.
    network : float
        Bytes between machines.
    """

    name: str
    seconds: float
    bound: str
    cpu_s: float
    memory: float
    network: float = 0.0


@dataclass(frozen=True)
class ScaleCosts:
    """Costs of the stages of a fit with clusters of one size, in CPU seconds of this machine.

    Attributes
    ----------
    cluster_rows, n_features, itemsize, memory_mb
        Of the fits that were measured.
    branching, n_samples : int
        Of the tree.
    cache_mb : float
        Of the solver of a cluster.
    survey : float
        Seconds for each row.
    tree : float
        Seconds for each sampled row and level.
    divide, level : float
        Seconds for each row, and for each row and level.
    solve, centres : PowerLaw
        Seconds of a cluster's training, and centres of its machine.
    spread : list of float
        Sizes of the clusters over their mean, ascending, at even probabilities.
    busy : float
        CPU time of a cluster in a worker while all cores work, over that of one process alone.
    task, record : float
        Seconds of the process that collects, for each task and for each cluster. NaN if Dask is not
        installed.
    run, piece : float
        Seconds to open a run of the rows on disk, and to read a cluster's piece of it.
    row, centre, visit, decode : float
        Seconds of a prediction: for each row, for each row and centre, for each block of rows that
        a machine gets, and for each machine that is read from the file.
    tree_bytes, machine_bytes, centre_bytes : float
        Of the tree and of a machine, for each cluster, and of a machine for each centre.
    cores : int
    ram : float
        Bytes.
    """

    cluster_rows: int
    n_features: int
    itemsize: int
    memory_mb: float
    branching: int
    n_samples: int
    cache_mb: float
    survey: float
    tree: float
    divide: float
    level: float
    solve: PowerLaw
    centres: PowerLaw
    spread: list[float]
    busy: float
    task: float
    record: float
    run: float
    piece: float
    row: float
    centre: float
    visit: float
    decode: float
    tree_bytes: float
    machine_bytes: float
    centre_bytes: float
    cores: int
    ram: float

    @classmethod
    def measure(cls, model: Any, X: Any, y: np.ndarray, **options: Any) -> "ScaleCosts":
        """Costs of a DCSVC on these rows; see `_early_svc_probe.measure`."""
        from kbench.methods._early_svc_probe import measure

        return measure(model, X, y, **options)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "ScaleCosts":
        """The costs that `dataclasses.asdict` made a dictionary of."""
        laws = {name: PowerLaw(**stored[name]) for name in ("solve", "centres")}
        return cls(**{**stored, **laws})

    def simulate(self, n: float, on: Machines, test_rows: float = 0.0) -> "Simulation":
        """Stages of a fit of n rows, and of the prediction of `test_rows` rows by one process.

        O(K log K) time for K clusters.

        Raises
        ------
        ConfigError
            Workers are wanted, and what they cost could not be measured without Dask.
        """
        return Simulation(self, float(n), on, float(test_rows))

    @property
    def rows(self) -> ChunkedRows:
        """No rows, but of the measured width and memory, which decide the sizes of blocks."""
        return ChunkedRows(
            lambda _: iter(()),
            n_features=self.n_features,
            dtype=f"f{self.itemsize}",
            memory_mb=self.memory_mb,
        )


@dataclass
class Simulation:
    """A fit that was not made.

    Attributes
    ----------
    n_clusters, n_tasks, n_runs : int
        Clusters, tasks that train them, and runs of rows on disk.
    model_bytes : float
    tasks : (n_tasks,) float64
        Seconds of each task in a worker.
    stages : list of Stage
    """

    costs: ScaleCosts
    n: float
    on: Machines
    test_rows: float
    stages: list[Stage] = field(init=False)

    def __post_init__(self) -> None:
        costs, n = self.costs, self.n
        self.n_clusters = K = max(1, math.ceil(n / costs.cluster_rows))
        self._levels = max(1.0, math.log(K) / math.log(costs.branching))
        self._block = costs.rows.block_rows
        self._row_bytes = costs.n_features * costs.itemsize
        self.n_runs = math.ceil(n / self._block)
        self._n_sampled = min(n, sample_size(costs.n_samples, K))
        self.sizes = self._sizes()
        self._n_centres = float(costs.centres(n / K, n))
        self._machine_bytes = costs.machine_bytes + costs.centre_bytes * self._n_centres
        self.model_bytes = K * (costs.tree_bytes + self._machine_bytes)
        in_workers = self.on.machines * self.on.workers > 1
        if in_workers and math.isnan(costs.task):
            raise ConfigError("workers are simulated by what Dask takes: install kbench[dask]")
        solve = costs.solve(self.sizes, n)
        # The law is that of a cluster of the mean size.
        solve *= K * costs.solve(n / K, n) / solve.sum()
        solve += self.n_runs * costs.piece
        size = task_size(K)
        self.tasks = np.add.reduceat(solve, np.arange(0, K, size))
        # A worker opens all runs for each task, one process does it once.
        self._opening = self.n_runs * costs.run if in_workers else 0.0
        if in_workers:
            self.tasks = costs.busy * self.tasks + self._opening
        self.n_tasks = len(self.tasks)
        train = self._in_workers() if in_workers else self._in_one_process()
        self.stages = [*self._before(), train, *self._prediction()]

    @property
    def seconds(self) -> float:
        """Of the fit, without the prediction."""
        return sum(stage.seconds for stage in self.stages if stage.name != "predict")

    def _sizes(self) -> np.ndarray:
        """Rows of each cluster, as unequal as those that were measured, in random order."""
        spread, K = np.asarray(self.costs.spread), self.n_clusters
        at = np.linspace(0.0, 1.0, len(spread))
        sizes = np.interp((np.arange(K) + 0.5) / K, at, spread)
        sizes *= self.n / sizes.sum()
        return np.random.RandomState(0).permutation(sizes)

    def _stage(self, name: str, cpu_s: float, memory: float, passes: int = 0) -> Stage:
        """A stage of one process, which reads or writes all rows on disk `passes` times."""
        seconds = {"compute": cpu_s, "disk": passes * self._disk_s()}
        bound = max(seconds, key=lambda name: seconds[name])
        return Stage(name, seconds[bound], bound, cpu_s, memory)

    def _disk_s(self) -> float:
        """Seconds of a pass over all rows on disk; none if they stay in memory."""
        nbytes = self.n * self._row_bytes
        return nbytes / self.on.disk if nbytes > self.on.memory else 0.0

    def _before(self) -> Iterator[Stage]:
        """The stages of one process, which more machines do not make faster."""
        costs, n = self.costs, self.n
        block = self._block * self._row_bytes
        sample = self._n_sampled * self._row_bytes
        # The sample so far, the rows that a block adds, and both together.
        yield self._stage("survey", costs.survey * n, block + 2 * sample, passes=1)
        # The rows of the node that is divided, its children's, and the tree.
        tree = costs.tree * self._n_sampled * self._levels
        tree_bytes = self.n_clusters * costs.tree_bytes
        yield self._stage("tree", tree, 3 * sample + tree_bytes)
        divide = (costs.divide + costs.level * self._levels) * n
        memory = block + _ORDER * self._block + sample + tree_bytes
        yield self._stage("divide", divide, memory, passes=2)

    def _worker_memory(self) -> float:
        s = float(self.sizes.max())
        kernel = min(self.costs.cache_mb * 2**20, s * s * self.costs.itemsize)
        return cluster_memory(self.costs.rows, s) + kernel

    def _collector_memory(self) -> float:
        sample = self._n_sampled * self._row_bytes
        return sample + self.n_clusters * (_RECORD + self.costs.tree_bytes)

    def _in_one_process(self) -> Stage:
        memory = self._worker_memory() + self._collector_memory()
        return self._stage("train", float(self.tasks.sum()), memory, passes=1)

    def _in_workers(self) -> Stage:
        on, costs = self.on, self.costs
        collect = costs.task * self.n_tasks + costs.record * self.n_clusters
        at_once = on.machines * min(on.workers, on.cores)
        cpu_s = float(self.tasks.sum()) + collect
        moved = (on.machines - 1) / on.machines
        rows, model = (moved * b for b in (self.n * self._row_bytes, self.model_bytes))
        seconds = {
            "compute": max(longest_first(self.tasks, at_once), cpu_s / (on.machines * on.cores)),
            "collect": collect,
            "network": max(rows, model) / on.link,
            "disk": self._disk_s(),
        }
        bound = max(seconds, key=lambda name: seconds[name])
        memory = max(self._worker_memory(), self._collector_memory())
        return Stage("train", seconds[bound], bound, cpu_s, memory, rows + model)

    def _prediction(self) -> Iterator[Stage]:
        u, costs, K = self.test_rows, self.costs, self.n_clusters
        if not u:
            return
        blocks = [min(self._block, u - k * self._block) for k in range(math.ceil(u / self._block))]
        visits = [expected_visits(rows, K) for rows in blocks]
        nbytes = K * self._machine_bytes
        # The machines that were decoded first stay, as far as they fit.
        again = max(0.0, 1.0 - DECODED_BYTES / nbytes) * sum(visits[1:])
        decoded = min(K, visits[0] + again) if nbytes <= DECODED_BYTES else visits[0] + again
        each = costs.row + costs.level * self._levels + costs.centre * self._n_centres
        cpu_s = each * u + costs.visit * sum(visits) + costs.decode * decoded
        held = min(nbytes, DECODED_BYTES) + K * costs.tree_bytes
        yield self._stage("predict", cpu_s, held + blocks[0] * (self._row_bytes + _ORDER))

    @property
    def notes(self) -> list[str]:
        """One line for each thing that no longer goes well at this size."""
        costs, limit = self.costs, self.costs.memory_mb * 2**20
        found = [
            f"{stage.name} needs {stage.memory / 2**20:,.0f} MiB of memory, more than the "
            f"{costs.memory_mb:,.0f} MiB for rows"
            for stage in self.stages
            if stage.memory > limit
        ]
        if (most := most_rows(costs.rows)) < self.sizes.max():
            found.append(f"clusters of more than {most:,} rows are divided further")
        piece = self.n / self.n_clusters / self.n_runs * self._row_bytes
        if piece < _PAGE and self._disk_s():
            found.append(
                f"a cluster lies in {self.n_runs:,} pieces of {piece:,.0f} bytes, less than a page "
                "of the disk"
            )
        if self.test_rows > self._block and self.model_bytes > DECODED_BYTES:
            found.append(
                f"a model of {self.model_bytes / 2**20:,.0f} MiB is decoded again for every "
                f"{self._block:,} rows that are predicted"
            )
        opening = self._opening * self.n_tasks
        if opening > _OPENING * self.tasks.sum():
            found.append(
                f"each of {self.n_tasks:,} tasks opens {self.n_runs:,} runs of rows, which takes "
                f"{opening:,.0f} of the workers' {self.tasks.sum():,.0f} CPU s; more memory_mb "
                "makes fewer runs"
            )
        serial = sum(stage.seconds for stage in self.stages if stage.name in SERIAL)
        if self.on.machines * self.on.workers > 1:
            found.append(
                f"{serial:,.0f} s of the fit's {self.seconds:,.0f} s are those of one process"
            )
        return found


def longest_first(tasks: Sequence[float] | np.ndarray, n_workers: int) -> float:
    """When the last worker ends, if the longest task left goes to the worker that is free first.

    Parameters
    ----------
    tasks : (t,) seconds
    n_workers : int
    """
    ends = [0.0] * max(1, min(n_workers, len(tasks)))
    for seconds in -np.sort(-np.asarray(tasks, float)):
        heapq.heapreplace(ends, ends[0] + float(seconds))
    return max(ends)


def expected_visits(rows: float, n_clusters: int) -> float:
    """Clusters that `rows` random rows fall into, if the clusters are equally likely."""
    return n_clusters * -math.expm1(-rows / n_clusters)
