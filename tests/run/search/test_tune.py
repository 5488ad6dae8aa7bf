"""`kbench tune` as a user starts it: what it chooses, what it never sees, stopping and going on."""

import json
import signal
import statistics
from pathlib import Path

import harness
import numpy as np
import pandas as pd
import pytest
from harness import refusal, run_here, wait_for
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from sklearn.model_selection import PredefinedSplit, cross_val_score
from sklearn.svm import SVC

from kbench.cli import main
from kbench.config import composer, read_yaml
from kbench.data import open_prepared
from kbench.data.preparation.split import holdout_rows
from kbench.run.planning.plan import make_plan
from kbench.run.results.metrics import METRICS
from kbench.run.search.halving import Candidate, Search, ranked

HERE = Path(__file__).parent
SCRIPTED = """
name: scripted
estimator: scripted.Scripted
meta: {about: for tests, tasks: [binary, multiclass]}
shrink: 0.0
seconds: 0.0
breaks: false
"""
WALKER = """
name: walker
estimator: scripted.Walker
meta: {about: for tests, tasks: [binary, multiclass], path: [shrink]}
shrink: 0.0
seconds: 0.0
breaks_at: null
dies_at: null
warm_start: false
"""


@pytest.fixture
def here(here, config_file):
    config_file("method/scripted.yaml", SCRIPTED)
    config_file("method/walker.yaml", WALKER)
    return here


def start(*words):
    return harness.start(Path.cwd(), *words, env={"PYTHONPATH": str(HERE)})


def kbench(*words, check=0):
    done = run_here(Path.cwd(), *words, check=check)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def trials(folder="results"):
    frame = pd.read_parquet(Path(folder) / "_tune")
    return frame.assign(**{name: frame["params"].map(lambda p, n=name: json.loads(p).get(n))
                           for name in ("shrink", "C", "gamma", "breaks")})  # fmt: skip


def fold_labels(y, folds):
    """For each row the number of the fold that it validates in."""
    numbers = np.empty(y.size, dtype=int)
    for fold in range(folds):
        _, validate = holdout_rows(y, {"folds": folds, "fold": fold + 1}, classes=True)
        numbers[validate] = fold
    return numbers


def told(capsys, *words):
    """What a command that starts no worker prints."""
    assert main(words) == 0
    return capsys.readouterr().out


def test_the_scores_are_scikit_learn_s_and_later_runs_use_the_best(here, capsys):
    out, _ = kbench("tune", "method=svc", "method.C=0.1,10", "method.gamma=0.01,1", "tune.cv=3")
    tuned = read_yaml(here / "configs" / "tuned" / "svc-digits.yaml")
    said = tuned["meta"]["tuned"]
    (folder,) = [p.parent for p in here.glob("datasets/**/meta.json")]
    data = open_prepared(folder)
    folds = PredefinedSplit(fold_labels(data.y_train, 3))
    means = {}
    for C in (0.1, 10):
        for gamma in (0.01, 1):
            scores = cross_val_score(SVC(C=C, gamma=gamma), data.X_train, data.y_train, cv=folds)
            means[C, gamma] = (scores.mean(), scores.std(ddof=1))
    best = max(means, key=lambda setting: means[setting][0])
    assert (tuned["C"], tuned["gamma"]) == best
    assert (said["mean"], said["sd"]) == pytest.approx(means[best], rel=1e-12)
    assert (said["trials"], said["failed"], said["complete"]) == (12, 0, True)
    assert said["data_sha256"] == data.sha256
    assert out.splitlines()[1].split() == [
        f"{means[best][0]:.4f}", "±", f"{means[best][1]:.4f}", str(said["rows"]), *map(str, best)
    ]  # fmt: skip

    assert "No results" in told(capsys, "report", "reference=false")
    plan = told(capsys, "plan", "method=svc")
    assert "tuned: configs/tuned/svc-digits.yaml: C=10 gamma=0.01" in plan
    kbench("method=svc")
    row = pd.read_parquet("results").iloc[0]  # the trials are not among the results
    assert (row["tuned"], row["n_test"]) == ("svc-digits.yaml", data.n_test)
    assert pd.isna(row["variant"])
    assert (json.loads(row["params"])["C"], json.loads(row["params"])["gamma"]) == best
    trial = trials().iloc[0]
    assert trial["variant"].startswith("holdout.folds=3,holdout.fold=")
    again, _ = kbench("debug", trial["key"][:10])
    assert f"accuracy           {trial['accuracy']}" in again
    assert "this run may differ" not in again


