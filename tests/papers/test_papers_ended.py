"""Cells of runs that ended without a value: status, limit, and the least seconds."""

from datetime import timedelta

from paper_rows import TABLE3, cell, rbf, runs
from report_rows import START, failed, stopped_in

from kbench.papers.cells.entries import LACKING, filled
from kbench.papers.cells.sheets import coverage
from kbench.papers.printed.layout import paper


def stopped(message, seed=0, **changes):
    """A run of LIBSVM on ijcnn1 that was stopped at its limit."""
    told = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}
    return failed("svc", "timeout", seed, message=message, **told, **changes)


def seconds(*rows):
    """The cell of LIBSVM's training seconds on ijcnn1."""
    return cell(runs(*rows), "LIBSVM", "ijcnn1", "seconds")


def test_the_seconds_of_a_stopped_fit_are_at_least_its_cpu_seconds_and_no_limit_of_wall_seconds():
    one = seconds(stopped(stopped_in("fit", 59.9, limit=60)))
    assert (one.value, one.lower_bound) == (None, 59.9)
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=60, stopped in fit",)
    # Seconds of two threads are wall seconds, of which there are at least half as many.
    assert seconds(stopped(stopped_in("fit", 100, limit=60), threads=2)).lower_bound == 50.0
    assert seconds(stopped("not done within limits.wall_s=60")).lower_bound is None


def test_training_seconds_of_runs_that_were_stopped_in_their_prediction_are_known():
    in_prediction = stopped_in("predict", 7.0, limit=60)
    ok = rbf("svc", 0.9, fit_wall_s=5.0)
    one = seconds(ok, stopped(in_prediction, 1))
    assert (one.value, one.status, one.lower_bound) == (6.0, "", None)
    assert one.notes == (
        "1 of 2 runs ok",
        "svc on ijcnn1: not done within limits.wall_s=60, stopped in predict",
        "svc: an intercept, which the paper's LIBSVM does not have",
    )
    assert seconds(stopped(in_prediction)).value == 7.0
    accuracy = cell(runs(stopped(in_prediction)), "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.status) == (None, "timeout")
    in_fit = stopped_in("fit", 7.0, limit=60)
    assert seconds(ok, stopped(in_prediction, 1), stopped(in_fit, 2)).value is None
    assert seconds(stopped(in_prediction, threads=2)).value is None


def test_every_cell_is_measured_on_own_or_other_data_or_not_run():
    lost = failed("dcsvm", "timeout", dataset="ijcnn1", params=rbf("dcsvm", 1)["params"])
    lost["message"] = "not done within limits.wall_s=120"
    svc = rbf("svc", 0.98, command="kbench limits.wall_s=120")
    tables = filled(TABLE3, runs(svc, lost))
    count = coverage(tables)
    # Two quantities of ten printed methods on four data sets, cifar not present.
    assert (count.cells, count.absent, count.not_run) == (80, 20, 78)
    assert (count.own, count.stand_in, count.ended, count.missing) == (2, 0, 2, 56)
    assert str(count) == (
        "80 cells: 2 measured on the paper's data at its size, 0 on stand-ins, 78 without a value"
        " (2 tried, 56 no rows, 20 no data)"
    )
    part = coverage(filled(TABLE3, runs({**svc, "n_train": 4999}, lost)))
    assert (part.own, part.stand_in) == (0, 2)
    assert cell(runs(lost), "LIBSVM", "cifar", "accuracy").absent
    exact = {**svc, **rbf("kernel_svc", 0.99), "command": svc["command"]}  # no paper prints it
    assert coverage(filled(TABLE3, runs(svc, lost, exact))) == count
    assert not cell(runs(lost), "LIBSVM", "cifar", "× LIBSVM").absent
    own = rbf("svc", 0.9, C=8, gamma=2.0**-22, dataset="cifar10", variant="animals")
    assert cell(runs(own), "LIBSVM", "cifar", "accuracy").value == 0.9


def test_a_row_of_a_method_that_kbench_lacks_is_no_cell_with_data():
    table = paper("dsgd").tables["stated_mae"]
    (one,) = [e for g in filled(table, runs())[0].groups for e in g.entries if e.absent == LACKING]
    assert one.printed


def test_of_several_stopped_runs_of_a_seed_the_one_with_the_longest_limit_counts():
    long, short = stopped(stopped_in("fit", 900)), stopped(stopped_in("fit", 120))
    short["started_at"] = START + timedelta(hours=1)
    for rows in ((long, short), (short, long)):
        one = seconds(*rows)
        assert (one.status, one.lower_bound) == ("timeout", 900.0)


def test_seconds_of_which_some_runs_were_stopped_are_a_lower_bound_and_no_mean():
    lost = [stopped(stopped_in("fit", 120), seed) for seed in (1, 2)]
    command = "kbench limits.wall_s=120"
    ok = rbf("svc", 0.9, fit_wall_s=112.5, command=command)
    found = runs(ok, *lost, rbf("dcsvm_early", 0.9, command=command))
    one = cell(found, "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.lower_bound, one.status) == (None, 117.5, "1 of 3 ok")
    assert one.notes == (
        "svc on ijcnn1: not done within limits.wall_s=120, stopped in fit",
        "svc on ijcnn1: the mean of all 3 runs is at least 118 s",
    )
    accuracy = cell(found, "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.notes[0]) == (0.9, "1 of 3 runs ok")
    ratio = cell(found, "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (ratio.value, ratio.status) == (None, "svc: 1 of 3 ok")
    assert ratio.notes == one.notes
    unknown = stopped("not done within limits.wall_s=120", 1)
    assert seconds(ok, unknown).lower_bound is None


def test_a_ratio_of_a_stopped_run_is_a_lower_bound():
    early = {"dataset": "ijcnn1", "params": rbf("dcsvm_early", 1)["params"]}
    slow = failed("dcsvm_early", "timeout", message=stopped_in("fit", 60), **early)
    one = cell(runs(slow, rbf("svc", 0.9, fit_wall_s=4.0)), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (one.value, one.status, one.lower_bound) == (None, "timeout", 15.0)
