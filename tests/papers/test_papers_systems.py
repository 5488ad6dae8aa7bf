"""Which runs stand for the steps of a system."""

import json
from datetime import timedelta

import pytest
from paper_rows import on_covtype, rbf, runs, with_params
from report_rows import START, failed, make_row, stopped_in

from kbench.papers.studies import OVER_SETS, system_sheet, systems

SYSTEMS = {one.name: one for one in systems()}


def shown(*rows, name="DC-SVM"):
    found = system_sheet(SYSTEMS[name], runs(*rows), {})
    assert len(found.rows) in (0, 2)  # a data set, and the median over it
    line = found.rows[0] if found.rows else []
    return dict(zip(found.header, line, strict=False)), found.notes


OURS = (on_covtype("kernel_svc", 2.0), on_covtype("dcsvm_early", 0.5))


def test_runs_of_another_tolerance_kernel_or_size_are_no_step():
    exact, early = OURS
    others = [
        with_params(on_covtype("kernel_svc", 67.0), tol=1e-8),
        with_params(on_covtype("kernel_svc", 68.0), fit_intercept=True),
        with_params(on_covtype("kernel_svc", 69.0), kernel="poly"),
        with_params(on_covtype("svc", 70.0), tol=1.0),
        with_params(on_covtype("dcsvm_early", 71.0), n_clusters=16),
    ]
    values, _ = shown(exact, early, *others)
    assert values["exact from zero, fit s"] == "2.00"
    assert values["× stopping early, to .1 or .02"] == "4.0"
    assert "LIBSVM, fit s" not in values


def test_a_part_of_phases_is_the_quotient_of_their_means():
    """From zero 2 s; from the divided solution 1.6 s, of which all but 0.4 and 0.6 make it."""
    exact = on_covtype("kernel_svc", 2.0, phases_cpu={"prepare": 0.1, "solve": 1.9})
    starts = []
    for seed, last in enumerate((0.4, 0.6)):
        phases = {"train": 1.6 - last, "refine": 0.1, "conquer": last - 0.1}
        starts.append(on_covtype("dcsvm", 1.6, seed=seed, phases_cpu=phases))
    early = on_covtype("dcsvm_early", 0.5)
    values, notes = shown(exact, *starts, early)
    assert (values["× divide and conquer"], values["× the start alone"]) == ("1.2", "3.8")
    assert "the start alone = solve of exact from zero ÷ refine and conquer of DC-SVM" in notes[0]
    without = {**starts[1], "phases_cpu": {"train": 1.0}}
    values, _ = shown(exact, starts[0], without, early)
    assert values["× the start alone"] == ""


def test_the_run_of_the_paper_s_experiment_comes_before_newer_ones_and_more_seeds():
    others = [
        with_params(on_covtype("svc", 800.0, seed=seed), cache_size=200) for seed in (0, 1, 2)
    ]
    own = on_covtype("svc", 500.0, experiment="meka_table2,dcsvm_table3")
    own = with_params(own, cache_size=4000)
    values, notes = shown(*OURS, *others, own)
    assert values["LIBSVM, fit s"] == "500"
    assert not any("left out" in note for note in notes)


def test_of_several_runs_none_of_the_paper_s_experiment_that_which_cells_prefer_counts():
    """The one with most seeds."""
    few = with_params(on_covtype("svc", 800.0), cache_size=200)
    many = [with_params(on_covtype("svc", 500.0, seed=n), cache_size=4000) for n in (0, 1)]
    for rows in ([few, *many], [*many, few]):
        values, _ = shown(*OURS, *rows)
        assert values["LIBSVM, fit s"] == "500"


