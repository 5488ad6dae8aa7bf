"""scripts/reference.py: stages keep to their hours; a folder's rows become reference rows."""

import json
import runpy
import sys
import threading
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from result_rows import make_row

from kbench.config import shipped_root
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import PAPERS, experiments_of, paper
from kbench.run.results.folder import Curve, ResultsFolder

SCRIPT = Path(__file__).parents[3] / "scripts" / "reference.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def collect(script):
    return script["collect"]


@pytest.fixture
def collected(tmp_path, collect):
    """Collects a folder's rows; returns the results folder whose reference rows they are then."""
    results = ResultsFolder(tmp_path / "results")

    def collected(folder, **options):
        collect(folder.path, results.path / "_reference", **options)
        return results

    return collected


def curve(name, n):
    x = np.arange(n, dtype=float)
    return Curve(curve=name, x_name="seconds", x=x, value=2.0 * x)


def write(folder, *curves, number=0, cpu="one", **changes):
    """Write a row of a clean work tree, with curves of three points or as given; its key."""
    known = {"dirty": False, "environment": folder.store_environment({"cpu": cpu})}
    row = make_row(number, **known | changes)
    folder.write(row, [curve(one, 3) if isinstance(one, str) else one for one in curves])
    return row["key"]


def folder_with(tmp_path, **changes):
    folder = ResultsFolder(tmp_path / "fresh")
    write(folder, curve("objective", 1234), curve("gap", 1234), "short", **changes)
    return folder


def test_what_a_folder_holds_is_read_back_as_reference(tmp_path, collected):
    folder = folder_with(tmp_path)
    results = collected(folder)
    before = folder.read(reference=False).iloc[0]
    after = results.read(reference=True).iloc[0]
    assert after["origin"] == "reference"
    assert (after["key"], after["accuracy"]) == (before["key"], before["accuracy"])
    assert results.environments() == folder.environments()
    curves = results.read_curves(reference=True).set_index("curve")
    assert (curves["value"] == 2.0 * curves["x"]).all()
    places = {name: curves.loc[name, "x"].tolist() for name in ("objective", "gap", "short")}
    assert len(places["objective"]) <= 501
    assert places["objective"] == places["gap"]
    assert places["objective"][-1] == 1233.0
    assert places["short"] == [0.0, 1.0, 2.0]
    assert len(collected(folder).read(reference=True)) == 1


def test_long_curves_keep_the_places_of_short_ones(tmp_path, collected):
    folder = folder_with(tmp_path)
    level = Curve(curve="level", x_name="seconds", x=[7.0, 1001.0], value=[2.0, 1.0])
    write(folder, curve("precision", 1234), level, number=1)
    curves = collected(folder).read_curves(reference=True).set_index("curve")
    assert {7.0, 1001.0} <= set(curves.loc["precision", "x"])
    assert len(curves.loc["precision"]) <= 503


def test_progress_is_kept_of_the_first_seed_of_a_run_alone(tmp_path, collected):
    folder = folder_with(tmp_path, seed=1)
    for changes in ({"number": 5}, {"number": 6, "params": '{"C": 7}'}, {"number": 7, "cpu": "2"}):
        write(folder, "objective", "level", **changes)
    results = collected(folder)
    seeds = results.read(reference=True).set_index("key")["seed"]
    curves = results.read_curves(reference=True).groupby("curve")["key"]
    assert set(seeds[curves.get_group("objective")]) == {1, 6, 7}
    assert set(seeds[curves.get_group("level")]) == {5, 6, 7}


def test_runs_that_somebody_stopped_stay_out(tmp_path, collected):
    folder = folder_with(tmp_path)
    stopped = write(folder, "objective", number=1, status="interrupted")
    results = collected(folder)
    assert len(folder.read(reference=False)) == 2
    assert results.read(reference=True)["status"].tolist() == ["ok"]
    assert stopped not in set(results.read_curves(reference=True)["key"])


def test_rows_of_other_packages_stay_until_they_are_run_again(tmp_path, collected):
    folder = folder_with(tmp_path)
    for number, name in enumerate(("svc", "kernel_svc", "linear_svc"), start=1):
        write(folder, "objective", number=number, method=name, experiment="first")
    collected(folder)
    later = ResultsFolder(tmp_path / "later")
    write(later, "gap", number=7, seed=1, experiment="first,second")
    results = collected(later)
    rows = results.read(reference=True)
    found = rows[["method", "seed", "experiment"]].fillna("").to_numpy().tolist()
    assert sorted(found) == [["linear_svc", 3, "first"], ["svc", 0, ""], ["svc", 1, "first,second"]]
    assert set(results.read_curves(reference=True)["key"]) == set(rows["key"])


