"""Tuned files: what they set, what wins over them, what rows and plans say, files out of date."""

import hashlib
import shlex

import pytest

from kbench.config import composer, read_yaml
from kbench.errors import ConfigError
from kbench.run.planning.plan import make_plan
from kbench.run.planning.source import source_sha256
from kbench.run.planning.tuned_files import write_tuned

SEARCH = {"metric": "accuracy", "mean": 0.98, "sd": 0.003, "complete": True, "variant": None}


pytestmark = pytest.mark.usefixtures("here")


def plan(*words):
    with composer() as hydra:
        return make_plan(hydra, list(words), multirun=True)


def write(params, **search):
    return write_tuned("svc", "digits", params, SEARCH | search, "kbench tune method=svc")


def test_a_tuned_file_is_laid_over_the_method_and_named_by_its_runs():
    (bare,) = plan("method=svc").runs
    path = write({"C": 64, "gamma": 0.5})
    found = plan("method=svc")
    (run,) = found.runs
    assert run.params == {**bare.params, "C": 64, "gamma": 0.5}
    assert run.tuned == "svc-digits.yaml"
    assert run.tuned_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.tuned_lines == [
        "configs/tuned/svc-digits.yaml: C=64 gamma=0.5 (validation accuracy 0.98 ± 0.003)"
    ]
    assert plan("method=svc", "dataset=iris").runs[0].tuned is None
    assert plan("method=knn").tuned_lines == []


def test_parameters_that_were_tuned_or_typed_are_the_same_run():
    typed = plan("method=svc", "method.C=64").runs[0]
    write({"C": 64})
    tuned = plan("method=svc").runs[0]
    assert tuned.key == typed.key
    assert (typed.tuned, tuned.tuned) == (None, "svc-digits.yaml")


def test_the_command_line_and_grids_win():
    write({"C": 64, "gamma": 0.5})
    partly = plan("method=svc", "method.C=1,2")
    assert [(run.params["C"], run.params["gamma"]) for run in partly.runs] == [(1, 0.5), (2, 0.5)]
    assert {run.tuned for run in partly.runs} == {"svc-digits.yaml"}
    assert partly.tuned_lines[0].startswith("configs/tuned/svc-digits.yaml: gamma=0.5 (")
    for words in (["grid=c_gamma"], ["method.C=64", "method.gamma=0.5"]):
        whole = plan("method=svc", *words)
        assert {run.tuned for run in whole.runs} == {None}
        assert whole.tuned_lines == []
    (added,) = plan("method=svc", "++method.C=3").runs
    assert (added.params["C"], added.params["gamma"]) == (3, 0.5)


def test_none_leaves_the_file_out_and_another_can_be_named():
    (bare,) = plan("method=svc").runs
    path = write({"C": 64})
    (without,) = plan("method=svc", "tuned=none").runs
    assert (without.key, without.tuned) == (bare.key, None)
    path.rename(path.with_name("mine.yaml"))
    (named,) = plan("method=svc", "tuned=mine").runs
    assert (named.params["C"], named.tuned) == (64, "mine.yaml")
    with pytest.raises(ConfigError, match=r"no tuned is called 'nine' \(nearest: mine, none"):
        plan("method=svc", "tuned=nine")


@pytest.mark.parametrize("words", [["method=svc"], ["method=svc", "tuned=none"]])
def test_a_command_does_not_depend_on_tuned_files(words):
    path = write({"C": 64, "degree": 3})
    (run,) = plan(*words).runs
    for _ in range(2):
        (again,) = plan(*shlex.split(run.command)[1:]).runs
        assert again.key == run.key
        path.write_text(path.read_text().replace("degree: 3", "degree: 5"))


def test_a_file_for_an_older_version_of_the_method():
    write({"C": 64, "gama": 0.5})
    with pytest.raises(ConfigError) as error:
        plan("method=svc")
    assert str(error.value) == (
        "configs/tuned/svc-digits.yaml: method svc has no parameter 'gama' (nearest: gamma); "
        "tune it again, or write tuned=none"
    )
    write({"C": 64}, source_sha256="0" * 64)
    assert plan("method=svc").tuned_lines[1:] == [
        "warning: configs/tuned/svc-digits.yaml: the method's source has changed since it was tuned"
    ]
    write({"C": 64}, source_sha256=source_sha256("sklearn.svm:SVC"))
    assert len(plan("method=svc").tuned_lines) == 1


def test_a_file_for_other_data():
    (bare,) = plan("method=svc").runs
    write({"C": 64}, data_sha256=bare.data_sha256)
    assert len(plan("method=svc").tuned_lines) == 1
    write({"C": 64}, data_sha256="0" * 64)
    (line,) = plan("method=svc").tuned_lines[1:]
    assert line == (
        "warning: configs/tuned/svc-digits.yaml: tuned on data of checksum 000000000000, "
        f"here it is {bare.data_sha256[:12]}; tune again, or leave the file out with tuned=none"
    )
    write({"C": 64})
    (line,) = plan("method=svc", "dataset.scale=standard").tuned_lines[1:]
    assert line.endswith("tuned on the plain form of the data set, used on scale=standard")


def test_a_best_so_far_says_so():
    write({"C": 64}, complete=False, sd=None)
    (line,) = plan("method=svc").tuned_lines
    assert line.endswith("(validation accuracy 0.98, the best so far of an unfinished search)")


@pytest.mark.parametrize("text", ["1e-3", ".1E-2", "+1.e-3", "0.001"])
def test_numbers_of_a_file_by_hand_are_those_that_hydra_reads(config_file, text):
    config_file("tuned/svc-digits.yaml", f"# @package method\nC: {text}\n")
    (run,) = plan("method=svc").runs
    assert (run.params["C"], run.tuned) == (0.001, "svc-digits.yaml")


def test_a_file_by_hand_needs_no_search(config_file):
    path = config_file("tuned/svc-digits.yaml", "# @package method\nC: 5\n")
    assert plan("method=svc").tuned_lines == ["configs/tuned/svc-digits.yaml: C=5"]
    path.write_text("# @package method\nC: 5\nmeta: {tuned: {mean: high}}\n")
    with pytest.raises(ConfigError, match=r"meta\.tuned\.mean is 'high', should be a number"):
        plan("method=svc")
    path.write_text("# @package method\nC: [\n")
    with pytest.raises(ConfigError, match=r"svc-digits\.yaml"):
        plan("method=svc")


def test_what_is_written_is_read_back(here):
    path = write({"C": 0.0009765625, "kernel": "rbf", "gamma": "scale"})
    held = read_yaml(path)
    assert held.pop("meta") == {"tuned": SEARCH}
    assert held == {"C": 0.0009765625, "kernel": "rbf", "gamma": "scale"}
    assert [p.name for p in path.parent.iterdir()] == ["svc-digits.yaml"]


def test_a_file_of_the_users_own_has_the_tuned_file_of_its_name(here):
    for name in ("mine", "yours"):
        (here / f"{name}.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    write_tuned("svc", "mine", {"C": 64}, SEARCH, "kbench tune method=svc dataset.path=mine.csv")
    mine = plan("method=svc", "dataset.path=mine.csv").runs[0]
    yours = plan("method=svc", "dataset.path=yours.csv").runs[0]
    assert (mine.params["C"], mine.tuned) == (64, "svc-mine.yaml")
    assert (yours.params["C"], yours.tuned) == (1.0, None)
