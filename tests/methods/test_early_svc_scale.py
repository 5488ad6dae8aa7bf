"""The simulation of early DC-SVM: its formulas with made-up costs, and its counts against a fit."""

import itertools
import json
import math
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from kbench.chunked import ChunkedRows
from kbench.data import chunked_generator
from kbench.errors import ConfigError
from kbench.methods import DCSVC
from kbench.methods.early_svc_scale import (
    SERIAL,
    Machines,
    PowerLaw,
    ScaleCosts,
    expected_visits,
    longest_first,
)
from kbench.methods.out_of_core.out_of_core import sample_size, task_size

# Round numbers: a microsecond of each linear cost, clusters of equal size.
COSTS = ScaleCosts(
    cluster_rows=1000,
    n_features=10,
    itemsize=4,
    memory_mb=1.0,
    branching=4,
    n_samples=1000,
    cache_mb=1.0,
    survey=1e-6,
    tree=2e-6,
    divide=3e-6,
    level=1e-6,
    solve=PowerLaw(1e-3, 1.0, 0.0),
    centres=PowerLaw(0.1, 1.0, 0.0),
    spread=[1.0, 1.0],
    busy=1.5,
    task=0.25,
    record=0.0,
    run=0.0,
    piece=0.0,
    row=1e-6,
    centre=1e-8,
    visit=0.0,
    decode=0.0,
    tree_bytes=100.0,
    machine_bytes=1000.0,
    centre_bytes=40.0,
    cores=2,
    ram=math.inf,
)
ONE = Machines(1, 1, 2, math.inf, math.inf, math.inf)


def by_name(simulation):
    return {stage.name: stage for stage in simulation.stages}


def test_one_process_is_the_sum_of_its_stages():
    n, K = 64_000, 64
    found = COSTS.simulate(n, ONE, test_rows=2000)
    stages = by_name(found)
    levels = 3  # 4^3 clusters
    seconds = {
        "survey": 1e-6 * n,
        "tree": 2e-6 * sample_size(1000, K) * levels,
        "divide": (3e-6 + 1e-6 * levels) * n,
        "train": 1e-3 * n,
        "predict": (1e-6 + 1e-6 * levels + 1e-8 * 100) * 2000,
    }
    assert list(stages) == list(seconds)
    for name, wanted in seconds.items():
        assert stages[name].seconds == stages[name].cpu_s == pytest.approx(wanted)
        assert (stages[name].bound, stages[name].network) == ("compute", 0.0)
    assert found.seconds == pytest.approx(sum(seconds.values()) - seconds["predict"])
    assert found.model_bytes == pytest.approx(K * (100 + 1000 + 40 * 100))


def test_workers_divide_the_training_alone():
    n, K = 1_024_000, 1024
    tasks = K // task_size(K)
    alone = by_name(COSTS.simulate(n, ONE))
    both = by_name(COSTS.simulate(n, replace(ONE, machines=4, workers=2)))
    for name in ("survey", "tree", "divide"):
        assert both[name] == alone[name]
    # 128 tasks of 8 s, slower on busy cores, on eight workers that share eight cores with the
    # process that collects.
    work = 1.5 * 1e-3 * n
    assert both["train"].cpu_s == pytest.approx(work + 0.25 * tasks)
    assert both["train"].seconds == pytest.approx((work + 0.25 * tasks) / 8)
    assert both["train"].network == pytest.approx(0.75 * (n * 40 + K * (100 + 1000 + 40 * 100)))


def test_a_stage_takes_as_long_as_what_bounds_it():
    n = 1_024_000
    many = replace(ONE, machines=1000, workers=2)
    assert by_name(COSTS.simulate(n, many))["train"].bound == "collect"
    assert by_name(COSTS.simulate(n, many))["train"].seconds == pytest.approx(0.25 * 128)
    slow = by_name(COSTS.simulate(n, replace(many, link=n * 40 * 0.999 / 100)))["train"]
    assert (slow.bound, slow.seconds) == ("network", pytest.approx(100.0))
    disk = by_name(COSTS.simulate(n, replace(ONE, disk=n * 40 / 1000, memory=0.0)))
    assert [disk[name].bound for name in ("survey", "divide")] == ["disk", "disk"]
    assert disk["divide"].seconds == pytest.approx(2 * disk["survey"].seconds)
    oversubscribed = by_name(COSTS.simulate(n, replace(ONE, workers=8)))["train"]
    assert oversubscribed == by_name(COSTS.simulate(n, replace(ONE, workers=2)))["train"]


def test_everything_grows_with_the_rows():
    costs = replace(COSTS, spread=[0.2, 0.9, 2.5], run=1e-4, visit=1e-4, decode=1e-3)
    on = replace(ONE, machines=3, link=1e9)
    fits = [by_name(costs.simulate(n, on, 1e6)) for n in np.geomspace(5e4, 5e7, 12)]
    for before, after in itertools.pairwise(fits):
        for name, stage in after.items():
            assert stage.seconds >= before[name].seconds, name
            assert stage.memory >= before[name].memory, name
            assert stage.network >= before[name].network, name


def test_sizes_have_the_spread_that_was_measured():
    costs = replace(COSTS, spread=[0.5, 1.0, 1.5], solve=PowerLaw(1e-6, 2.0, -0.5))
    found = costs.simulate(1e6, ONE)
    assert found.sizes.sum() == pytest.approx(1e6)
    assert 500 <= found.sizes.min() <= found.sizes.max() <= 1500
    # A cluster of the mean size takes 1e-6 1000^2 (1e6)^-0.5 seconds.
    assert found.tasks.sum() == pytest.approx(1000 * 1e-3)


