"""The folder of temporary files of a runner and its workers.

The runner holds a lock on a file in its folder until it ends. If a runner is killed, its guards
remove the folder, and the next runner on this machine removes every folder whose lock is free.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from functools import cache
from multiprocessing import process
from pathlib import Path

_PREFIX = f"kbench-{os.getuid()}-"
# Longest path of $TMPDIR, in bytes. The path of a socket may have 103 bytes on macOS (107 on
# Linux), and the folders of runner and worker and the name of the socket take about 50 of them.
_MAX_TMPDIR = 50


def default_home() -> Path:
    """$TMPDIR or its default, or /tmp if that path is longer than `_MAX_TMPDIR`."""
    folder = tempfile.gettempdir()
    return Path(folder if len(os.fsencode(folder)) <= _MAX_TMPDIR else "/tmp")


@cache
def runner_folder() -> Path:
    """The folder of this process, which the first call creates, and multiprocessing also uses."""
    from multiprocessing.util import Finalize

    home = default_home()
    remove_abandoned(home)
    # The folder gets its final name after it is locked, so that no runner removes it as abandoned.
    unnamed = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=home))
    take_lock(unnamed)
    folder = unnamed.with_name(unnamed.name[1:])
    unnamed.rename(folder)
    # multiprocessing then puts the fork server's socket here, and not into /tmp/pymp-*.
    process.current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]
    # -100 is the priority at which multiprocessing removes its folder, after all else.
    Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=-100)
    return folder


def remove_abandoned(home: Path) -> None:
    """Remove the folders in `home` whose runners, of this user, were killed."""
    for folder in home.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if (lock := take_lock(folder, create=False)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def take_lock(folder: Path, *, create: bool = True) -> int | None:
    """Lock a folder, by a file in it, until this process ends; None if another process has it.

    If `create` is false, a missing file raises OSError, because the folder does not belong to a
    runner or is being removed.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    lock = os.open(folder / "lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def folder_for_worker() -> str | None:
    """A new folder for a worker in the runner's folder; None if it cannot be created."""
    folder = process.current_process()._config.get("tempdir")  # type: ignore[attr-defined]
    with contextlib.suppress(OSError):
        return tempfile.mkdtemp(prefix="run-", dir=folder) if folder else None
    return None


def use_for_this_process(folder: str) -> None:
    """Use `folder` for temporary files of this process and its children."""
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = folder
    process.current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]
