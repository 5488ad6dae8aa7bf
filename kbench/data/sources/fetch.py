"""Download of a raw file: progress, resume, checksum, atomic rename.

A broken download is resumed by a Range request, also by a later command. The bytes so far are
beside the destination under a name with a leading dot, and are used only if the file on the server
has not changed (If-Range with the file's date). If the config has no sha256, the checksum of the
first download is stored in `datasets/_fetched.json`, and later downloads must have the same one.
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

_MAX_REQUESTS = 3  # guard: requests for one file before a broken connection is an error
TIMEOUT_S = 30.0  # guard: seconds without a byte after which a connection counts as broken


class _BrokenConnection(Exception):
    """The connection ended before the file did; another request may resume it."""


class _RefusedRequest(Exception):
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
    destination = folders.own / name
    partial = destination.with_name(f".{destination.name}.part")
    with writable(folders.own), exclusive(folders.own):
        if destination.is_file():  # another process fetched it while this one waited
            return destination
        try:
            if catalogued:
                write_table(file.url, partial, folders.own / "_scikit_learn")
            else:
                _fetch_with_resume(file.url, partial, progress)
        except (_BrokenConnection, _RefusedRequest, HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.errno in (
                errno.ENOSPC,
                errno.EDQUOT,
                errno.EFBIG,
            ):
                partial.unlink(missing_ok=True)
                raise
            raise DataNotFoundError(missing_message(file, folders, why=_reason(error))) from None
        try:
            if not catalogued:  # the bytes of a table depend on the library that wrote it
                _verify(partial, file, folders)
        except DataError:
            partial.unlink(missing_ok=True)
            raise
        os.replace(partial, destination)
    return destination


def missing_message(file: FileStatus, folders: Folders, *, why: str = "") -> str:
    """The error message for an absent file; why : the reason for a failed download, if any."""
    source = f", fetching {file.url} failed: {why}" if why else f", it comes from {file.url}"
    if file.url is None:
        source = ", nowhere to fetch it from"
    folder_names = " or ".join(str(f) for f in (folders.own, *folders.read_only))
    return (
        f"{file.name} is not there{source}; put it (plain, xz, bz2, gz or zip) into {folder_names}"
        + ("" if folders.read_only else " or a folder named in $KBENCH_DATA")
    )


def _fetch_with_resume(url: str, partial: Path, progress: bool | None) -> None:
    """Fetch a file in up to `_MAX_REQUESTS` requests."""
    for request in range(_MAX_REQUESTS):
        try:
            _fetch_once(url, partial, progress)
            return
        except (_BrokenConnection, HTTPException, TimeoutError, ConnectionError):
            if request == _MAX_REQUESTS - 1:
                raise
            time.sleep(0.5 * request)  # seconds: the first retry is immediate; set by hand


def _fetch_once(url: str, partial: Path, progress: bool | None) -> None:
    """Send one request; after a break `partial` has the bytes so far and the date of the file."""
    request = Request(url, headers={"User-Agent": "kbench", "Accept-Encoding": "identity"})
    n_bytes = partial.stat().st_size if partial.exists() else 0
    if n_bytes:
        request.add_header("Range", f"bytes={n_bytes}-")
        date = email.utils.formatdate(partial.stat().st_mtime, usegmt=True)
        request.add_header("If-Range", date)
    try:
        response = urlopen(request, timeout=TIMEOUT_S)
    except HTTPError as error:
        error.close()
        if error.code != 416:
            raise _RefusedRequest(f"HTTP {error.code} {error.reason}") from None
        partial.unlink()  # it is longer than the file on the server
        raise _BrokenConnection("the file has changed") from None
    with response:
        if response.status != 206:
            n_bytes = 0
        modified = email.utils.parsedate_tz(response.headers.get("Last-Modified", ""))
        try:
            with open(partial, "ab" if n_bytes else "wb") as output:
                _copy(response, output, n_bytes, partial.name[1:-5], progress)
        finally:
            # A later request identifies the file by its date. Without a date from the server,
            # `partial` has the present date, for which the server sends the whole file.
            if modified is not None and partial.exists():
                timestamp = email.utils.mktime_tz(modified)
                os.utime(partial, (timestamp, timestamp))


def _copy(
    response: HTTPResponse, output: Any, n_bytes: int, name: str, progress: bool | None
) -> None:
    """Append the body of a response to `output`, which has `n_bytes` of the file."""
    from tqdm import tqdm

    content_length = response.headers.get("Content-Length")
    n_total = n_bytes + int(content_length) if content_length is not None else None
    progress_bar = tqdm(
        total=n_total,
        initial=n_bytes,
        desc=name,
        unit="B",
        unit_scale=True,
        disable=None if progress is None else not progress,
    )
    with progress_bar:
        while piece := response.read(piece_sizes().text):
            output.write(piece)
            n_bytes += len(piece)
            progress_bar.update(len(piece))
    if n_total is not None and n_bytes < n_total:
        raise _BrokenConnection(f"the connection ended after {n_bytes} of {n_total} bytes")


def _verify(partial: Path, file: FileStatus, folders: Folders) -> None:
    """Raise DataError for an empty file, a page or a wrong checksum; store a first checksum."""
    digest = hashlib.sha256()
    with open(partial, "rb") as content:
        head = content.read(512)  # bytes that show whether the file is a page; set by hand
        content.seek(0)
        while piece := content.read(piece_sizes().text):
            digest.update(piece)
    if head.lstrip()[:1] == b"<":
        raise DataError(f"{file.url}: sent an HTML or XML page, should be the file {file.name}")
    if not head:
        raise DataError(f"{file.url}: sent an empty file, should be {file.name}")
    checksum = digest.hexdigest()
    checksums = folders.own / "_fetched.json"
    if file.sha256 is not None:
        if checksum != file.sha256:
            raise DataError(f"{file.url}: sha256 is {checksum}, should be {file.sha256}")
        return
    first_checksum = read_json(checksums).get(str(file.url))
    if first_checksum is None:
        add_to_cache(checksums, str(file.url), checksum)
    elif first_checksum != checksum:
        raise DataError(
            f"{file.url}: sha256 is {checksum}, the first download had {first_checksum}; if the "
            f"new file is right, remove its line from {checksums}"
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
