"""Locate raw files in `datasets/` of the working directory, then in $KBENCH_DATA.

Folders are listed, but files are not read, so that lists and plans are quick.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from kbench.errors import ConfigError

COMPRESSION_SUFFIXES = ("", ".xz", ".bz2", ".gz", ".zip")
"""Suffixes with which the name of a file is searched; the first is for the plain file."""

CATALOGUES = ("sklearn", "openml")
"""Schemes of addresses that scikit-learn's fetchers download."""

BUNDLED_FILES = {
    "digits": ("digits.csv.gz",),
    "iris": ("iris.csv",),
    "wine": ("wine_data.csv",),
    "breast_cancer": ("breast_cancer.csv",),
    "diabetes": ("diabetes_data_raw.csv.gz", "diabetes_target.csv.gz"),
}
"""Files of scikit-learn's bundled sets, in `sklearn/datasets/data`."""


def part_of(role: str) -> str:
    """The part to which a file belongs: `train` for `train_images`."""
    return role.partition("_")[0]


def in_catalogue(url: str) -> bool:
    """Whether `kbench.data.sources.catalogues` fetches a URL: sklearn:NAME or openml:NUMBER."""
    return url.partition(":")[0] in CATALOGUES


def catalogue_table(url: str) -> str:
    """Name of the file with the downloaded table: openml_61.parquet for `openml:61`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", url) + ".parquet"


def is_file_name(text: str) -> bool:
    """Whether a text names a file within a folder: no separators, no leading dot or underscore.

    Names come from configs that others may have written; `../secret` would leave the folders of
    the data sets, and names that begin with a dot or an underscore are kbench's own.
    """
    return text.isprintable() and not re.search(r"[/\\:]", text) and text[:1] not in ("", ".", "_")


def name_in_url(url: str) -> str:
    """The decoded file name at the end of a URL, which `is_file_name` has to check before use."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


@dataclass(frozen=True)
class Folders:
    """Folders of raw and prepared files.

    Attributes
    ----------
    own : Path
        Folder of downloads; prepared arrays are in `own/_prepared`.
    read_only : tuple of Path
        Further folders with raw files.
    file_urls : bool
        Whether `file:` URLs may be copied. Only the command line sets it, because a config may come
        from others and name any file of this machine.
    """

    own: Path
    read_only: tuple[Path, ...] = ()
    file_urls: bool = False

    @classmethod
    def from_environment(
        cls, own: str | Path = "datasets", *, file_urls: bool = False
    ) -> "Folders":
        """`own`, and the folders in $KBENCH_DATA, which are separated as in $PATH."""
        names = os.environ.get("KBENCH_DATA", "").split(os.pathsep)
        read_only = tuple(Path(f).expanduser() for f in names if f)
        return cls(Path(own), read_only, file_urls)

    @property
    def prepared(self) -> Path:
        """Folder of the prepared arrays."""
        return self.own / "_prepared"


@dataclass(frozen=True)
class FileStatus:
    """A raw file of a data set, present or not.

    Attributes
    ----------
    role : str
        train, test or all, with a suffix if a part has several files (`train_labels`, `all_red`);
        or bundled, for a file of scikit-learn.
    name : str
        Its name at the source, without the suffix of a compression.
    path : Path or None
        Its path; None if it is absent.
    url : str or None
        Address for the download.
    sha256 : str or None
        Published checksum of the downloaded file.
    candidates : tuple of str
        Paths that were searched.
    sample : tuple of int or None
        (rows, seed) if the data set is a random sample of the file.
    rival : Path or None
        A file of the same name, if both are in folders of other names than the data set's.
    """

    role: str
    name: str
    path: Path | None
    url: str | None
    sha256: str | None
    candidates: tuple[str, ...]
    sample: tuple[int, int] | None = None
    rival: Path | None = None


def locate(config: Mapping[str, Any], folders: Folders) -> list[FileStatus]:
    """Every raw file of a data set, present or not; empty for a generator.

    Downloads, reads and hashes no file.
    """
    source = config["source"]
    if source["kind"] == "sklearn":
        return [_find_bundled(name) for name in BUNDLED_FILES[source["bundled"]]]
    if source["kind"] == "file":
        has_test_file = config.get("test_path") is not None
        roles = {
            "train" if has_test_file else "all": config.get("path"),
            "test": config.get("test_path"),
        }
        return [
            _search(config["name"], role, {"names": [catalogue_table(path)], "url": path}, folders)
            if in_catalogue(path)
            else _at_path(role, path)
            for role, path in roles.items()
            if path is not None
        ]
    if source["kind"] == "files":
        return [_search(config["name"], role, f, folders) for role, f in source["files"].items()]
    return []