def test_the_longest_task_first_is_within_four_thirds_of_the_best_schedule():
    assert longest_first([3, 3, 2, 2, 2], 2) == 7  # the best is 6: Graham's worst case for two
    assert longest_first([1.0, 2.0], 5) == 2.0
    rng = np.random.default_rng(0)
    for _ in range(40):
        tasks, m = rng.integers(1, 20, size=7), int(rng.integers(2, 4))
        schedules = itertools.product(range(m), repeat=len(tasks))
        best = min(np.bincount(s, tasks, minlength=m).max() for s in schedules)
        assert best <= longest_first(tasks, m) <= (4 / 3 - 1 / (3 * m)) * best


def test_expected_visits_are_those_of_random_rows():
    assert expected_visits(1e6, 10) == pytest.approx(10)
    rng = np.random.default_rng(0)
    drawn = [len(np.unique(rng.integers(0, 200, 150))) for _ in range(200)]
    assert expected_visits(150, 200) == pytest.approx(np.mean(drawn), rel=0.02)


def test_what_breaks_is_named():
    lines = COSTS.simulate(3e9, replace(ONE, machines=100, memory=1e9, disk=1e9), 1e6).notes
    assert [line.split()[0] for line in lines[:4]] == ["survey", "tree", "divide", "train"]
    assert any("less than a page" in line for line in lines)
    assert any("is decoded again for every 3,276 rows" in line for line in lines)
    assert "those of one process" in lines[-1]
    roomy = replace(COSTS, memory_mb=1000.0)
    assert roomy.simulate(1e5, ONE).notes == []
    (divided,) = replace(roomy, cluster_rows=10**8).simulate(1e8, ONE).notes[-1:]
    assert "are divided further" in divided


def test_costs_that_were_stored_are_the_same():
    assert ScaleCosts.of(json.loads(json.dumps(asdict(COSTS)))) == COSTS


def test_the_table_of_the_docs_is_that_of_the_stored_costs():
    docs = Path(__file__).parents[2] / "docs"
    stored = json.loads((docs / "_static" / "early_svc_costs.json").read_text())
    costs = ScaleCosts.of(stored["costs"])
    _, _, table = (docs / "scale.md").read_text().partition("| rows | clusters | one process |")
    lines = re.findall(r"^\| (10*(?:,000)+ \| .*) \|$", table, re.M)[:4]
    assert len(lines) == 4
    for line in lines:
        n, clusters, *seconds, memory, model, predicted = (
            float(cell.replace(",", "")) for cell in line.split(" | ")
        )
        for (machines, workers), wanted in zip(
            ((1, 1), (1, 2), (10, 2), (100, 2)), seconds, strict=False
        ):
            on = Machines(machines, workers, costs.cores, 1.25e9, 5e8, costs.ram)
            found = costs.simulate(n, on, 1e6)
            assert found.seconds == pytest.approx(wanted, rel=2e-2)
        assert found.n_clusters == clusters
        stages = by_name(found)
        alone = sum(stages[name].seconds for name in SERIAL)
        assert alone == pytest.approx(seconds[-1], rel=2e-2)
        largest = max(stage.memory for stage in found.stages)
        assert largest / 2**20 == pytest.approx(memory, rel=1e-2)
        assert found.model_bytes / 1e6 == pytest.approx(model, rel=2e-2)
        assert 1e6 / stages["predict"].seconds == pytest.approx(predicted, rel=1e-2)


def test_workers_need_what_dask_takes():
    with pytest.raises(ConfigError, match=r"kbench\[dask\]"):
        replace(COSTS, task=math.nan).simulate(1e6, replace(ONE, workers=2))


def test_measured_costs_give_the_counts_of_a_larger_fit(monkeypatch, peak_bytes):
    monkeypatch.setitem(sys.modules, "distributed", None)  # as if it were not installed
    n, cluster_rows, memory_mb = 6_400, 100, 1.0
    blocks = list(chunked_generator("covtype_like", n, d=10).blocks())
    X = np.concatenate([block.X for block in blocks])
    y = np.concatenate([block.y for block in blocks])
    model = DCSVC(C=8, gamma=4, n_levels=1, random_state=0)
    options = {"cluster_rows": cluster_rows, "memory_mb": memory_mb}
    costs = ScaleCosts.measure(model, X[:3200], y[:3200], cores=1, **options)
    assert math.isnan(costs.task)
    numbers = [v for v in asdict(costs).values() if isinstance(v, float) and not math.isnan(v)]
    assert min(numbers) >= 0.0
    assert min(costs.survey, costs.tree, costs.row + costs.centre, costs.run, costs.piece) > 0.0

    found = costs.simulate(n, ONE)
    model.set_params(n_clusters=n // cluster_rows)
    rows = ChunkedRows.of_arrays(X, y, memory_mb=memory_mb)
    peak = peak_bytes(lambda: model.fit(rows))
    assert [stage.name for stage in found.stages] == list(model.timings_)
    assert found.n_clusters == model.n_clusters_
    assert found.n_runs == math.ceil(n / rows.block_rows)
    assert found.model_bytes == pytest.approx(model.model_bytes_, rel=0.25)
    # Beside the model in memory and what Python's objects take.
    simulated = max(stage.memory for stage in found.stages)
    assert peak / 4 <= simulated <= 4 * peak
    with pytest.raises(ConfigError, match="2,000 rows are too few to measure clusters of 100"):
        ScaleCosts.measure(model, X[:2000], y[:2000], cores=1, **options)