def test_a_disturbed_run_is_left_out_of_seconds_without_phases_and_never_counts_as_0():
    """Wall seconds on four threads: validation took 2 of 6 s, of the disturbed run nobody knows."""
    four = {"threads": 4, "phases_cpu": None}
    exact = with_params(on_covtype("kernel_svc", 8.0, **four), fit_intercept=True)
    runs_of = [
        on_covtype("hss_admm", 6.0, seed=seed, phases={"validate": 2.0}, other_cpus=others, **four)
        for seed, others in enumerate((0.0, 0.9))
    ]
    admm = [with_params(row, preset="paper_table5") for row in runs_of]
    values, notes = shown(exact, *admm, name="HSS-ADMM")
    assert values["HSS-ADMM, fit s"] == "4.00"
    assert "1 runs whose phases were not measured, or disturbed, are left out." in notes


def test_steps_whose_parameters_are_tuned_each_have_their_own():
    sizes = {"n_landmarks": 16, "pseudo": "monomials", "landmarks": "weighted", "error_rows": 0}
    rows = [
        with_params(rbf("kernel_svc", 0.98, prediction_cost=100.0), multi_class="ovr"),
        with_params(rbf("dcpred", 0.96, C=64, prediction_cost=25.0), **sizes),
        with_params(rbf("dcpred", 0.95, C=64, prediction_cost=10.0), **sizes | {"n_landmarks": 8}),
        rbf("dcpred_trained", 0.97, C=4, prediction_cost=20.0),
    ]
    values, _ = shown(*rows, name="DC-Pred++")
    assert values["setting"] == "each step its own"
    assert (values["× the paper's landmarks"], values["× trained landmarks"]) == ("4.0*", "5.0")


def test_validation_that_only_reports_a_score_is_no_cost_of_a_step():
    exact = with_params(on_covtype("kernel_svc", 8.0), fit_intercept=True)
    admm = on_covtype("hss_admm", 6.0, phases_cpu={"validate": 2.0})
    admm = with_params(admm, preset="paper_table5")
    values, notes = shown(exact, admm, name="HSS-ADMM")
    assert (values["HSS-ADMM, fit s"], values["× compression"]) == ("4.00", "2.0")
    assert "Seconds are without those of phases that no step needs: validate." in notes


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_a_system_names_the_command_that_makes_its_rows(system):
    (note,) = system_sheet(system, runs(), {}).notes
    assert note.startswith("No problem has ok runs")
    assert note.endswith(f'run "kbench -m {system.run}"')


def test_of_one_run_with_two_limits_that_of_the_paper_s_experiment_counts_as_in_its_table():
    """Even if the other one is newer and has another key."""
    own = on_covtype("svc", 10.0, experiment="dcsvm_table3")
    later = START + timedelta(hours=1)
    newer = on_covtype("svc", 20.0, experiment="other", started_at=later)
    for rows in ((own, newer), (newer, own)):
        values, _ = shown(*OURS, *rows)
        assert values["LIBSVM, fit s"] == "10.0"


def test_training_seconds_of_a_run_that_was_stopped_in_its_prediction_are_known():
    message = stopped_in("predict", 70, limit=600)
    lost = failed("svc", "timeout", dataset="covtype_93k", task="binary", message=message)
    lost["params"] = on_covtype("svc", 1.0)["params"]
    values, _ = shown(*OURS, lost)
    assert (values["LIBSVM, fit s"], values["× faster code"]) == ("70.0", "35*")  # without a score


def test_a_part_of_a_gain_is_a_quotient_of_steps_with_the_same_settings():
    rows = [
        rbf("svc", 0.9, fit_wall_s=8.0),
        rbf("kernel_svc", 0.9, fit_wall_s=2.0),
        rbf("dcsvm_early", 0.9, fit_wall_s=0.5),
        rbf("svc", 0.9, C=1, fit_wall_s=100.0),
    ]
    values, notes = shown(*rows)
    assert list(values.values())[:2] == ["ijcnn1 [1]", "C=32 gamma=2"]
    assert (values["× faster code"], values["× stopping early, to .1 or .02"]) == ("4.0", "4.0")
    assert values["× divide and conquer"] == ""
    assert "scikit-learn-intelex, fit s" not in values
    missing = "scikit-learn-intelex, DC-SVM, DC-SVM (early), tol .001"
    assert f"Without runs at these settings: {missing}." in notes


