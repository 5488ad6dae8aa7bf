"""The open model format: a fitted estimator in one file that other programs can read.

The file is an .npz archive (a zip of .npy files, not compressed, no pickled objects) with a member
`manifest.json`:

    format        1
    kbench        version that wrote the file; scikit_learn likewise. Another major or minor version
                  of either package refuses the file, because classes may have other attributes.
    estimator     tree of the estimator (`kbench.prediction.encoding`)
    preparation   tree of the preparation of raw rows, or null
    about         strings and numbers on the origin of the model
    arrays        name -> {dtype, shape, fortran_order, sha256}, of each .npy
    sha256        checksum of all other keys, as JSON with sorted keys

Reading checks all of this before anything is built. The checksums detect damage, not forgery. A
file builds only objects that the encoding allows; each is checked before compiled code reads it.
"""

import hashlib
import io
import json
import os
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbench import __version__
from kbench.errors import KbenchError, ModelError, quoted
from kbench.files import atomic_file
from kbench.prediction.encoding import decode, encode

# Version of the file format; raised when older readers would misread a new file.
FORMAT = 1
MANIFEST = "manifest.json"
# Largest manifest that is read, in bytes. Manifests of models have a few kilobytes; the limit
# bounds the memory that a forged file can take. Set by hand.
_MAX_MANIFEST_BYTES = 64 << 20
# Exceptions that zipfile raises for archives that are damaged, encrypted or of another kind.
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, RuntimeError, ValueError, struct.error)
_MANIFEST_KEYS = {"format", "kbench", "scikit_learn", "estimator", "preparation", "about", "arrays"}


@dataclass(frozen=True)
class StoredModel:
    """The content of a model file.

    Attributes
    ----------
    estimator : object
        Fitted; predicts the same bits as the estimator that was stored.
    preparation : object
        The `preparation` that `save_model` got.
    about : dict
        Origin of the model.
    """

    estimator: Any
    preparation: Any
    about: dict[str, Any]