def _search(dataset: str, role: str, file: Mapping[str, Any], folders: Folders) -> FileStatus:
    """The file that `file` of a config names; if it is absent, the file under `otherwise`."""
    alternatives = [file, file["otherwise"]] if file.get("otherwise") else [file]
    for name in (dataset, *(name for option in alternatives for name in option["names"])):
        if not (isinstance(name, str) and is_file_name(name)):
            raise ConfigError(f"{dataset!r}: {name!r}, should be a file name without folders")
    for offset_from_last, option in enumerate(alternatives, start=1 - len(alternatives)):
        path = next((p for p in _candidates(dataset, option["names"], folders) if is_file(p)), None)
        if path is not None or offset_from_last == 0:
            sample = option.get("sample")
            return FileStatus(
                role,
                option["names"][0],
                path,
                option.get("url"),
                option.get("sha256"),
                tuple(
                    str(folder / name) + f"[{'|'.join(COMPRESSION_SUFFIXES[1:])}]"
                    for alternative in alternatives
                    for root in (folders.own, *folders.read_only)
                    for folder in (root, root / "*")
                    for name in alternative["names"]
                ),
                (sample["n"], sample["seed"]) if sample else None,
                None if path is None else _rival(path, dataset, folders),
            )
    raise AssertionError("the last alternative always returns")


def _rival(path: Path, dataset: str, folders: Folders) -> Path | None:
    """A file with the name of `path` in a sibling folder, if neither folder is preferred."""
    folder = path.parent
    if folder.name == dataset or folder.parent not in (folders.own, *folders.read_only):
        return None
    others = (
        p for p in sorted(folder.parent.glob(f"[!._]*/{glob.escape(path.name)}")) if p != path
    )
    return next(filter(is_file, others), None)


def _candidates(dataset: str, names: list[str], folders: Folders) -> Iterator[Path]:
    """Paths in order of preference: the folder named as the data set, the root, other folders."""
    for root in (folders.own, *folders.read_only):
        try:
            subfolders = sorted(
                e.name for e in os.scandir(root) if e.is_dir() and e.name[0] not in "._"
            )
        except OSError:
            continue
        search_path = [root / dataset] if dataset in subfolders else []
        search_path += [root, *(root / name for name in subfolders if name != dataset)]
        for folder in search_path:
            for name in names:
                for suffix in COMPRESSION_SUFFIXES:
                    yield folder / f"{name}{suffix}"


def _find_bundled(name: str) -> FileStatus:
    """A file of the installed scikit-learn, found without importing it."""
    spec = find_spec("sklearn")
    package_folders = list(spec.submodule_search_locations or ()) if spec else []
    paths = [Path(folder) / "datasets" / "data" / name for folder in package_folders]
    file = next((p for p in paths if p.is_file()), None)
    return FileStatus("bundled", name, file, None, None, tuple(str(p) for p in paths))


def expanded(path: str) -> Path:
    """Replace `~` or `~user` by the home folder; raises ConfigError for an unknown user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0]
        raise ConfigError(
            f"dataset.path={path}: there is no home folder of {user}, should be a path; "
            f"./{user} names a file of this name"
        ) from None


def absent_message(file: Path) -> str:
    """The error message for a path that is not one regular file."""
    text = str(file)
    if text == "-":
        return "standard input is not a regular file, should be one: a file is read more than once"
    if re.match(r"[a-z][a-z0-9]+:/", text):
        return (
            f"{text.replace(':/', '://', 1)} is an address: download the file and name it; "
            "openml:NUMBER is a data set of OpenML"
        )
    if not glob.has_magic(text):
        if os.path.isdir(file):
            is_partitioned = any(file.glob("*.parquet")) or any(
                file.glob("*=*")
            )  # such as year=2020
            hint = f"; pandas.read_parquet({str(file)!r}).to_parquet(FILE) makes one of its parts"
            return f"{file} is a folder, should be the path of one file{hint * is_partitioned}"
        if os.path.exists(file):
            return f"{file} is not a regular file, should be one: a file is read more than once"
        return f"there is no file {file}"
    paths = sorted(glob.glob(text))
    if not paths:
        return f"no file matches {file}, should be the path of a file"
    matches = f" and {len(paths) - 1} more match" if len(paths) > 1 else " matches"
    join = "; source.files of a config joins several (docs/data.md)" if len(paths) > 1 else ""
    return f"{paths[0]}{matches} {file}, should be the path of one file{join}"


def _at_path(role: str, path: str) -> FileStatus:
    """The file of a user at `path`, present or not."""
    file = expanded(path)
    return FileStatus(role, file.name, file if is_file(file) else None, None, None, (str(file),))


def is_file(path: Path) -> bool:
    """Whether there is a regular file; False also if the system raises an error."""
    try:
        return path.is_file()
    except OSError:  # for example a name that is too long
        return False
