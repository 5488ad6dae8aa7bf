"""The states of runs on a cluster, on an engine that says what the test tells it to."""

import pytest

from kbench.run.execution.engines.states import (
    ATTEMPTS,
    REFUSED,
    ClusterLostError,
    Report,
    Runs,
    Stage,
)
from kbench.run.execution.guard import Outcome


class Scripted:
    """Reports what `news` holds, or raises it; counts starts."""

    def __init__(self):
        self.news, self.submitted, self.stopped, self.waiting = [], [], False, None

    def submit(self, number, call):
        if self.waiting == "gone":
            raise RuntimeError("the client is closed")
        self.submitted.append(number)

    def reports(self):
        while self.news:
            item = self.news.pop(0)
            if isinstance(item, Exception):
                raise item
            yield item

    def waits_for(self):
        return self.waiting

    def at_once(self):
        return 3

    def stop(self):
        self.stopped = True


@pytest.fixture
def sweep():
    return Sweep()


class Sweep:
    def __init__(self):
        self.engine, self.said, self.ended = Scripted(), [], {}
        self.runs = Runs(self.engine, self.hear, say_s=0.0)

    def hear(self, kind, number, content):
        if kind == "say":
            self.said.append(content)
        else:
            assert number not in self.ended
            self.ended[number] = content

    def step(self, *news):
        self.engine.news += news
        self.runs.step()

    def outcome(self, number=0):
        return self.ended[number].status, self.ended[number].message


# Each end of a first start and of a second, and the row: None if the run goes on.
LOST = Report(Stage.LOST, "node died", again=True)
ENDS = {
    "finished": ([Report(Stage.FINISHED, outcome=Outcome("ok", "fine"))], ("ok", "fine")),
    "lost": ([LOST], None),
    "lost twice": ([LOST] * 2, ("crashed", "its worker process was lost 2 times (node died)")),
    "limit": ([Report(Stage.LOST, "too long", status="timeout")], ("timeout", "too long")),
    "cancelled": ([Report(Stage.CANCELLED, "by job 7")], ("crashed", "by job 7")),
    "refused": ([Report(Stage.REFUSED, "sbatch: no")], (REFUSED, "sbatch: no")),
    "refused again": (
        [LOST, Report(Stage.REFUSED, "sbatch: no")],
        ("crashed", "node died; a second start was refused: sbatch: no"),
    ),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_end_of_a_run_has_one_row(sweep, end):
    reports, row = ENDS[end]
    sweep.runs.start(0, None)
    for report in reports:
        sweep.step((0, report))
    assert (sweep.outcome() if row else sweep.ended) == (row or {})
    assert len(sweep.engine.submitted) == 1 + (LOST in reports) <= ATTEMPTS
    sweep.step((0, LOST))  # of a run that has ended nothing more is heard


@pytest.mark.parametrize("end", ENDS)
def test_after_an_interrupt_every_end_but_a_report_is_interrupted(sweep, end):
    reports, _ = ENDS[end]
    sweep.runs.start(0, None)
    sweep.runs.stop()
    sweep.step((0, reports[0]))
    assert sweep.engine.stopped
    # A run that was not begun has no row, and the runner starts it when it is asked again.
    status = {"finished": "ok", "refused": REFUSED}.get(end, "interrupted")
    assert sweep.outcome()[0] == status
    assert sweep.engine.submitted == [0]


def test_a_library_that_refuses_a_run_has_lost_its_cluster(sweep):
    sweep.engine.waiting = "gone"
    with pytest.raises(ClusterLostError, match="the client is closed"):
        sweep.runs.start(0, None)


def test_what_runs_wait_for_is_said_and_runs_in_progress_are_not(sweep):
    sweep.runs.start(0, None)
    sweep.step()
    assert not sweep.said
    sweep.engine.waiting = "a worker"
    sweep.step()
    assert sweep.said == ["1 runs wait for a worker"]


def test_the_number_of_runs_at_a_time_is_what_ran(sweep):
    for k in range(5):
        sweep.runs.start(k, None)
    for k in range(5):
        sweep.step((k, Report(Stage.FINISHED, outcome=Outcome("ok"))))
    assert {each.at_once for each in sweep.ended.values()} == {3}
