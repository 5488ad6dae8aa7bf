"""Folders of the data tests, and the path of their helpers."""

import os
import sys
from contextlib import ExitStack

import pytest

from kbench.data import Folders
from kbench.data.sources.piece_sizes import changed_piece_sizes


@pytest.fixture
def folders(tmp_path):
    """An own folder and a read-only one, both empty."""
    raw = tmp_path / "raw"
    raw.mkdir()
    return Folders(tmp_path / "datasets", (raw,))


@pytest.fixture(scope="module")
def chunk():
    """Sets how many bytes are read at once."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(changed_piece_sizes(text=size))


@pytest.fixture(scope="session")
def opened_anywhere():
    """Names of the files that Python opens, in order; the interpreter cannot forget this hook."""
    names = []
    sys.addaudithook(lambda event, args: names.append(str(args[0])) if event == "open" else None)
    return names


@pytest.fixture
def opened(opened_anywhere):
    """Names of the files that this test has opened so far, in order."""
    opened_anywhere.clear()
    return opened_anywhere


@pytest.fixture(scope="session")
def real_folders(tmp_path_factory):
    """Folders with the real data that $KBENCH_DATA names."""
    if not os.environ.get("KBENCH_DATA"):
        pytest.skip("needs real data files: KBENCH_DATA names no folder")
    return Folders.from_environment(tmp_path_factory.mktemp("datasets"))
