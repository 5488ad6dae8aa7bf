"""Publish rows on a web server, and read published rows.

    rows/manifest.json        name -> bytes and SHA-256 of every other file, sorted by name
    rows/merged-<hex>.parquet, rows/_curves/, rows/_environments/
                              a results folder without logs, models and trials, which may be private

A server does not list folders, so the manifest names the files. Files of a server are not trusted:
names are checked before a file is written, a file may not be longer than its entry in the manifest,
and `gather` checks the rows.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kbench.errors import ConfigError, DataError
from kbench.files import atomic_file
from kbench.run.results.folder import COLUMNS, MODELS, TRIALS, ResultsFolder
from kbench.run.results.imported_rows import gather

MANIFEST = "manifest.json"
_ROWS_FOLDER = "rows"
_NAME_PATTERN = re.compile(r"(_curves/|_environments/)?[A-Za-z0-9][A-Za-z0-9-]*\.(parquet|json)")
# Guard: seconds without an answer after which a download is given up.
_TIMEOUT_S = 30.0
# Guard: largest number of files in a manifest (10^5 runs have two each), and bytes of a file.
_MAX_FILES, _MAX_BYTES = 200_000, 1 << 32
# Guard: largest manifest in bytes; its entries have about 150 bytes each.
_MAX_MANIFEST_BYTES = 256 * _MAX_FILES


def publish_rows(source: Path, site: Path) -> int:
    """Replace the rows in `site`/rows by the rows of a results folder; returns their number.

    Raises ConfigError: `source` is not a folder.
    Raises KbenchError: the site cannot be written.
    """
    with TemporaryDirectory(prefix="kbench-") as scratch:
        folder = Path(scratch, _ROWS_FOLDER)
        gather(folder, source)
        ResultsFolder(folder).merge()
        for private in (MODELS, TRIALS, "_logs", Path(COLUMNS).parent):
            shutil.rmtree(folder / private, ignore_errors=True)
        shutil.rmtree(site / _ROWS_FOLDER, ignore_errors=True)
        files = {}
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and _NAME_PATTERN.fullmatch(name):
                files[name] = _write(site / _ROWS_FOLDER / name, path.read_bytes())
        _write(site / _ROWS_FOLDER / MANIFEST, json.dumps({"files": files}, indent=1).encode())
        return len(ResultsFolder(folder).read(reference=False))


@contextmanager
def published_rows(site: str, show: Callable[[str], None]) -> Iterator[Path]:
    """A results folder with the rows of a published site, until the end of the block.

    site : A web address or a folder. show : A function that shows a line after every 100 files.

    Raises ConfigError: there is no such folder.
    Raises DataError: the site has no manifest, or a file differs from its entry in the manifest.
    """
    if not (_is_remote(site) or (folder := Path(site, _ROWS_FOLDER)).is_dir()):
        if urlsplit(site).scheme and "://" in site:
            raise ConfigError(f"{site}: an address should begin with http:// or https://")
        raise ConfigError(f"there is no folder {folder}; kbench publish writes one")
    try:
        files = _checked_entries(json.loads(_read(site, MANIFEST, _MAX_MANIFEST_BYTES)))
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{site}: {_ROWS_FOLDER}/{MANIFEST} is not a manifest of kbench: {error}"
        ) from None
    with TemporaryDirectory(prefix="kbench-") as scratch:
        folder = Path(scratch)
        for number, (name, entry) in enumerate(files.items(), start=1):
            content = _read(site, name, entry["bytes"])
            if _write(folder / name, content)["sha256"] != entry["sha256"]:
                raise DataError(
                    f"{site}: {_ROWS_FOLDER}/{name} differs from the manifest; publish again"
                )
            if number % 100 == 0 or number == len(files):
                show(f"{site}: {number} of {len(files)} files")
        yield folder


def _checked_entries(manifest: Any) -> dict[str, dict[str, Any]]:
    """The entries of a manifest; raises ValueError for one that `publish_rows` does not write."""
    files: dict[str, dict[str, Any]] = manifest["files"]
    if len(files) > _MAX_FILES:
        raise ValueError(f"{len(files)} files, at most {_MAX_FILES}")
    for name, entry in files.items():
        if not _NAME_PATTERN.fullmatch(name):
            raise ValueError(f"a file is called {name[:60]!r}")
        size, checksum = entry["bytes"], entry["sha256"]
        if type(size) is not int or not 0 <= size <= _MAX_BYTES or not isinstance(checksum, str):
            raise ValueError(f"the entry of {name} is {str(entry)[:60]}")
    return files


def _read(site: str, name: str, max_bytes: int) -> bytes:
    """The first `max_bytes` + 1 bytes of a published file."""
    address = f"{site.rstrip('/')}/{_ROWS_FOLDER}/{name}"
    try:
        with _open(address) as file:
            content: bytes = file.read(max_bytes + 1)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise DataError(f"{address}: {reason}") from None
    return content


def _open(address: str) -> Any:
    if not _is_remote(address):
        return open(address, "rb")
    request = Request(address, headers={"User-Agent": "kbench"})
    return urlopen(request, timeout=_TIMEOUT_S)


def _is_remote(address: str) -> bool:
    return urlsplit(address).scheme in ("http", "https")


def _write(path: Path, content: bytes) -> dict[str, Any]:
    """Write a file; returns its entry for the manifest."""
    with atomic_file(path) as file:
        file.write(content)
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