def write_files(folder, *, spoilt):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400) > 0, 1, -1)
    dump_svmlight_file(X, y, str(folder / "train.libsvm"), zero_based=False)
    X_test, y_test = rng.normal(size=(100, 5)), np.ones(100)
    y_test[::2] = -1
    if spoilt:
        X_test, y_test = 1e3 * X_test, -y_test
    dump_svmlight_file(X_test, y_test, str(folder / "test.libsvm"), zero_based=False)


def test_the_test_rows_have_no_influence(here):
    words = ["dataset=file", "dataset.path=train.libsvm", "dataset.test_path=test.libsvm"]
    words += ["dataset.task=binary", "dataset.scale=standard", "method.C=0.1,1,10"]
    found = []
    for spoilt in (False, True):
        write_files(here, spoilt=spoilt)
        kbench("tune", "method=svc", *words, "tune.cv=3", f"results_dir=spoilt-{spoilt}")
        rows = trials(f"spoilt-{spoilt}").sort_values(["C", "variant"])
        scores = rows[["C", "variant", "accuracy", "f1", "n_train", "n_test"]].to_numpy().tolist()
        tuned = read_yaml(here / "configs" / "tuned" / "svc-train.yaml")
        assert (tuned["meta"]["tuned"].pop("data_sha256")) == rows["data_sha256"].iloc[0]
        for told in ("date", "cpu_s"):
            tuned["meta"]["tuned"].pop(told)
        found.append((scores, tuned, set(rows["data_sha256"])))
    assert found[0][:2] == found[1][:2]
    assert found[0][2] != found[1][2]


def wait_for_rows(n):
    wait_for(lambda: len(list(Path("results/_tune").glob("*.parquet"))) >= n)


def test_without_a_grid_a_machine_chooses_the_parameters_of_a_kernel_machine(here, capsys):
    words = ["method=dcsvm_early", "dataset=iris", "limits.wall_s=60"]
    assert main(["tune", *words]) == 0
    held = read_yaml(Path("configs/tuned/dcsvm_early-iris.yaml"))
    search = held["meta"]["tuned"]
    assert search["tuner"] == "tuned_svc"
    assert search["validation"] == 0.2
    assert held.keys() == {"gamma", "C", "meta"}
    frame = trials()
    assert list(frame["method"]) == ["tuned_svc"]
    # What the method cannot do is not chosen: other rows, another kernel.
    params = json.loads(frame["params"].iloc[0])
    assert [params.get(key) for key in ("kernel", "metric", "scaler")] == ["rbf", None, None]
    assert search["mean"] == frame["accuracy"].iloc[0] > 0.85
    assert "tuned_svc chooses the parameters" in capsys.readouterr().err
    # Several values are a grid, as for every method.
    assert main(["tune", "method=svc", "dataset=iris", "method.C=1,10", "tune.validation=0.3"]) == 0
    assert read_yaml(Path("configs/tuned/svc-iris.yaml")).keys() == {"C", "meta"}


