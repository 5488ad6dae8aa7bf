"""The states of a run on a cluster, for every order of reports of an engine."""

import pytest

from kbench.run.execution.engines.states import (
    ATTEMPTS,
    REFUSED,
    SUBMISSIONS,
    EngineReport,
    RemoteJob,
    Stage,
)
from kbench.run.execution.guard import RunOutcome

# Reports of a run from its first submission on, and the row: None if the run goes on.
BEGUN, LOST = EngineReport(Stage.BEGUN), EngineReport(Stage.LOST, "node died", again=True)
TWICE = ("crashed", "its worker process was lost 2 times (node died)")
NEVER = (REFUSED, f"its worker process was lost {SUBMISSIONS} times (node died)")
ENDS = {
    "finished": (
        [BEGUN, EngineReport(Stage.FINISHED, outcome=RunOutcome("ok", "fine"))],
        ("ok", "fine"),
    ),
    "lost": ([BEGUN, LOST], None),
    "lost twice": ([BEGUN, LOST] * ATTEMPTS, TWICE),
    "lost in the queue": ([LOST] * (SUBMISSIONS - 1), None),
    "lost in the queue and twice": ([LOST, BEGUN, LOST, LOST, BEGUN, LOST], TWICE),
    "lost in the queue for ever": ([LOST] * SUBMISSIONS, NEVER),
    "limit": (
        [BEGUN, EngineReport(Stage.LOST, "too long", status="timeout")],
        ("timeout", "too long"),
    ),
    "cancelled": ([BEGUN, EngineReport(Stage.CANCELLED, "by job 7")], ("crashed", "by job 7")),
    "refused": ([EngineReport(Stage.REFUSED, "sbatch: no")], (REFUSED, "sbatch: no")),
    "refused again": (
        [BEGUN, LOST, EngineReport(Stage.REFUSED, "sbatch: no")],
        ("crashed", "node died; a second start was refused: sbatch: no"),
    ),
}


def after(reports, *, stopped=False):
    """A run after these reports, and how often it was submitted again."""
    job = RemoteJob(None, None)
    job.submitted()
    for report in reports:
        assert job.outcome is None
        if job.take(report, stopped=stopped):
            job.submitted()
    return job


@pytest.mark.parametrize("end", ENDS)
def test_every_end_of_a_run_has_one_row(end):
    reports, row = ENDS[end]
    job = after(reports)
    assert row == (job.outcome and (job.outcome.status, job.outcome.message))
    assert job.n_submitted == 1 + reports.count(LOST) - (row in (TWICE, NEVER))


@pytest.mark.parametrize("end", ENDS)
def test_after_an_interrupt_every_end_but_a_report_is_interrupted(end):
    reports, _ = ENDS[end]
    first = reports[: 1 + (reports[0] is BEGUN)]
    job = after(first, stopped=True)
    # A run that was not begun has no row, and the runner starts it when it is asked again.
    interrupted = "interrupted" if reports[0] is BEGUN else REFUSED
    assert job.outcome.status == ("ok" if end == "finished" else interrupted)
    assert job.n_submitted == 1


@pytest.mark.parametrize("begun", [True, False])
def test_a_run_of_which_nothing_is_heard_has_a_row_if_it_had_begun(begun):
    job = after([BEGUN] * begun)
    assert job.state.phase == f"{'running' if begun else 'queued'} on the cluster"
    job.end("the cluster is lost")
    assert job.outcome.status == ("interrupted" if begun else REFUSED)
