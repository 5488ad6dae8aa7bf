"""Cells of runs that ended without a value: status, limit, and the least seconds."""

from datetime import timedelta

from paper_rows import TABLE3, cell, rbf, runs
from report_rows import START, failed, stopped_in

from kbench.papers.cells.entries import LACKING, filled
from kbench.papers.cells.sheets import coverage
from kbench.papers.printed.layout import paper


def test_the_seconds_of_a_stopped_fit_are_at_least_its_cpu_seconds_and_no_limit_of_wall_seconds():
    said = {"dataset": "ijcnn1", "params": rbf("svc", 1)["params"]}

    def stopped(message, **changes):
        lost = failed("svc", "timeout", message=message, **{**said, **changes})
        return cell(runs(lost), "LIBSVM", "ijcnn1", "seconds")

    one = stopped(stopped_in("fit", 59.9, limit=60))
    assert (one.value, one.lower_bound) == (None, 59.9)
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=60, stopped in fit",)
    # Seconds of two threads are wall seconds, of which there are at least half as many.
    assert stopped(stopped_in("fit", 100, limit=60), threads=2).lower_bound == 50.0
    assert stopped("not done within limits.wall_s=60").lower_bound is None


def test_training_seconds_of_runs_that_were_stopped_in_their_prediction_are_known():
    said = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}

    def stopped(seed, stage, seconds=7.0, **changes):
        message = stopped_in(stage, seconds, limit=60)
        return failed("svc", "timeout", seed, message=message, **{**said, **changes})

    found = runs(rbf("svc", 0.9, fit_wall_s=5.0), stopped(1, "predict"))
    one = cell(found, "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.status, one.lower_bound) == (6.0, "", None)
    assert one.notes == (
        "1 of 2 runs ok",
        "svc on ijcnn1: not done within limits.wall_s=60, stopped in predict",
        "svc: an intercept, which the paper's LIBSVM does not have",
    )
    only = runs(stopped(1, "predict"))
    assert cell(only, "LIBSVM", "ijcnn1", "seconds").value == 7.0
    accuracy = cell(only, "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.status) == (None, "timeout")
    for others in ([*found.rows, stopped(2, "fit")], [stopped(1, "predict", threads=2)]):
        assert cell(runs(*others), "LIBSVM", "ijcnn1", "seconds").value is None


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
    said = {"dataset": "ijcnn1", "params": rbf("svc", 1)["params"]}
    long = failed("svc", "timeout", message=stopped_in("fit", 900), **said)
    short = failed("svc", "timeout", message=stopped_in("fit", 120), **said)
    short["started_at"] = START + timedelta(hours=1)
    for rows in ((long, short), (short, long)):
        one = cell(runs(*rows), "LIBSVM", "ijcnn1", "seconds")
        assert (one.status, one.lower_bound) == ("timeout", 900.0)


def test_seconds_of_which_some_runs_were_stopped_are_a_lower_bound_and_no_mean():
    said = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}
    message = stopped_in("fit", 120)
    stopped = [failed("svc", "timeout", seed, message=message, **said) for seed in (1, 2)]
    command = "kbench limits.wall_s=120"
    ok = rbf("svc", 0.9, fit_wall_s=112.5, command=command)
    found = runs(ok, *stopped, rbf("dcsvm_early", 0.9, command=command))
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
    unknown = {**stopped[1], "message": "not done within limits.wall_s=120"}
    assert cell(runs(found.rows[0], unknown), "LIBSVM", "ijcnn1", "seconds").lower_bound is None


def test_a_ratio_of_a_stopped_run_is_a_lower_bound():
    early = {"dataset": "ijcnn1", "params": rbf("dcsvm_early", 1)["params"]}
    slow = failed("dcsvm_early", "timeout", message=stopped_in("fit", 60), **early)
    one = cell(runs(slow, rbf("svc", 0.9, fit_wall_s=4.0)), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (one.value, one.status, one.lower_bound) == (None, "timeout", 15.0)
