"""A short run of scripts/torture.py: random kills lose no row and leave nothing behind."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "torture.py"


@pytest.fixture
def torture(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    spec = importlib.util.spec_from_file_location("torture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_random_kills_lose_no_row_and_leave_nothing(torture, capsys):
    complaints = torture.torture(kills=12, seconds=20, seed=0, runs=8)
    assert complaints == 0, capsys.readouterr().out