def save_model(
    path: str | os.PathLike[str],
    estimator: Any,
    *,
    preparation: Any = None,
    about: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted estimator to `path`, completely or not at all.

    Parameters
    ----------
    path : path, usually `*.npz`
    estimator : fitted estimator of kbench, of a plug-in or (with skops) of scikit-learn
    preparation : plain values and arrays
        Stored beside the estimator, for programs that apply it to raw rows.
    about : mapping of str to plain value

    Raises
    ------
    ModelError
        The estimator has an attribute that the format cannot hold; the message names it.
    KbenchError
        The file cannot be written.

    Notes
    -----
    O(bytes of the model) time, once for the checksums and once for the disk.
    """
    import sklearn

    content = {"estimator": estimator, "preparation": preparation, "about": dict(about or {})}
    tree, arrays = encode(content)
    blocks = {name: _npy_bytes(array) for name, array in arrays.items()}
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "kbench": __version__,
        "scikit_learn": sklearn.__version__,
        **{key: value for [key, value] in tree["dict"]},
        "arrays": {name: _array_header(array, blocks[name]) for name, array in arrays.items()},
    }
    manifest["sha256"] = manifest_digest(manifest)
    with atomic_file(Path(path)) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(MANIFEST, json.dumps(manifest, allow_nan=False))
        for name, block in blocks.items():
            archive.writestr(f"{name}.npy", block)
    return Path(path)


def load_model(path: str | os.PathLike[str]) -> StoredModel:
    """Read a file that `save_model` wrote; safe for a file of unknown origin.

    Raises
    ------
    ModelError
        One line with the file and its fault: it is absent, cut off, edited, not of this format or
        version, names a class that a model may not hold, or has arrays that contradict one another.

    Notes
    -----
    No code of the file runs, no pickle is read, and sizes are checked before memory is allocated.
    A forged model may still predict nonsense, raise an exception or take long, but it does not
    crash: `scripts/fuzz_models.py` tries.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe or /dev/zero has no end
            raise ModelError("no regular file, so no model of kbench")
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            members = _members(archive)
            manifest = _read_manifest(archive, members)
            arrays = {
                name: _read_array(archive, members.pop(f"{name}.npy", None), name, header)
                for name, header in manifest["arrays"].items()
            }
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    except KbenchError as error:
        raise ModelError(f"{path}: {error}") from None
    except _ZIP_ERRORS as error:
        # zipfile may quote the rest of the file in place of a name.
        raise ModelError(f"{path}: no model of kbench, or cut off ({quoted(error)})") from None
    if members:
        raise ModelError(f"{path}: {min(members)!r} is not a part of a model")
    try:
        keys = ("estimator", "preparation", "about")
        return StoredModel(**{key: decode(manifest[key], arrays) for key in keys})
    except KbenchError as error:
        raise ModelError(f"{path}: {error}") from None
    except (MemoryError, RecursionError) as error:
        raise ModelError(f"{path}: too large or nested too deeply ({error})") from None


def _npy_bytes(array: np.ndarray) -> memoryview:
    """The content of an .npy file in version 1 of its format; keeps the memory order."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
    return buffer.getbuffer()


def _array_header(array: np.ndarray, block: memoryview) -> dict[str, Any]:
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "fortran_order": bool(array.flags.f_contiguous and not array.flags.c_contiguous),
        "sha256": hashlib.sha256(block).hexdigest(),
    }


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Checksum of a manifest without its entry `sha256`, as hexadecimal digits."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of the archive by name, after a check of names and compression."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        if member.filename in members or not re.fullmatch(
            r"a\d+\.npy|manifest\.json", member.filename
        ):
            raise ModelError(f"{member.filename[:80]!r} is not a part of a model")
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise ModelError(f"{member.filename!r} is compressed, should be stored")
        members[member.filename] = member
    if MANIFEST not in members:
        raise ModelError(f"no model of kbench: there is no {MANIFEST}")
    return members


def _read_manifest(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
    """Check the manifest, remove it from `members` and return it."""
    member = members.pop(MANIFEST)
    if member.file_size > _MAX_MANIFEST_BYTES:
        raise ModelError(f"{MANIFEST} has {member.file_size} bytes, at most {_MAX_MANIFEST_BYTES}")
    try:
        manifest = json.loads(archive.read(member), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{MANIFEST} cannot be read ({str(error)[:100]})") from None
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise ModelError(f"no model of kbench: {MANIFEST} names no format")
    if manifest["format"] != FORMAT:
        raise ModelError(
            f"written in version {str(manifest['format'])[:20]} of the model format, this kbench "
            f"reads {FORMAT}; fit again, or use the kbench that wrote it"
        )
    checksum = manifest.pop("sha256", None)
    if checksum != manifest_digest(manifest) or set(manifest) != _MANIFEST_KEYS:
        raise ModelError(f"{MANIFEST} was changed after the model was written; fit again")
    _require_versions(manifest)
    if not isinstance(manifest["arrays"], dict):
        raise ModelError(f"{MANIFEST}: arrays should be a mapping")
    return manifest


def _require_versions(manifest: Mapping[str, Any]) -> None:
    """Refuse a model that another major or minor version of kbench or scikit-learn wrote."""
    import sklearn

    installed = {"kbench": __version__, "scikit_learn": sklearn.__version__}
    for package, current in installed.items():
        written = str(manifest[package])
        if written.split(".")[:2] != current.split(".")[:2]:
            name = package.replace("_", "-")
            raise ModelError(
                f"written with {name} {written[:20]}, installed is {current}; fit again, or "
                "install that version"
            )


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def _read_array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo | None, name: str, expected: Any
) -> np.ndarray:
    """Read one array and check its size and checksum against the manifest."""
    if member is None:
        raise ModelError(f"array {name} is missing")
    block = archive.read(member)
    if not isinstance(expected, dict) or hashlib.sha256(block).hexdigest() != expected.get(
        "sha256"
    ):
        raise ModelError(f"array {name} was changed after the model was written; fit again")
    stream = io.BytesIO(block)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError("another version of .npy")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    except (ValueError, EOFError, SyntaxError) as error:
        raise ModelError(f"array {name} is not an .npy file ({str(error)[:100]})") from None
    if dtype.hasobject or dtype.kind not in "biufcU":
        raise ModelError(f"array {name} is of {dtype}, should be of numbers or texts")
    header = {"dtype": dtype.str, "shape": list(shape), "fortran_order": bool(fortran_order)}
    if header != {key: expected.get(key) for key in header}:
        raise ModelError(f"array {name} is {header}, the manifest says otherwise")
    entries = 1
    for length in shape:
        entries *= length
    if entries * dtype.itemsize != len(block) - stream.tell():
        raise ModelError(f"array {name} has another size than its shape {shape} of {dtype}")
    # The copy is aligned and writable.
    array = np.empty(entries, dtype)
    array[...] = np.frombuffer(block, dtype, entries, stream.tell())
    return array.reshape(shape, order="F" if fortran_order else "C")
