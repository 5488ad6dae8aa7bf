"""Cells of runs that ended without a value: status, limit, and the least seconds."""

from datetime import timedelta

from paper_rows import TABLE3, cell, rbf, runs
from report_rows import START, failed, stopped_in

from kbench.papers.cells.coverage import coverage
from kbench.papers.cells.entries import filled
from kbench.papers.cells.entry import LACKING
from kbench.papers.printed.layout import paper


def test_a_failed_run_shows_its_status():
    lost = failed("svc", "memory", dataset="ijcnn1", params=rbf("svc", 1)["params"])
    one = cell(runs(lost), "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.status) == (None, "memory")


def test_a_failed_run_names_its_limit():
    said = {"params": rbf("svc", 1)["params"], "message": "not done within limits.wall_s=120"}
    one = cell(
        runs(failed("svc", "timeout", dataset="ijcnn1", **said)), "LIBSVM", "ijcnn1", "seconds"
    )
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=120",)


def test_the_seconds_of_a_stopped_fit_are_at_least_its_cpu_seconds_and_no_limit_of_wall_seconds():
    said = {"dataset": "ijcnn1", "params": rbf("svc", 1)["params"]}

    def stopped(message, **changes):
        lost = failed("svc", "timeout", message=message, **{**said, **changes})
        return cell(runs(lost), "LIBSVM", "ijcnn1", "seconds")

    one = stopped(stopped_in("fit", 59.9, limit=60))
    assert (one.value, one.least) == (None, 59.9)
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=60, stopped in fit",)
    # Seconds of two threads are wall seconds, of which there are at least half as many.
    assert stopped(stopped_in("fit", 100, limit=60), threads=2).least == 50.0
    assert stopped("not done within limits.wall_s=60").least is None


def test_training_seconds_of_runs_that_were_stopped_in_their_prediction_are_known():
    said = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}

    def stopped(seed, stage, seconds=7.0, **changes):
        message = stopped_in(stage, seconds, limit=60)
        return failed("svc", "timeout", seed, message=message, **{**said, **changes})

    found = runs(rbf("svc", 0.9, fit_wall_s=5.0), stopped(1, "predict"))
    one = cell(found, "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.n, one.status, one.least) == (6.0, 2, "", None)
    assert one.notes == (
        "1 of 2 runs ok",
        "svc on ijcnn1: not done within limits.wall_s=60, stopped in predict",
        "svc: an intercept, which the paper's LIBSVM does not have",
    )
    only = runs(stopped(1, "predict"))
    assert cell(only, "LIBSVM", "ijcnn1", "seconds").value == 7.0
    accuracy = cell(only, "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.status, accuracy.ended) == (None, "timeout", True)
    for others in ([*found.rows, stopped(2, "fit")], [stopped(1, "predict", threads=2)]):
        assert cell(runs(*others), "LIBSVM", "ijcnn1", "seconds").value is None


def test_every_cell_is_measured_ended_without_rows_or_without_data():
    lost = failed("dcsvm", "timeout", dataset="ijcnn1", params=rbf("dcsvm", 1)["params"])
    lost["message"] = "not done within limits.wall_s=120"
    svc = rbf("svc", 0.98, command="kbench limits.wall_s=120")
    tables = filled(TABLE3, runs(svc, lost))
    count = coverage(tables)
    # Two quantities of ten printed methods on four data sets, cifar not present.
    assert (count.cells, count.absent, count.with_data) == (80, 20, 60)
    assert (count.measured, count.ended, count.failed, count.missing) == (2, 2, 0, 56)
    assert cell(runs(lost), "LIBSVM", "cifar", "accuracy").absent
    exact = {**svc, **rbf("kernel_svc", 0.99), "command": svc["command"]}  # no paper prints it
    assert coverage(filled(TABLE3, runs(svc, lost, exact))) == count
    assert not cell(runs(lost), "LIBSVM", "cifar", "× LIBSVM").absent
    own = rbf("svc", 0.9, C=8, gamma=2.0**-22, dataset="cifar10", variant="animals")
    assert cell(runs(own), "LIBSVM", "cifar", "accuracy").value == 0.9


def test_a_run_that_other_limits_ended_has_not_ended_at_the_longest_limit_of_its_table():
    params = rbf("dcsvm", 1)["params"]

    def ended(status, message, memory_mb=8192):
        command = f"kbench method=dcsvm limits.wall_s=900 limits.memory_mb={memory_mb}"
        lost = failed("dcsvm", status, dataset="ijcnn1", params=params, message=message)
        of_other = "kbench method=svc limits.wall_s=900 limits.memory_mb=8192"
        other = rbf("svc", 0.98, experiment="dcsvm_table3", command=of_other)
        one = coverage(filled(TABLE3, runs({**lost, "command": command}, other)))
        return one.ended, one.failed

    assert ended("timeout", "not done within limits.wall_s=900") == (2, 0)
    assert ended("timeout", "used more than limits.cpu_s=60") == (0, 2)
    assert ended("timeout", "not set up within limits.setup_s=60") == (0, 2)
    assert ended("memory", "held more than limits.memory_mb=8192") == (2, 0)
    assert ended("memory", "held more than limits.memory_mb=1500", 1500) == (0, 2)


def test_a_run_that_had_less_time_than_others_of_its_table_has_not_ended_at_the_limit():
    params = rbf("dcsvm", 1)["params"]

    def count(status, limit, of_the_other, experiment="dcsvm_table3"):
        said = f"not done within limits.wall_s={limit}" if status == "timeout" else "no memory"
        lost = failed("dcsvm", status, dataset="ijcnn1", params=params, message=said)
        command = f"kbench method=svc dataset=ijcnn1 limits.wall_s={of_the_other}"
        other = rbf("svc", 0.98, experiment=experiment, command=command)
        one = coverage(filled(TABLE3, runs(lost, other)))
        return one.ended, one.failed

    assert count("timeout", 900, 900) == (2, 0)
    assert count("timeout", 10, 900) == (0, 2)
    assert count("timeout", 10, 900, "another") == (0, 2)
    assert count("memory", 10, 900) == (2, 0)
    assert count("error", 900, 900) == (0, 2)


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
        assert (one.status, one.least, one.ended) == ("timeout", 900.0, True)


def test_seconds_of_which_some_runs_were_stopped_are_a_lower_bound_and_no_mean():
    said = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}
    message = stopped_in("fit", 120)
    stopped = [failed("svc", "timeout", seed, message=message, **said) for seed in (1, 2)]
    command = "kbench limits.wall_s=120"
    ok = rbf("svc", 0.9, fit_wall_s=112.5, command=command)
    found = runs(ok, *stopped, rbf("dcsvm_early", 0.9, command=command))
    one = cell(found, "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.least, one.status) == (None, 117.5, "1 of 3 ok")
    assert one.notes == (
        "svc on ijcnn1: not done within limits.wall_s=120, stopped in fit",
        "svc on ijcnn1: the mean of all 3 runs is at least 118 s",
    )
    assert one.ended
    accuracy = cell(found, "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.notes[0]) == (0.9, "1 of 3 runs ok")
    ratio = cell(found, "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (ratio.value, ratio.status) == (None, "svc: 1 of 3 ok")
    assert ratio.notes == one.notes
    unknown = {**stopped[1], "message": "not done within limits.wall_s=120"}
    assert cell(runs(found.rows[0], unknown), "LIBSVM", "ijcnn1", "seconds").least is None


def test_a_ratio_of_a_stopped_run_is_a_lower_bound():
    early = {"dataset": "ijcnn1", "params": rbf("dcsvm_early", 1)["params"]}
    slow = failed("dcsvm_early", "timeout", message=stopped_in("fit", 60), **early)
    one = cell(runs(slow, rbf("svc", 0.9, fit_wall_s=4.0)), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (one.value, one.status, one.least) == (None, "timeout", 15.0)
