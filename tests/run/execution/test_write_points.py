"""Whatever fails while a file is written, the folder stays readable and no finished row is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The first test makes a fault at every step of every write, a process for each.
pytestmark = pytest.mark.timeout(900)

HERE = Path(__file__).parent
OPERATIONS = [
    "row",
    "rerun",
    "rerun_without_curves",
    "log",
    "environment",
    "reservation",
    "merge",
    "prepare",
    "tuned_file",
    "checkpoint",
    "model",
]


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """What `write_faults.py` found, by operation and kind of fault."""
    helpers = [str(HERE.parents[1] / name) for name in ("run/results", "data")]
    done = subprocess.run(
        [sys.executable, HERE / "write_faults.py", tmp_path_factory.mktemp("write_faults")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(helpers)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["full", "broken", "killed"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fault_at_any_step_of_a_write_loses_nothing(walked, operation, kind):
    found = walked[f"{operation}-{kind}"]
    assert found["steps"] >= 2
    assert not found["wrong"]


def test_no_operation_is_left_out(walked):
    assert {name.rpartition("-")[0] for name in walked} == set(OPERATIONS)
