"""Files that a user names: complete or not there, through links, and into what is no file."""

import os
import re
import threading
from contextlib import suppress

import pytest

from kbench.errors import KbenchError
from kbench.files import atomic_file, output_file


def test_a_link_stays_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with output_file(link) as file:
        file.write(b"new")
        assert target.read_bytes() == b"old"
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with output_file(pipe) as file:
        file.write(b"rows")
    reader.join()
    assert read == [b"rows"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("exists", [True, False])
def test_a_block_that_fails_leaves_what_was_there(tmp_path, exists):
    path = tmp_path / "file"
    if exists:
        path.write_bytes(b"old")
    with suppress(RuntimeError), output_file(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("file", b"old")] * exists


def test_a_link_to_nowhere_is_named(tmp_path):
    (tmp_path / "results").symlink_to("gone")
    said = f"{tmp_path / 'results'} is a link to gone, which is not there"
    with pytest.raises(KbenchError, match=re.escape(said)), atomic_file(tmp_path / "results/a/b"):
        pass
