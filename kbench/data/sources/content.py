"""The decompressed bytes of a raw file, and their sha256.

gzip, bzip2, xz and zip are recognised by content, not by the file's name. The sha256 of the
decompressed bytes identifies the data, so that `ijcnn1.xz` and `ijcnn1.bz2` are the same data. This
checksum is cached by path, size, modification time and inode change time. The inode change time
differs even if `cp -p`, `tar` or `rsync -t` replace the file by another one of the same size and
date.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Any

from kbench.data.sources.piece_sizes import piece_sizes
from kbench.errors import DataError, KbenchError, quoted
from kbench.files import atomic_file

_OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_BINARY_KINDS = {
    b"PAR1": "a Parquet file, which dataset.source.format=parquet reads",
    b"ARROW1": "an Arrow or Feather file; pandas.read_feather and to_parquet convert it",
    b"MATLAB 5.0": "a MATLAB file, which dataset.source.format=mat reads",
    b"\x93NUMPY": "a NumPy array; numpy.savez(FILE, X=X, y=y) keeps features and targets",
    b"\x89HDF\r\n": "an HDF5 file; numpy.savez(FILE, X=X, y=y) writes what is read",
    b"SQLite format 3": "a SQLite database; export the table as CSV",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; `zstd -d` unpacks it",
    b"\x04\x22\x4d\x18": "compressed by lz4; `lz4 -d` unpacks it",
    b"\x1f\x8b": "compressed twice; `gzip -d` unpacks it once",
    b"PK\x03\x04": "a zip archive in another file; unpack it there",
    b"PK\x05\x06": "an empty zip archive",
    b"\x1f\x9d": "compressed by compress; `gzip -d` unpacks it",
    b"\x5d\0\0": "compressed by LZMA; `xz -d` unpacks it",
    b"version https://git-lfs": "a pointer of Git LFS; `git lfs pull` fetches the file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it there",
    b"Rar!\x1a": "a RAR archive; unpack it there",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the sheet as CSV (UTF-8)",
    b"RDX3\n": "data of R; write.csv there writes a table",
    b"\xff\xfe\0\0": "UTF-32 text; `iconv -f UTF-32 -t UTF-8` converts it",
    b"\0\0\xfe\xff": "UTF-32 text; `iconv -f UTF-32 -t UTF-8` converts it",
    b"\xff\xfe": "UTF-16 text; `iconv -f UTF-16 -t UTF-8` converts it",
    b"\xfe\xff": "UTF-16 text; `iconv -f UTF-16 -t UTF-8` converts it",
}
"""First bytes of a file without rows of text -> the kind of the file, and the remedy."""

_PAGE_REMEDY = (
    "an HTML or XML page; a server may have sent it instead of the data: delete the file and "
    "fetch it again"
)
_JSON_REMEDY = "`pandas.read_json(FILE, lines=True).to_csv(NEW, index=False)` makes a table"
_MARKUP_KINDS = {
    # Neither a header such as <TICKER>,<DATE> nor a first column of values like <0.5 matches.
    re.compile(rb"\s*<[A-Za-z!?/](?![^<>\n]*>[,;\t|])"): _PAGE_REMEDY,
    re.compile(rb"\s*\{.*\}\s*?\n\s*\{"): f"lines of JSON; {_JSON_REMEDY}",
    re.compile(rb"\s*(\{\s*\"|\[\s*[\[{])"): f"JSON; {_JSON_REMEDY.replace(', lines=True', '')}",
}
"""Pattern of the beginning of a text without rows -> the kind of the text, and the remedy."""

MAX_LINE_BYTES = 32 << 20
"""Longest line of a text file, in bytes (32 MiB, about two million values). Guard: it bounds the
memory that a damaged file costs, as 5 MB of gzip can hold 1 GB without a line end."""


def decompressed_pieces(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, piece by piece.

    Raises
    ------
    DataError
        The file cannot be read, is cut off, or is a zip archive of several files.
    """
    try:
        with closing(_open(path)) as stream:
            while piece := stream.read(piece_sizes().text):
                yield piece
    except (KbenchError, MemoryError):
        raise
    except Exception as error:
        # For damaged files decompressors raise EOFError, zlib.error, LZMAError, BadZipFile,
        # RuntimeError (encrypted), NotImplementedError or an OSError without an error number. The
        # errors of the file system have a number and a text.
        reason = error.strerror if isinstance(error, OSError) else None
        description = quoted(error) or type(error).__name__
        reason = reason or f"damaged or cut off ({description}); delete it and fetch it again"
        raise DataError(f"{path}: {reason}") from None


