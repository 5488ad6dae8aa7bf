"""Download of a raw file: progress, resume, checksum, atomic rename.

A broken download is resumed by a Range request, also by a later command. The bytes so far are
beside the target under a name with a leading dot, and are used only if the file on the server has
not changed (If-Range with the file's date). If the config has no sha256, the checksum of the first
download is stored in `datasets/_fetched.json`, and later downloads must have the same checksum.
"""

import email.utils
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kbench.data.sources.catalogues import write as write_table
from kbench.data.sources.content import add_to_cache, read_json
from kbench.data.sources.folders import FileStatus, Folders, in_catalogue, is_file_name, name_in_url
from kbench.data.sources.piece_sizes import piece_sizes
from kbench.errors import ConfigError, DataError, DataNotFoundError, one_line

ATTEMPTS = 3  # guard: requests for one file before a broken connection is an error
TIMEOUT_S = 30.0  # guard: seconds without a byte after which a connection counts as broken


class _Broken(Exception):
    """The connection ended before the file did; another request may resume it."""


class _Refused(Exception):
    """The server answered with an error instead of the file."""


def fetch(file: FileStatus, folders: Folders, *, progress: bool | None = None) -> Path:
    """Download one raw file into `folders.own`.

    file : With a `url`
    progress : Whether to show a progress bar; by default on a terminal

    Returns the file. Its name is the last part of the URL, or for a table of
    `kbench.data.sources.catalogues` the name in `file`.

    Raises ConfigError: the address is not http or https, or does not end in a file name.
    Raises DataNotFoundError: the file cannot be fetched; the message has the address, the reason
    and the folders to put it into.
    Raises DataError: the server sent another file (wrong checksum, an HTML page), the folder cannot
    be written, or the disk is full. The part that was downloaded is then removed.
    """
    assert file.url is not None
    catalogued = in_catalogue(file.url)
    name = file.name if catalogued else name_in_url(file.url)
    scheme = urlsplit(file.url).scheme
    if not catalogued and (not is_file_name(name) or scheme not in ("http", "https", "file")):
        raise ConfigError(
            f"{file.url}: should be an http or https address that ends in a file name"
        )
    if scheme == "file" and not folders.file_urls:
        raise ConfigError(
            f"{file.url}: a file: address is copied only by kbench data prepare NAME "
            "allow_file_urls=true"
        )
    target = folders.own / name
    part = target.with_name(f".{target.name}.part")
    with writable(folders.own), exclusive(folders.own):
        if target.is_file():  # another process fetched it while this one waited
            return target
        try:
            if catalogued:
                write_table(file.url, part, folders.own / "_scikit_learn")
            else:
                _fetch_with_resume(file.url, part, progress)
        except (_Broken, _Refused, HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.errno in (
                errno.ENOSPC,
                errno.EDQUOT,
                errno.EFBIG,
            ):
                part.unlink(missing_ok=True)
                raise
            raise DataNotFoundError(missing_message(file, folders, why=_reason(error))) from None
        try:
            if not catalogued:  # the bytes of a table depend on the library that wrote it
                _verify(part, file, folders)
        except DataError:
            part.unlink(missing_ok=True)
            raise
        os.replace(part, target)
    return target


def missing_message(file: FileStatus, folders: Folders, *, why: str = "") -> str:
    """The error message for an absent file; why : the reason for a failed download, if any."""
    source = f", fetching {file.url} failed: {why}" if why else f", it comes from {file.url}"
    if file.url is None:
        source = ", nowhere to fetch it from"
    dirs = " or ".join(str(f) for f in (folders.own, *folders.read_only))
    return f"{file.name} is not there{source}; put it (plain, xz, bz2, gz or zip) into {dirs}" + (
        "" if folders.read_only else " or a folder named in $KBENCH_DATA"
    )


def _fetch_with_resume(url: str, part: Path, progress: bool | None) -> None:
    """Fetch a file in up to ATTEMPTS requests."""
    for attempt in range(ATTEMPTS):
        try:
            _fetch_once(url, part, progress)
            return
        except (_Broken, HTTPException, TimeoutError, ConnectionError):
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.5 * attempt)  # seconds: the first retry is immediate; set by hand


