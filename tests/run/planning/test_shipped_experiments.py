"""Every experiment that is shipped is a plan.

In a file of its own: the composer that all of them share keeps Hydra to itself until its last test.
"""

import pytest

from kbench.config import composer, options
from kbench.data.configs.keys import TASKS
from kbench.run.planning.plan import make_plan


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KBENCH_DATA", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def shared_composer():
    """A composer that composes what several experiments have in common once."""
    with composer() as hydra:
        yield hydra


# Sixty methods on eighteen data sets take a minute and a half: three sets, one for each task.
NARROWED = {"defaults": ["dataset=a9a,letter,cadata"]}


@pytest.mark.parametrize("name", options("experiment"))
def test_every_experiment_that_is_shipped_is_a_plan(name, shared_composer):
    words = [f"experiment={name}", *NARROWED.get(name, ())]
    found = make_plan(shared_composer, words, multirun=True)
    assert found.runs or found.absent
    assert found.left_out.keys() <= {
        f"not for {task}, which {data} is" for task in TASKS for data in options("dataset")
    }