def _open(path: Path) -> IO[bytes]:
    """A stream of the decompressed bytes; raises DataError for a zip archive of several files."""
    with open(path, "rb") as raw:
        head = raw.read(6)  # the length of the longest key of _OPENERS
    for magic, opener in _OPENERS.items():
        if head.startswith(magic):
            return opener(path, "rb")  # type: ignore[operator]
    if head.startswith(b"PK\x03\x04") and path.suffix != ".npz":  # an .npz is itself an archive
        archive = zipfile.ZipFile(path)
        # macOS adds members of these names to archives, which hold icons and attributes, no data.
        macos_names = ("__MACOSX/", ".DS_Store")
        members = [
            m for m in archive.infolist() if not (m.is_dir() or m.filename.startswith(macos_names))
        ]
        matching = [m for m in members if Path(m.filename).name in (path.stem, path.name)]
        selection = members if len(members) == 1 else matching
        if len(selection) != 1:
            archive.close()
            problem = f"holds {len(members)} files, should be one; unpack it there"
            if any(member.filename == "xl/workbook.xml" for member in members):
                problem = "an Excel workbook; save the sheet as CSV (UTF-8)"
            elif all(member.filename.endswith(".npy") for member in members):
                problem = "an .npz archive, which dataset.source.format=npz reads"
            raise DataError(f"{path}: {problem}")
        return archive.open(selection[0])
    return open(path, "rb")


def read(path: Path) -> bytearray:
    """All decompressed bytes of a file; the same errors as `decompressed_pieces`."""
    content = bytearray()
    for piece in decompressed_pieces(path):
        content += piece
    return content


def require_text(head: bytes, path: Path) -> None:
    """Refuse a file whose first bytes show that it holds no rows of text; name its kind."""
    kind = next((kind for magic, kind in _BINARY_KINDS.items() if head.startswith(magic)), None)
    if kind is None:
        unmarked_head = head.removeprefix(b"\xef\xbb\xbf")
        kind = next(
            (kind for pattern, kind in _MARKUP_KINDS.items() if pattern.match(unmarked_head)), None
        )
    if kind is None and head[257:262] == b"ustar":
        kind = "a tar archive; unpack it there"
    # Without a byte order mark, every second byte of ASCII text in UTF-16 is zero.
    if kind is None and head[:1] == b"\0" == head[2:3]:
        kind = "UTF-16 text; `iconv -f UTF-16BE -t UTF-8` converts it"
    if kind is None and head[1:2] == b"\0" == head[3:4]:
        kind = "UTF-16 text; `iconv -f UTF-16LE -t UTF-8` converts it"
    if kind is not None:
        raise DataError(f"{path}: not rows of text in UTF-8 but {kind}")


def text_pieces(path: Path) -> Iterator[tuple[int, bytes, bool]]:
    """The decompressed text of a file in pieces of whole lines, O(`PieceSizes.text`) each.

    A longer line makes a longer piece, up to MAX_LINE_BYTES. The last piece may lack a line feed.

    Yields
    ------
    first_line : int
        Line number of the piece's first line, from 1.
    text : bytes
        Not empty.
    last : bool
        Whether the file ends with this piece.
    """
    first_line, buffer = 1, bytearray()
    for piece in decompressed_pieces(path):
        n_searched = len(buffer)
        buffer += piece
        if first_line == 1 and not n_searched:
            require_text(piece, path)
        end = buffer.rfind(b"\n", n_searched) + 1
        if 0 < end < len(buffer):  # more bytes follow, so this piece is not the last one
            text = bytes(buffer[:end])
            del buffer[:end]
            yield first_line, text, False
            first_line += text.count(b"\n")
        if len(buffer) > MAX_LINE_BYTES + piece_sizes().text:
            raise DataError(
                f"{path}:{first_line}: a line of more than {MAX_LINE_BYTES >> 20} MiB, should be "
                "text in shorter lines"
            )
    if buffer:
        yield first_line, bytes(buffer), True


def content_sha256(path: Path, cache: Path) -> str:
    """sha256 of the decompressed bytes, kept in the JSON file `cache`."""
    cached = cached_sha256(path, cache)
    if cached is not None:
        return cached
    key, stamp = _stamp(path)
    digest = hashlib.sha256()
    for piece in decompressed_pieces(path):
        digest.update(piece)
    with suppress(KbenchError):  # if the cache cannot be written, a later call hashes again
        add_to_cache(cache, key, [*stamp, digest.hexdigest()])
    return digest.hexdigest()


def cached_sha256(path: Path, cache: Path) -> str | None:
    """The cached sha256 of a file whose size and times are unchanged, or None."""
    key, stamp = _stamp(path)
    entry = read_json(cache).get(key)
    return str(entry[-1]) if isinstance(entry, list) and entry[:-1] == stamp else None


def _stamp(path: Path) -> tuple[str, list[int]]:
    """The file's key in the cache, and its size and times, with which an entry is compared."""
    stat = path.stat()
    return str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file that kbench wrote; empty if it is absent or unreadable."""
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def add_to_cache(path: Path, key: str, value: Any) -> None:
    """Add one entry to a JSON file, by replacing the file.

    If two processes write at the same time, one entry may be lost; it is computed again.
    """
    with atomic_file(path) as file:
        text = json.dumps(read_json(path) | {key: value}, indent=0, sort_keys=True)
        file.write(text.encode())