def test_what_was_stopped_or_killed_goes_on_where_it_was(here):
    words = ["tune", "method=scripted", "method.shrink=0,0.5,1", "tune.cv=2", "method.seconds=0.3"]
    process = start(*words)
    wait_for_rows(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command continues from there" in out
    process = start(*words)
    wait_for_rows(3)
    process.kill()
    process.communicate(timeout=60)
    assert not (here / "configs" / "tuned").exists()
    before = trials()
    before = before[before["status"] == "ok"].set_index("key")["started_at"]
    assert 2 <= len(before) < 6
    _, err = kbench(*words)
    after = trials().set_index("key")
    assert (after["status"] == "ok").all()
    assert len(after) == 6
    assert (after.loc[before.index, "started_at"] == before).all()
    assert f"[{6 - len(before)}/{6 - len(before)}]" in err
    path = here / "configs" / "tuned" / "scripted-digits.yaml"
    written = path.read_bytes()
    _, err = kbench(*words)
    assert "[1/" not in err
    assert path.read_bytes() == written


def test_a_budget_that_is_reached_is_said_and_marked_and_can_be_raised(here, capsys):
    words = ["tune", "method=scripted", "method.shrink=0.9,0.8,0.5,0,1", "tune.cv=2"]
    out, _ = kbench(*words, "tune.runs=5")
    assert "the budget of 5 runs is reached: this is the best so far" in out
    tuned = read_yaml(here / "configs" / "tuned" / "scripted-digits.yaml")
    rows = trials()
    complete = rows["shrink"].value_counts()
    complete = complete[complete == 2].index
    assert len(rows) == 5
    assert tuned["shrink"] in complete
    assert (tuned["meta"]["tuned"]["trials"], tuned["meta"]["tuned"]["complete"]) == (5, False)
    assert tuned["meta"]["tuned"]["budget"] == "5 runs"
    plan = told(capsys, "plan", "method=scripted")
    assert "the best so far of an unfinished search" in plan
    out, err = kbench(*words)
    assert "[5/5]" in err
    tuned = read_yaml(here / "configs" / "tuned" / "scripted-digits.yaml")
    means = trials().groupby("shrink")["accuracy"].mean()
    assert means[tuned["shrink"]] == means.max() == tuned["meta"]["tuned"]["mean"]
    assert tuned["meta"]["tuned"]["complete"] is True


def test_a_budget_too_small_for_one_setting(here, capsys):
    assert main(["tune", "method=svc", "method.C=1,10", "tune.seconds=0.000001"]) == 1
    out = capsys.readouterr().out
    assert "nothing is written: the budget of 1e-06 s is reached and no setting finished" in out
    assert not (here / "configs" / "tuned").exists()


def test_a_setting_that_fails_is_not_chosen_and_not_tried_on_other_folds(here):
    words = ["tune", "method=scripted", "method.breaks=true,false", "method.shrink=0,1"]
    out, _ = kbench(*words, "tune.cv=3", check=1)
    rows = trials()
    failed = rows[rows["status"] == "error"]
    assert sorted(failed["shrink"]) == [0, 1]
    assert (rows["status"] == "ok").sum() == 6
    assert "trials: 2 error, 6 ok" in out
    tuned = read_yaml(here / "configs" / "tuned" / "scripted-digits.yaml")
    assert (tuned["breaks"], tuned["shrink"], tuned["meta"]["tuned"]["failed"]) == (False, 0, 2)
    out, err = kbench("tune", "method=scripted", "method.breaks=true", "method.shrink=0,1", check=1)
    assert "nothing is written: no setting finished every fold" in out
    assert "RuntimeError: broke" in err


def test_trials_along_a_path_share_an_estimator_and_score_the_same(here):
    words = ["tune", "method=walker", "method.shrink=0,0.5,0.9", "tune.cv=2"]
    kbench(*words, "parallel.jobs=1")
    together = trials().sort_values(["variant", "shrink"])
    assert together["n_iter"].tolist() == [1, 2, 3, 1, 2, 3]
    assert not any(json.loads(params)["warm_start"] for params in together["params"])
    kbench(*words, "tune.seconds=600", "results_dir=alone")
    alone = trials("alone").sort_values(["variant", "shrink"])
    assert set(alone["n_iter"]) == {1}
    assert alone["key"].tolist() == together["key"].tolist()
    assert alone["accuracy"].tolist() == together["accuracy"].tolist()
    kbench(*words, "parallel.jobs=4", "results_dir=four")
    assert sorted(trials("four")["n_iter"]) == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("wrong", "status", "fits"),
    [("breaks_at", "error", [1, 2, 1]), ("dies_at", "crashed", [1, 2, 1])],
)
def test_a_path_goes_on_behind_a_trial_that_fails(here, wrong, status, fits):
    words = ["method=walker", "method.shrink=0,0.25,0.5,0.75", "tune.validation=0.25"]
    kbench("tune", *words, f"method.{wrong}=0.5", "parallel.jobs=1", check=1)
    rows = trials().sort_values("shrink")
    assert rows["status"].tolist() == ["ok", "ok", status, "ok"]
    assert rows["n_iter"].dropna().tolist() == fits


