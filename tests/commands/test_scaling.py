"""`kbench plan ... scale.rows=N`: what it takes, what it keeps and what it refuses."""

import json
import subprocess
import sys

import pytest

from kbench.cli import main
from kbench.commands import scaling

WORDS = ["plan", "method=dcsvm_early", "dataset=covtype_like", "dataset.n=2000", "dataset.d=8"]
WORDS += ["scale.cluster_rows=60"]


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("scale.row=1e9", "nearest: rows"),
        ("scale.machines=4", "scale.rows is missing"),
        ("scale.rows=many", "scale.rows is 'many', should be a whole number from 1"),
        ("scale.rows=1.5", "should be a whole number"),
        ("scale.rows=1e9 scale.machines=0", "scale.machines is '0'"),
        ("scale.rows=1e9 scale.disk_mb=nan", "scale.disk_mb is 'nan', should be a number from 1"),
        ("scale.rows=1e9 method=svc", "scale.rows simulates dcsvm_early"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, monkeypatch, capsys, word, named):
    monkeypatch.chdir(tmp_path)
    words = [w for w in WORDS if w.partition("=")[0] not in word] + word.split()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


def kbench(here, *words):
    """Lines of a command in a process of its own, because it sets the threads of its process."""
    command = [sys.executable, "-m", "kbench", *WORDS, *words]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_costs_are_measured_once_and_kept_with_the_machine(tmp_path):
    first = kbench(tmp_path, "scale.rows=1e6,1e9", "scale.machines=100")
    (path,) = (tmp_path / "results" / scaling.FOLDER).glob("*.json")
    stored = json.loads(path.read_text())
    assert {"cpu", "packages"} <= stored["machine"].keys()
    assert stored["command"].startswith("kbench method=dcsvm_early")
    assert "measured on covtype_like" in first[0]
    assert first[1].startswith("1,000,000 rows, 16,667 clusters, 100 machines with")
    assert any(line.startswith("1,000,000,000 rows, 16,666,667 clusters") for line in first)
    changed = path.read_text().replace('"survey": ', '"survey": 1')
    path.write_text(changed)
    again = kbench(tmp_path, "scale.rows=1e6", "scale.workers=1")
    assert again[0] == f"costs from {path.relative_to(tmp_path)}"
    survey = json.loads(changed)["costs"]["survey"]
    (line,) = (line for line in again if line.split()[0] == "survey")
    assert float(line.split()[1].replace(",", "")) == pytest.approx(1e6 * survey, abs=0.05)
