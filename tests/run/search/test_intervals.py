"""Searches over intervals: what is proposed, Optuna or none, and going on after a stop."""

import json
import math
import signal

import numpy as np
import pandas as pd
import pytest
from harness import kbench, python, refusal, run_here, start, wait_for
from hypothesis import given
from hypothesis import strategies as st

from kbench.config import composer, read_yaml
from kbench.run.search import parameter_search
from kbench.run.search.intervals import (
    OptunaProposals,
    RandomProposals,
    SearchRange,
    Space,
    proposals,
)

BOTH = pytest.mark.parametrize("kind", [RandomProposals, OptunaProposals])
# A command as in an environment without Optuna.
WITHOUT_OPTUNA = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "optuna" else find(name, *rest)
from kbench.cli import main
sys.exit(main())
"""
ASKED = ["tune", "method=svc", "dataset=iris", "tune.cv=2", "tune.runs=26"]
ASKED += ["method.C=interval(1e-2,1e3)", "method.gamma=interval(1e-3,10)"]


def space_of(*words):
    with composer() as hydra:
        return Space.of(hydra, words)


def made(kind, space, seed):
    if kind is RandomProposals:
        return kind(space, seed)
    pytest.importorskip("optuna", reason="Optuna is not installed")
    return kind(space, seed, "min")


def trials(here):
    frame = pd.read_parquet(here / "results" / "_tune").sort_values("started_at")
    params = frame["params"].map(json.loads)
    return frame.assign(**{name: [p[name] for p in params] for name in ("C", "gamma")})


@given(
    low=st.floats(1e-6, 1e3),
    ratio=st.floats(1.01, 1e6),
    whole=st.booleans(),
    log=st.booleans(),
    place=st.floats(0, 1),
)
def test_every_number_of_an_interval_lies_in_it_and_order_is_kept(low, ratio, whole, log, place):
    high = low * ratio
    if whole:
        low, high = math.ceil(low), math.ceil(high) + 1
    interval = SearchRange(low, high, whole, log)
    found = interval.at(place)
    assert low <= found <= high
    assert isinstance(found, int) is whole
    assert interval.at(place / 2) <= found
    if not whole:
        assert interval.at(0.0) == pytest.approx(low, rel=1e-5)
        assert interval.at(1.0) == pytest.approx(high, rel=1e-5)


@pytest.mark.parametrize(
    ("word", "whole", "log"),
    [
        ("method.C=interval(1e-3,1e3)", False, True),
        ("method.C=interval(1,100)", False, False),
        ("method.C=interval(1,101)", False, True),
        ("method.C=tag(log,interval(1,10))", False, True),
        ("method.coef0=interval(-1,1000)", False, False),
        ("method.degree=interval(2,5)", True, False),
        ("method.degree=interval(2,4.5)", False, False),
        ("method.C=int(interval(1,1000))", True, True),
    ],
)
def test_the_scale_follows_from_the_interval(word, whole, log):
    (found,) = space_of("method=svc", word).intervals.values()
    assert (found.is_integer, found.is_log) == (whole, log)
    described = space_of("method=svc", word, "method.gamma=1,2").description()
    assert (", gamma of 2 values" in described, "log scale" in described) == (True, log)


def test_draws_are_uniform_on_their_scale():
    space = space_of("method=svc", "method.C=interval(1e-3,1e3)", "method.coef0=interval(-1,1)")
    random = RandomProposals(space, 0)
    drawn = [random.propose() for _ in range(2000)]
    for values in (
        (np.log10([one["C"] for one in drawn]) + 3) / 6,
        (np.array([one["coef0"] for one in drawn]) + 1) / 2,
    ):
        # Kolmogorov's bound at one in a million for 2,000 draws.
        distance = np.abs(np.sort(values) - np.arange(2000) / 2000).max()
        assert distance < 2.7 / math.sqrt(2000)


@BOTH
def test_proposals_follow_from_the_seed_and_the_scores(kind):
    words = ["method=svc", "method.C=interval(1e-3,1e3)", "method.kernel=rbf,poly"]
    space = space_of(*words, "method.degree=interval(2,5)", "dataset=iris")
    assert space.words == ("method=svc", "dataset=iris")

    def asked(n, seed):
        proposer, found = made(kind, space, seed), []
        for _ in range(n):
            setting = proposer.propose()
            found.append(setting)
            proposer.tell(setting, None if len(found) == 3 else abs(math.log(setting["C"])))
        return found

    first = asked(20, 0)
    assert asked(25, 0)[:20] == first
    assert asked(20, 1) != first
    assert first[:10] == asked_at_random(space, 10)
    for setting in first:
        assert set(setting) == {"C", "kernel", "degree"}
        assert 1e-3 <= setting["C"] <= 1e3
        assert setting["kernel"] in ("rbf", "poly")
        assert setting["degree"] in (2, 3, 4, 5)


def asked_at_random(space, n):
    random = RandomProposals(space, 0)
    return [random.propose() for _ in range(n)]


def test_optuna_learns_from_scores():
    space = space_of("method=svc", "method.C=interval(1e-6,1e6)")

    def distance(proposer):
        found = []
        for _ in range(40):
            setting = proposer.propose()
            found.append(abs(math.log10(setting["C"]) - 2))
            proposer.tell(setting, found[-1])
        return np.median(found[20:])

    learnt = [distance(made(OptunaProposals, space, seed)) for seed in range(3)]
    drawn = [distance(RandomProposals(space, seed)) for seed in range(3)]
    assert np.mean(learnt) < 0.5 * np.mean(drawn)


def test_without_optuna_proposals_are_random(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    space = space_of("method=svc", "method.C=interval(1,10)")
    assert isinstance(proposals(space, 0, "max"), RandomProposals)


def test_a_search_that_was_stopped_goes_on(tmp_path):
    program = ("-P", "-c", WITHOUT_OPTUNA)
    process = start(tmp_path, *ASKED, program=program)
    wait_for(lambda: len(list((tmp_path / "results" / "_tune").glob("*.parquet"))) >= 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "random settings (pip install 'kbench[optuna]'" in err
    assert (process.returncode, "Traceback" in err) == (130, False)
    before = trials(tmp_path).query("status == 'ok'")
    done = python(*program, *ASKED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    after = trials(tmp_path)
    assert len(after) == 26
    assert (after["attempt"] == 1).all()
    assert set(before["started_at"]) <= set(after["started_at"])
    space = space_of("method=svc", *(word for word in ASKED if "interval" in word))
    expected = asked_at_random(space, 13)
    runs = {(row.C, row.gamma) for row in after.itertuples()}
    assert runs == {(one["C"], one["gamma"]) for one in expected}
    means = after.groupby(["C", "gamma"])["accuracy"].mean()
    first = next(one for one in expected if means[one["C"], one["gamma"]] == means.max())
    tuned = read_yaml(tmp_path / "configs" / "tuned" / "svc-iris.yaml")
    assert (tuned["C"], tuned["gamma"]) == (first["C"], first["gamma"])
    said = tuned["meta"]["tuned"]
    assert (said["sampler"], said["trials"], said["complete"]) == ("random", 26, False)
    assert said["rungs"] == [{"rows": said["rows"], "candidates": 13}]
    assert "the budget of 26 runs is reached" in done.stdout


def test_the_command_takes_optuna(tmp_path):
    pytest.importorskip("optuna", reason="Optuna is not installed")
    err = kbench(tmp_path, *ASKED, check=0).stderr
    assert "settings of Optuna's TPE: C in [0.01, 1000] (log scale), gamma in" in err
    assert len(trials(tmp_path)) == 26
    said = read_yaml(tmp_path / "configs" / "tuned" / "svc-iris.yaml")["meta"]["tuned"]
    assert said["sampler"] == "tpe"


def test_a_space_of_few_settings_comes_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(parameter_search, "proposals", lambda *words: RandomProposals(*words[:2]))
    words = ["method=knn", "dataset=iris", "method.n_neighbors=interval(1,3)", "tune.runs=100"]
    out = run_here(tmp_path, "tune", *words, "tune.validation=0.3", check=0).stdout
    assert "trials: 3 ok" in out
    assert "budget" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["method.C=interval(1,10)"], "add tune.runs=40 or tune.seconds=600"),
        (["method.C=interval(1,10)", "tune.runs=9", "tune.halving=true"], "takes lists of values"),
        (["method.C=interval(10,1)", "tune.runs=9"], "with LOW below HIGH"),
        (["method.C=tag(log,interval(0,1))", "tune.runs=9"], "a log scale begins above 0"),
        (["seed=interval(0,9)", "tune.runs=9"], "only a method's key takes an interval"),
        (
            ["method.C=interval(1,10)", "grid=c_gamma", "tune.runs=9"],
            "lists, as method.kernel=rbf,poly",
        ),
        (["method.see=interval(1,10)", "tune.runs=9"], "has a parameter 'see'"),
        (["method.C=interval(-1,10)", "tune.runs=9"], "The 'C' parameter of SVC"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    assert said in refusal(capsys, "tune", "method=svc", "dataset=iris", *words)
