"""Folders of the data tests, and the path of their helpers."""

import os
import sys
from pathlib import Path

import pytest

from kbench.data import Folders

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def folders(tmp_path):
    """An own folder and a read-only one, both empty."""
    raw = tmp_path / "raw"
    raw.mkdir()
    return Folders(tmp_path / "datasets", (raw,))


@pytest.fixture(scope="session")
def real_folders(tmp_path_factory):
    """Folders with the real data that $KBENCH_DATA names."""
    if not os.environ.get("KBENCH_DATA"):
        pytest.skip("needs real data files: KBENCH_DATA names no folder")
    return Folders.from_environment(tmp_path_factory.mktemp("datasets"))