def test_a_path_stopped_on_its_way_keeps_what_was_done(here):
    words = ["tune", "method=walker", "method.shrink=0,0.25,0.5,0.75", "tune.validation=0.25"]
    words += ["method.seconds=1", "parallel.jobs=1"]
    process = start(*words)
    wait_for(lambda: Path("fits").exists() and Path("fits").stat().st_size >= 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    found = trials()["status"].tolist()
    assert set(found) <= {"ok", "interrupted"}
    assert "interrupted" in found
    kbench(*words)
    assert (trials().sort_values("started_at").drop_duplicates("key", keep="last")["status"]
            == "ok").all()  # fmt: skip


def test_a_path_that_the_method_does_not_have_is_one_line(here):
    file = here / "configs" / "method" / "walker.yaml"
    file.write_text(WALKER.replace("[shrink]", "[C]"))
    _, err = kbench("method=walker", check=2)
    assert "method walker: meta.path is ['C'], should be a list of parameters" in err


def test_halving_goes_on_with_the_better_settings_on_more_rows(here):
    words = ["tune", "method=scripted", "method.shrink=0.99,1,0.5,0.9,0", "tune.validation=0.25"]
    kbench(*words, "tune.halving=true", "tune.factor=2", "tune.min_rows=200")
    tuned = read_yaml(here / "configs" / "tuned" / "scripted-digits.yaml")
    said = tuned["meta"]["tuned"]
    rows = trials()
    assert [(r["rows"], r["candidates"]) for r in said["rungs"]] == [(252, 5), (505, 3), (1010, 2)]
    assert sorted(rows["n_train"].value_counts().items()) == [(252, 5), (505, 3), (1010, 2)]
    assert set(rows["n_test"]) == {337}
    for now, then in ((252, 505), (505, 1010)):
        scores = rows[rows["n_train"] == now].set_index("shrink")["accuracy"]
        kept = set(rows.loc[rows["n_train"] == then, "shrink"])
        assert min(scores[list(kept)]) >= max(scores[[s for s in scores.index if s not in kept]])
    last = rows[rows["n_train"] == 1010].set_index("shrink")["accuracy"]
    assert (said["mean"], said["sd"], said["rows"]) == (last.max(), None, 1010)
    assert last[tuned["shrink"]] == last.max()


OWN = """# @package _global_
plan:
  tuned: mine
  tune: {validation: 0.25, rows: 600, runs: 4}
  methods: [scripted: {shrink: [0, 0.5, 1]}, knn_regressor, svc: {C: [1, 10], gamma: [0.01, 1]}]
  datasets: [digits, iris]
"""


@pytest.fixture
def experiments(here, config_file):
    """Experiments to tune: one that is right, and others."""
    config_file("experiment/own.yaml", OWN)
    config_file("experiment/forms.yaml", OWN.replace("iris", "digits: {scale: unit}"))
    config_file("experiment/odd.yaml", OWN.replace("runs", "trials"))
    config_file("experiment/named.yaml", OWN.replace("mine", "a-b"))
    config_file(
        "experiment/uses.yaml",
        "# @package _global_\n"
        "plan: {tuned: mine, methods: [scripted, svc: {C: [3]}, knn], datasets: [digits, iris]}\n",
    )


def test_an_experiment_is_tuned_pair_by_pair_with_one_budget(experiments, capsys):
    out, _ = kbench("tune", "experiment=own", "method=scripted,svc", "dataset=digits")
    files = read_tuned("scripted-digits-mine"), read_tuned("svc-digits-mine")
    for held in files:
        said = held["meta"]["tuned"]
        assert (said["rows"], said["validation"], said["budget"]) == (600, 0.25, "4 runs")
        assert said["trials"] == (3 if "shrink" in held else 4)
        assert "source_sha256" not in said
    rows = trials()
    assert set(rows["n_train"]) == {600}
    assert len(rows) == 7
    spent = rows[rows["method"] == "svc"][["fit_cpu_s", "predict_cpu_s"]].sum().sum()
    assert files[1]["meta"]["tuned"]["cpu_s"] == pytest.approx(spent, abs=0.005)
    best = rows[rows["method"] == "svc"].sort_values("accuracy").iloc[-1]
    assert (files[1]["C"], files[1]["gamma"]) == (best["C"], best["gamma"])
    assert "wrote configs/tuned/svc-digits-mine.yaml, used by experiments whose plan says" in out

    plan = told(capsys, "plan", "experiment=uses", "show=runs")
    assert f"method.gamma={files[1]['gamma']}" in plan
    assert "method.C=3" in plan
    with composer() as hydra:
        runs = make_plan(hydra, ["experiment=uses"]).runs
        assert {(run.method, run.dataset): run.tuned for run in runs if run.tuned} == {
            ("scripted", "digits"): "scripted-digits-mine.yaml",
            ("svc", "digits"): "svc-digits-mine.yaml",
        }
        without = make_plan(hydra, ["experiment=uses", "tuned=none"]).runs
        assert {run.tuned for run in without} == {None}
        alone = make_plan(hydra, ["method=svc"]).runs  # the set is for those that name it
        assert [run.tuned for run in alone] == [None]
    said = "scored on held-out training rows by `kbench tune experiment=own`"
    assert said in refusal(capsys, "experiment=own")


def test_an_experiment_that_names_a_set_of_no_files(experiments, capsys):
    said = "plan.tuned is 'mine', and no file of configs/tuned is called METHOD-DATASET-mine"
    assert said in refusal(capsys, "plan", "experiment=uses")


def read_tuned(name):
    return read_yaml(Path("configs", "tuned", f"{name}.yaml"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["method=svc", "tune.cv=1"], "tune.cv is '1', should be a whole number from 2"),
        (["method=svc", "tune.folds=3"], "no key of this command is called 'tune.folds'"),
        (["method=svc", "tune.validation=1"], "should be a number above 0 and below 1"),
        (["method=svc", "tune.cv=3", "tune.validation=0.2"], "are both given"),
        (["method=svc", "tune.seconds=soon"], "tune.seconds is 'soon', should be a number above"),
        (["method=svc,knn", "grid=c_gamma"], "takes several values of the method's keys only"),
        (["method=svc", "seed=0,1"], "takes several values of the method's keys only"),
        (["experiment=demo"], "experiment demo cannot be tuned: its plan states no budget"),
        (["experiment=own", "seed=0,1"], "takes several values of the method's keys only"),
        (["experiment=own", "method=knn"], "experiment own has no method knn"),
        (["experiment=own", "tune.rows=0"], "tune.rows is '0', should be a whole number from 1"),
        (["experiment=forms"], "scripted has two variants of digits in experiment forms"),
        (["experiment=odd"], "no key of this command is called 'tune.trials'"),
        (["experiment=named"], "plan.tuned is 'a-b', should be a name of letters, digits and _"),
        (["dataset=digits"], "name a method"),
        (["method=knn"], "nothing to choose from: knn has one setting here; add grid=NAME"),
        (["method=svc", "grid=c_gamma", "tune.cv=2000"], "folds is 2000, there are 1347 training"),
        (["method=svc", "grid=c_gamma", "tune.metric=rmse"], "'rmse', should be one of accuracy"),
        (["method=svc", "+method.random_state=1,2"], "no parameter 'random_state'"),
        (["method=svc", "method.kernel=rbf,foo"], "The 'kernel' parameter of SVC must be"),
        (["method=svr", "grid=c_gamma"], "svr: not for multiclass, which digits is"),
    ],
)
def test_mistakes_are_one_line(here, experiments, capsys, words, said):
    assert said in refusal(capsys, "tune", *words)


