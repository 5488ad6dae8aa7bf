"""scikit-learn's own tests pass with our classes in the place of its own, but for listed ones."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "sklearn_suites.py"


def test_suites_of_scikit_learn_pass_with_our_classes():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