def _fetch_once(url: str, part: Path, progress: bool | None) -> None:
    """Send one request; after a break `part` has the bytes so far and the date of the file."""
    request = Request(url, headers={"User-Agent": "kbench", "Accept-Encoding": "identity"})
    n_bytes = part.stat().st_size if part.exists() else 0
    if n_bytes:
        request.add_header("Range", f"bytes={n_bytes}-")
        date = email.utils.formatdate(part.stat().st_mtime, usegmt=True)
        request.add_header("If-Range", date)
    try:
        response = urlopen(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        error.close()
        if error.code != 416:
            raise _Refused(f"HTTP {error.code} {error.reason}") from None
        part.unlink()  # the part is longer than the file on the server
        raise _Broken("the file has changed") from None
    with response:
        if response.status != 206:
            n_bytes = 0
        modified = email.utils.parsedate_tz(response.headers.get("Last-Modified", ""))
        try:
            with open(part, "ab" if n_bytes else "wb") as output:
                _copy(response, output, n_bytes, part.name[1:-5], progress)
        finally:
            # A later request identifies the file by its date. Without a date from the server,
            # `part` has the present date, for which the server sends the whole file.
            if modified is not None and part.exists():
                stamp = email.utils.mktime_tz(modified)
                os.utime(part, (stamp, stamp))


def _copy(response: HTTPResponse, out: Any, size: int, name: str, progress: bool | None) -> None:
    """Write the body of a response to `out`, after the `size` bytes of the file that it has."""
    from tqdm import tqdm

    length = response.headers.get("Content-Length")
    total = size + int(length) if length is not None else None
    bar = tqdm(
        total=total,
        initial=size,
        desc=name,
        unit="B",
        unit_scale=True,
        disable=None if progress is None else not progress,
    )
    with bar:
        while piece := response.read(piece_sizes().text):
            out.write(piece)
            size += len(piece)
            bar.update(len(piece))
    if total is not None and size < total:
        raise _Broken(f"the connection ended after {size} of {total} bytes")


def _verify(part: Path, file: FileStatus, folders: Folders) -> None:
    """Raise DataError for an empty file, a page or a wrong checksum; store a first checksum."""
    digest = hashlib.sha256()
    with open(part, "rb") as content:
        head = content.read(512)  # bytes that show whether the file is a page; set by hand
        content.seek(0)
        while piece := content.read(piece_sizes().text):
            digest.update(piece)
    if head.lstrip()[:1] == b"<":
        raise DataError(f"{file.url}: sent an HTML or XML page, should be the file {file.name}")
    if not head:
        raise DataError(f"{file.url}: sent an empty file, should be {file.name}")
    actual = digest.hexdigest()
    checksums = folders.own / "_fetched.json"
    if file.sha256 is not None:
        if actual != file.sha256:
            raise DataError(f"{file.url}: sha256 is {actual}, should be {file.sha256}")
        return
    first = read_json(checksums).get(str(file.url))
    if first is None:
        add_to_cache(checksums, str(file.url), actual)
    elif first != actual:
        raise DataError(
            f"{file.url}: sha256 is {actual}, the first download had {first}; if the new file is "
            f"right, remove its line from {checksums}"
        )


def _reason(error: Exception) -> str:
    if isinstance(error, URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    return one_line(error) or type(error).__name__


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Make `folder`, and turn a failure to write there into a DataError with the reason."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise DataError(
                f"{folder}: no space left to write ({error.strerror}); free some, or name another "
                "folder by datasets_dir=FOLDER"
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise DataError(
                f"{folder}: cannot be written ({error.strerror}); kbench keeps downloads and "
                "prepared arrays there: name another folder by datasets_dir=FOLDER"
            ) from None
        where = error.filename or folder
        raise DataError(f"{where}: {error.strerror or error}") from error


@contextmanager
def exclusive(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock `folder` against other processes that call this function; makes no lock file.

    Yields False if the file system has no locks, as some network file systems, or if `wait` is
    false and another process holds the lock.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        locked = False
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            locked = True
        yield locked
    finally:
        os.close(descriptor)