def test_with_keep_old_all_rows_stay_until_they_are_run_again(tmp_path, collected, capsys):
    """Those of other machines too, with their curves and environments."""
    first, second = ("first", "two", ["meka", "svc"]), ("second", "one", ["kernel_svc", "svc"])
    for name, cpu, methods in (first, second):
        folder = ResultsFolder(tmp_path / name)
        for method in methods:
            key = f"{name}{method}".replace("_", "")
            write(folder, "objective", cpu=cpu, method=method, key=key)
        results = collected(folder, keep_old=True)
    rows = results.read(reference=True)
    keys = ["firstmeka", "firstsvc", "secondkernelsvc", "secondsvc"]
    assert sorted(rows["key"]) == keys
    assert sorted(set(results.read_curves(reference=True)["key"])) == keys
    assert set(rows["environment"]) == set(results.environments())
    said = capsys.readouterr().out
    assert "of 2 rows that were there 1 of other packages' methods and 1 of kbench's stay" in said
    collected(folder)
    assert sorted(results.read(reference=True)["key"]) == keys[2:]


def test_rows_that_stay_name_the_experiments_that_ask_for_their_run(tmp_path, collected):
    """Figures show the settings of their own experiments alone."""
    for name, method in (("old", "meka"), ("new", "kernel_svc")):
        folder = ResultsFolder(tmp_path / name)
        write(folder, "objective", cpu=name, method=method, key=name)
        asked = {} if name == "old" else {"old": "meka_fig7,meka_fig8", "new": "dcsvm_fig3"}
        results = collected(folder, keep_old=True, asked=asked)
    found = results.read(reference=True).set_index("key")["experiment"].to_dict()
    assert found == {"old": "meka_fig7,meka_fig8", "new": "dcsvm_fig3"}


@pytest.fixture
def add(tmp_path, collected):
    """Collects rows, each a key and what it is of; returns the keys of all reference rows then."""

    def add(rows, keep_old=True):
        folder = ResultsFolder(tmp_path / "-".join(rows))
        for key, changes in rows.items():
            write(folder, key=key, **changes)
        return sorted(collected(folder, keep_old=keep_old).read(reference=True)["key"])

    return add


FINISHED = {"command": "kbench method=svc dataset=digits limits.wall_s=900"}
OURS = {"method": "kernel_svc", "commit": "old", "experiment": "dcsvm_table3"}
ELSEWHERE = {"cpu": "two", "commit": "new"}


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        # A finished row is not lost to a run that was stopped earlier or had more threads.
        (FINISHED, {"status": "timeout", "message": "not done within limits.wall_s=120"}, True),
        (FINISHED, {"status": "timeout", "message": "not done within limits.wall_s=900"}, False),
        (FINISHED, {"status": "error", "message": "wrong"}, False),
        (FINISHED, {}, False),
        (FINISHED, {"threads": 2}, True),
        # A row takes the place of another machine's where code has changed, but neither that of an
        # experiment which did not ask for it, nor one that tries a cause that of a cell.
        (OURS, OURS | {"cpu": "two"}, True),
        (OURS, OURS | ELSEWHERE, False),
        (OURS | {"method": "svc"}, OURS | ELSEWHERE | {"method": "svc"}, True),
        (OURS, OURS, False),
        (OURS, OURS | {"commit": "new"}, False),
        (OURS, OURS | {"experiment": "cause_rows"}, True),
        (OURS, OURS | {"experiment": "dcsvm_fig3"}, True),
        (OURS, OURS | {"experiment": "dcsvm_fig3", "commit": "new"}, False),
        (OURS, OURS | {"experiment": "dcsvm_fig3,dcsvm_table3"}, False),
        (OURS, OURS | ELSEWHERE | {"experiment": "cause_rows"}, True),
        (OURS, OURS | ELSEWHERE | {"experiment": "cause_rows,dcsvm_table3"}, False),
    ],
)
def test_which_rows_stay_beside_one_of_the_same_run(add, old, new, stays):
    add({"old": old})
    assert add({"new": new}) == (["new", "old"] if stays else ["new"])


