"""Every experiment that is shipped is a plan.

In a file of its own: the composer that all of them share keeps Hydra to itself until its last test.
"""

import pytest

from kbench.config import composer, options, read_yaml
from kbench.data.configs.keys import TASKS
from kbench.run.planning.plan import make_plan

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module")
def shared_composer():
    """A composer that composes what several experiments have in common once."""
    with composer() as hydra:
        yield hydra


# Dozens of methods on many data sets take a minute and a half: some sets, one for each task.
NARROWED = {
    "defaults": ["dataset=a9a,letter,cadata"],
    "reference": ["dataset=a9a,letter,cadata"],
    "tables": ["dataset=a9a,letter,cadata"],
    "tuned": ["dataset=a9a,letter,cadata"],
}


@pytest.mark.parametrize("name", options("experiment"))
def test_every_experiment_that_is_shipped_is_a_plan(name, shared_composer):
    words = [f"experiment={name}", *NARROWED.get(name, ())]
    entries = read_yaml(options("experiment")[name]).get("plan", {}).get("datasets", ())
    # Those that are left out here are data sets, too; an entry with options has one name.
    assert {
        name for entry in entries for name in ([entry] if isinstance(entry, str) else entry)
    } <= {*options("dataset")}
    found = make_plan(shared_composer, words, multirun=True)
    assert found.runs or found.absent
    assert found.left_out.keys() <= {
        f"not for {task}, which {data} is" for task in TASKS for data in options("dataset")
    }