def test_a_grid_is_one_line_beside_the_setting_of_the_paper_s_experiment():
    lost = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}
    rows = [
        failed("svc", "timeout", message="not done within limits.wall_s=120", **lost),
        rbf("kernel_svc", 0.9, fit_wall_s=2.0, experiment="dcsvm_table3"),
        rbf("dcsvm_early", 0.9, fit_wall_s=0.5),
        rbf("dcsvm_early", 0.9, C=3, fit_wall_s=0.5),
        rbf("dcsvm", 0.9, C=3, level_tol=0.5),  # another way than the step's
    ]
    for C, gain in ((0.5, 1.0), (1, 2.0), (2, 8.0)):
        rows += [
            rbf("svc", 0.9, C=C),
            rbf("kernel_svc", 0.9, C=C, fit_wall_s=gain),
            rbf("dcsvm_early", 0.9, C=C, fit_wall_s=1.0),
        ]
    found = system_sheet(SYSTEMS["DC-SVM"], runs(*rows), {})
    assert [line[:2] for line in found.rows] == [
        ["ijcnn1 [1]", "C=32 gamma=2"],
        ["… median of 3 others", ""],
        [OVER_SETS, ""],
    ]
    own, others, _ = (dict(zip(found.header, line, strict=True)) for line in found.rows)
    assert (own["LIBSVM, fit s"], own["× faster code"]) == ("timeout", "")
    assert own["× stopping early, to .1 or .02"] == "4.0"
    assert "svc on ijcnn1: not done within limits.wall_s=120" in found.notes
    assert (others["LIBSVM, fit s"], others["× stopping early, to .1 or .02"]) == ("", "2.0")


def test_a_fit_of_several_C_stands_beside_fits_of_one():
    hss = {"dataset": "a8a", "variant": "hss", "task": "binary"}
    one = {"kernel": "rbf", "gamma": 0.5, "tol": 0.001, "C": 1}
    several = one | {"C": [0.1, 1, 10], "preset": "paper_table5"}
    rows = [
        make_row("svc", 0.84, params=json.dumps(one), fit_wall_s=60.0, **hss),
        make_row("hss_admm", 0.83, params=json.dumps(several), fit_wall_s=2.0, **hss),
    ]
    values, notes = shown(*rows, name="HSS-ADMM")
    assert list(values.values())[:2] == ["a8a (hss) [1]", "C=1 gamma=0.5"]
    assert values["× both"] == "30"
    assert any(note.startswith("hss_admm fits several C at once") for note in notes)


def test_a_median_counts_each_data_set_once_and_no_quotient_of_a_worse_score():
    """Two sizes of one set count as the larger one; two points less of accuracy are no gain."""
    rows = [
        rbf(method, accuracy, fit_wall_s=seconds, dataset=name, variant=variant, n_train=n)
        for name, variant, n, gain, early in (
            ("covtype_93k", None, 70_000, 4.0, 0.9),
            ("covtype_93k", "first_train=5000", 5_000, 1.0, 0.9),
            ("census", None, 70_000, 2.0, 0.9),
            ("mnist", None, 60_000, 90.0, 0.88),
        )
        for method, accuracy, seconds in (
            ("kernel_svc", 0.9, gain),
            ("dcsvm_early", early, 1.0),
        )
    ]
    found = system_sheet(SYSTEMS["DC-SVM"], runs(*rows), {})
    part = found.header.index("× stopping early, to .1 or .02")
    assert {line[0]: line[part] for line in found.rows} == {
        "census [1]": "2.0",
        "covtype_93k [1]": "4.0",
        "covtype_93k (first_train=5000) [1]": "1.0",
        "mnist [1]": "90*",
        OVER_SETS: "3.0 over 2 of 3 sets",
    }