def test_the_rows_of_one_commit_stay_on_every_machine_and_those_of_older_ones_go(add):
    older = {"method": "meka", "commit": "older"}
    of_one = {"method": "kernel_svc", "commit": "one", "cpu": "two"}
    add({"a": older | {"cpu": "two"}, "b": of_one, "c": {"commit": "any", "cpu": "two", "seed": 7}})
    three = {"d": older | {"seed": 8}, "e": {"commit": "any", "seed": 9}}
    add({key: of | {"cpu": "three"} for key, of in three.items()})
    last = {"f": {"method": "doubly_sgd", "commit": "one"}}
    assert add(last, keep_old=False) == ["b", "c", "f"]


def test_an_interruption_leaves_the_old_rows_with_their_curves(tmp_path, script, monkeypatch):
    folder, results = folder_with(tmp_path), ResultsFolder(tmp_path / "results")
    target = results.path / "_reference"
    script["collect"](folder.path, target)
    before = results.read_curves(reference=True), results.environments()

    write = script["pq"].write_table

    def interrupted(table, file, **options):
        if str(target) in str(getattr(file, "name", file)):
            raise KeyboardInterrupt
        write(table, file, **options)

    monkeypatch.setattr(script["pq"], "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        script["collect"](folder.path, target)
    assert len(results.read(reference=True)) == 1
    assert results.read_curves(reference=True).equals(before[0])
    assert results.environments() == before[1]


def test_the_description_counts_the_limits_that_held(tmp_path, collect):
    command = "kbench method=svc limits.wall_s=9 limits.wall_s=20"
    folder = folder_with(tmp_path, command=command)
    collect(folder.path, tmp_path / "target")
    assert "- limit, seconds: 20 1\n" in (tmp_path / "target" / "README.md").read_text()


@pytest.mark.parametrize("dirty", [True, None])
def test_rows_of_changed_and_of_unknown_code_are_refused_and_counted(tmp_path, collect, dirty):
    folder = folder_with(tmp_path)
    write(folder, key="another", dirty=dirty)
    with pytest.raises(SystemExit, match="1 rows are of a work tree with changes, or of unknown"):
        collect(folder.path, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_the_readme_of_the_reference_rows_says_what_the_rows_say(script):
    target = Path(__file__).parents[3] / "results" / "_reference"
    readme = (target / "README.md").read_text(encoding="utf-8")
    written = readme.partition(script["BEGIN"])[2].partition(script["END"])[0]
    assert written == script["description"](target), "run: python scripts/reference.py describe"


def test_rows_that_share_time_on_one_machine_are_counted(script):
    seconds = ["load_s", "warmup_s", "fit_wall_s", "predict_wall_s"]
    start = pd.Timestamp("2026-01-01", tz="UTC")
    began = [("a", 0, 10), ("a", 5, 1), ("a", 8, 1), ("a", 10, 3), ("b", 0, 9)]
    rows = pd.DataFrame(began, columns=["environment", "started_at", "fit_wall_s"])
    rows["started_at"] = start + pd.to_timedelta(rows["started_at"], "s")
    rows = rows.reindex(columns=["environment", "started_at", *seconds])
    assert script["overlapping"](rows) == 3
    assert script["overlapping"](rows[rows["fit_wall_s"] != 10]) == 0


def test_an_empty_folder_is_one_line(tmp_path, collect):
    with pytest.raises(SystemExit, match="no rows"):
        collect(tmp_path / "nothing", tmp_path / "target")


# the plan


PLAN = yaml.safe_load(SCRIPT.with_suffix(".yaml").read_text())
COMMANDS = [command for stage in PLAN.values() for command in stage["commands"]]


OWN = ("comparison", "DC-SVM", "MEKA", "HSS-ADMM", "DC-Pred++", "doubly SGD")


def test_the_rows_of_our_own_methods_come_first_and_take_the_stated_hours():
    assert tuple(PLAN)[: len(OWN)] == OWN
    hours = sum(PLAN[name]["hours"] for name in OWN)
    head = SCRIPT.with_suffix(".yaml").read_text()
    assert f"methods in the papers' tables, take {hours:.1f} hours." in head
    assert {"tuned", "tables", "chunks", "LIBSVM"} <= set(PLAN)


@cache
def stated(experiment):
    """What an experiment's file states."""
    path = shipped_root() / "experiment" / f"{experiment}.yaml"
    return yaml.safe_load(path.read_text())


@cache
def planned_limits():
    """Experiment, data set, variant -> the limits of its commands, whatever stages they are in."""
    limits = {}
    for stage in PLAN.values():
        for command in stage["commands"]:
            words = dict(word.split("=", 1) for word in command.split() if "=" in word)
            own = float(words.get("limits.wall_s", stage["wall_s"]))
            for experiment in filter(None, words.get("experiment", "").split(",")):
                listed = stated(experiment)["plan"]["datasets"]
                of_all = {one if isinstance(one, str) else next(iter(one)) for one in listed}
                for name in words["dataset"].split(",") if "dataset" in words else of_all:
                    place = (experiment, name, words.get("dataset.variant"))
                    limits.setdefault(place, set()).add(own)
    return limits


TABLES = [table for name in PAPERS for table in paper(name).tables.values()]


@pytest.mark.parametrize("one", [*TABLES, *figures()], ids=lambda one: getattr(one, "id", one.name))
def test_all_runs_of_a_table_or_figure_on_one_data_set_have_one_limit(one):
    of_data = {}
    for (experiment, *data), limits in planned_limits().items():
        if experiment in experiments_of(one.run):
            of_data.setdefault(tuple(data), set()).update(limits)
    several = {data: limits for data, limits in of_data.items() if len(limits) > 1}
    assert not several or "have more time" in getattr(one, "caption", "")


def test_a_stage_has_the_limit_that_its_experiments_state():
    """Otherwise the command below a table would make other runs than the reference rows."""
    for stage in PLAN.values():
        for command in stage["commands"]:
            words = dict(word.split("=", 1) for word in command.split() if "=" in word)
            if "limits.wall_s" not in words:
                for experiment in filter(None, words.get("experiment", "").split(",")):
                    limit = (stated(experiment).get("limits") or {}).get("wall_s", stage["wall_s"])
                    assert limit == stage["wall_s"], command


def test_a_stage_leaves_out_methods_of_other_packages(script):
    def method(command):
        words = script["words_of"](command, {"leave_out": ["svc"]})
        assert words[: len(command.split())] == command.split()
        return words[len(command.split()) :]

    (word,) = method("-m experiment=dcsvm_table3 dataset=ijcnn1")
    names = word.removeprefix("method=").split(",")
    assert "kernel_svc" in names
    assert "svc" not in names
    assert method("-m experiment=dcsvm_table5 method=dcsvm") == []
    assert method("-m experiment=meka_table7") == []
    with pytest.raises(ValueError, match="several experiments"):
        method("-m experiment=meka_table7,dcsvm_table3")
    for stage in PLAN.values():
        for command in stage["commands"]:
            script["words_of"](command, stage)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_name_what_exists(command):
    words = dict(word.split("=", 1) for word in command.split() if "=" in word)
    for name in filter(None, words.get("experiment", "").split(",")):
        assert (shipped_root() / "experiment" / f"{name}.yaml").exists()
    for name in filter(None, words.get("dataset", "").split(",")):
        config = yaml.safe_load((shipped_root() / "dataset" / f"{name}.yaml").read_text())
        variant = words.get("dataset.variant")
        assert variant is None or variant in config["variants"]


# In place of kbench: tells its words, and is slow or fails where they say so; stops on SIGINT, even
# where a shell has started the suite in the background.
STUB = """
import json, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
words = sys.argv[2:]
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(words) + "\\n")
try:
    time.sleep(60 if "slow" in words else 0)
except KeyboardInterrupt:
    sys.exit(130)
sys.exit(2 if "wrong" in words else 1 if "failing" in words else 0)
"""


@pytest.fixture
def stubbed(script, tmp_path):
    """`run` with a stub, and the commands that the stub was given."""
    (tmp_path / "stub.py").write_text(STUB)
    told = tmp_path / "told"

    def run(stages, names=(), **options):
        stub = [sys.executable, str(tmp_path / "stub.py"), str(told)]
        script["run"](Path("fresh"), stages, names, stub, lock=tmp_path / "lock", **options)

    def commands():
        return [json.loads(line) for line in told.read_text().splitlines()]

    return run, commands


def stage(*commands, hours=1.0):
    return {"hours": hours, "wall_s": 30, "commands": list(commands)}


def test_commands_run_in_order_with_the_stage_s_limits_where_they_have_none(stubbed):
    run, commands = stubbed
    run({"one": stage("a limits.wall_s=5", "failing"), "two": stage("b")})
    limits = ["limits.wall_s=30", "limits.memory_mb=8192"]
    assert commands() == [
        [limits[1], "a", "limits.wall_s=5", "results_dir=fresh"],
        [*limits, "failing", "results_dir=fresh"],
        [*limits, "b", "results_dir=fresh"],
    ]


def test_a_stage_that_has_spent_its_hours_is_interrupted_and_the_next_one_begun(stubbed, capsys):
    run, commands = stubbed
    run({"one": stage("slow", "never", hours=1 / 3600), "two": stage("b")})
    assert [words[2] for words in commands()] == ["slow", "b"]
    assert "one: the time is up" in capsys.readouterr().out


def test_stages_by_name_and_a_name_that_is_none(stubbed):
    run, commands = stubbed
    stages = {"one": stage("a"), "two": stage("b")}
    run(stages, ["two"])
    assert [words[2] for words in commands()] == ["b"]
    with pytest.raises(SystemExit, match="no stage is called 'three'; they are one, two"):
        run(stages, ["three"])


def test_with_hours_no_command_begins_that_would_not_end_in_time(
    stubbed, script, monkeypatch, capsys
):
    def planned(composer, words, costs):
        return SimpleNamespace(seconds=1000.0 if "long" in words else 10.0)

    monkeypatch.setitem(script["run"].__globals__, "planned", planned)
    monkeypatch.setitem(script["run"].__globals__, "costs", lambda folder: object())
    run, commands = stubbed
    run({"one": stage("long", "short"), "two": stage("another")}, hours=0.05)
    assert [words[2] for words in commands()] == ["short", "another"]
    assert "one 1/2: left out, 1000 s of 1" in capsys.readouterr().out


def test_a_row_names_the_experiments_of_all_commands_that_ask_for_its_run(script):
    asked = script["experiments_by_key"].__globals__["asked_for"](
        SimpleNamespace(key=key, experiment=experiment)
        for key, experiment in (("a", "one"), ("b", None), ("a", "two,one"), ("c", "two"))
    )
    assert asked == {"a": "one,two", "b": "", "c": "two"}
    rows = pa.table({"key": ["a", "b", "d"], "experiment": ["one", None, "three"]})
    assert script["named"](rows, asked)["experiment"].to_pylist() == ["one,two", None, "three"]


def test_runs_cost_what_rows_most_like_them_took(script):
    rows = [
        make_row(1, params='{"C": 1}', fit_cpu_s=5.0, message=None),
        make_row(2, params='{"C": 2}', fit_cpu_s=7.0, message=None),
        make_row(3, dataset="iris", fit_cpu_s=None, message="not done within limits.wall_s=60"),
        make_row(4, method="lasvm", fit_cpu_s=500.0, message=None),
    ]
    rest = {"variant": None, "load_s": 0.0, "warmup_s": 0.0, "predict_cpu_s": 0.0}
    costs = script["Costs"](pd.DataFrame([rest | row for row in rows]))
    start = costs.of.__globals__["STARTING"]

    def seconds(dataset, params, method="svc"):
        limits = SimpleNamespace(wall_s=90.0)
        run = SimpleNamespace(
            method=method, dataset=dataset, variant=None, params=params, limits=limits
        )
        return costs.of(run) - start

    assert seconds("digits", {"C": 1}) == 5.0
    assert seconds("digits", {"C": 3}) == 6.0
    assert seconds("iris", {}) == 90.0
    assert seconds("letter", {}) == 34.0
    assert seconds("digits", {}, "lasvm") == 90.0
    assert seconds("letter", {}, "none") == costs.of.__globals__["UNKNOWN"]


def test_a_command_that_is_none_ends_the_plan(stubbed):
    run, commands = stubbed
    with pytest.raises(SystemExit) as raised:
        run({"one": stage("wrong", "never")})
    assert raised.value.code == 2
    assert len(commands()) == 1


@pytest.mark.parametrize(
    "words", ["folder", "run f --keep-old", "collect f --hours 1", "run f --hour 1", "describe a b"]
)
def test_anything_else_prints_the_usage(script, words):
    with pytest.raises(SystemExit, match=r"reference\.py run FOLDER"):
        script["main"](words.split())


def test_two_timed_runs_never_overlap(tmp_path, script, capsys):
    lock, order = tmp_path / "lock", []

    def second():
        with script["alone"](lock):
            order.append("second")

    thread = threading.Thread(target=second)
    with script["alone"](lock):
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert "waiting: another run holds" in capsys.readouterr().out
