"""Whatever fails while a file is written, the folder stays readable and no finished row is lost."""

import json
import os
from pathlib import Path

import pytest
from harness import python

# The first test makes a fault at every step of every write, a process for each.
pytestmark = pytest.mark.timeout(900)

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """What `write_faults.py` found, by operation and kind of fault."""
    helpers = [str(HERE.parents[1] / name) for name in ("run/results", "data")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(helpers)}
    folder = tmp_path_factory.mktemp("write_faults")
    done = python(HERE / "write_faults.py", folder, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["full", "broken", "killed"])
def test_a_fault_at_any_step_of_a_write_loses_nothing(walked, kind):
    found = {name: told for name, told in walked.items() if name.endswith(kind)}
    assert found
    assert not {name for name in found if found[name]["steps"] < 2}
    assert not {name: found[name]["wrong"] for name in found if found[name]["wrong"]}
