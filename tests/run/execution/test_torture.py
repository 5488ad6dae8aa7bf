"""A short run of scripts/torture.py: random kills lose no row and leave nothing behind."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "torture.py"


def test_random_kills_lose_no_row_and_leave_nothing(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torture = runpy.run_path(str(SCRIPT))["torture"]
    assert torture(kills=12, seconds=20, seed=0, runs=8) == 0, capsys.readouterr().out