@given(st.integers(1, 10**6), st.integers(1, 500), st.integers(2, 5), st.integers(1, 1000))
def test_rungs_end_with_all_rows_and_begin_with_enough(n_rows, n_candidates, factor, least):
    rungs = Search(halving=True, factor=factor, min_rows=least).rungs(n_rows, n_candidates)
    assert rungs[-1] == n_rows
    assert rungs == sorted(rungs)
    assert len(rungs) == 1 or rungs[0] >= least
    assert factor ** (len(rungs) - 1) <= n_candidates
    assert Search(factor=factor, min_rows=least).rungs(n_rows, n_candidates) == [n_rows]
    assert Search(rows=least).rungs(n_rows, n_candidates) == [min(n_rows, least)]


def test_folds_of_groups_train_on_as_many_rows_as_the_smallest_has(here):
    rng, lines = np.random.default_rng(0), ["g,a,y"]
    for group, size in enumerate([60] + [3] * 20):
        lines += [f"u{group},{rng.normal():.4f},{rng.choice(list('ab'))}" for _ in range(size)]
    Path("g.csv").write_text("\n".join(lines))
    # The fold that holds the large group out leaves less than 60 rows.
    words = ["dataset.path=g.csv", "dataset.source.columns.group=g", "tune.cv=3", "tune.rows=60"]
    assert kbench("tune", "method=knn", "method.n_neighbors=1,3", *words)
    assert set(trials()["status"]) == {"ok"}
    assert len(trials()) == 6


@given(st.lists(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=2, max_size=2), min_size=1))
def test_of_equal_means_the_earlier_in_the_grid_is_better(scores):
    grid = [Candidate(index, {}, rung=0, scores=s) for index, s in enumerate(scores)]
    accuracy, rmse = METRICS["binary"][0], METRICS["regression"][0]
    for metric, best in ((accuracy, max), (rmse, min)):
        top = ranked(reversed(grid), metric)[0]
        mean = best(map(statistics.fmean, scores))
        assert top.mean == mean
        assert all(c.mean != mean for c in grid[: top.index])
