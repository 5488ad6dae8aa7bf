"""kbench data where|check|prepare [NAME ...|openml:NUMBER ...|all] [datasets_dir=DIR]
                                    [allow_file_urls=true] [limits.memory_mb=MIB]

where    print the path of each raw file, also of variants; if the file is absent, the searched
         folders and the address of its download
check    read the raw files that are present and compare them with the facts of their config, also
         for variants with separate files (half of census, a tenth of kddcup99)
prepare  download missing files and write the prepared arrays that runs map into memory;
         allow_file_urls=true also copies files that a config names by a file: address

Files are read in a child process, which may allocate limits.memory_mb (by default the machine's
memory); a file that needs more memory causes a message of one line.

The exit code is 1 if a data set is absent (prepare) or does not fit its facts (check, prepare).
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.commands.arguments import one_of, parse_boolean, parse_words
from kbench.config import composer, describing, options, read_yaml, require_option
from kbench.errors import ConfigError, DataError, DataNotFoundError
from kbench.settings import settings

WORDS = ("where", "check", "prepare", "all")
KEYS = ("datasets_dir", "allow_file_urls", "limits.memory_mb")
# Config of a number on OpenML, as far as `where` needs it.
_OPENML = {"name": "openml", "source": {"kind": "file"}}


def main(argv: Sequence[str]) -> int:
    """Carry out the first word's action for each named data set."""
    from kbench.data import Folders, with_variant

    for word in argv:
        if word.startswith("dataset.path="):
            raise ConfigError(
                f"kbench data takes names; `kbench plan method=svc {word}` checks a file"
            )
        if word.startswith("dataset="):
            raise ConfigError(
                f"kbench data takes bare names: write {word.removeprefix('dataset=')}"
            )
    words, values = parse_words(argv, KEYS)
    if not words:
        raise ConfigError("kbench data takes where, check or prepare, and names of data sets")
    action = one_of("the action", words[0], ["where", "check", "prepare"])
    if action == "prepare" and not words[1:]:
        raise ConfigError(
            "kbench data prepare takes names of data sets, which `kbench list datasets` shows, or "
            "all, which downloads several GB"
        )
    requested = [name for word in words[1:] for name in word.split(",") if name] or ["all"]
    for name in requested:
        if name != "all" and not name.startswith("openml:"):
            require_option("dataset", name)
    all_names = [name for name in options("dataset") if name != "file"]
    allows_file_urls = parse_boolean("allow_file_urls", values.get("allow_file_urls", "false"))
    datasets_dir = values.get("datasets_dir", "datasets")
    folders = Folders.from_environment(datasets_dir, file_urls=allows_file_urls)
    names = all_names if "all" in requested else requested
    if action == "where":
        return _print_files(names, folders)
    limit = [f"{key}={value}" for key, value in values.items() if key == "limits.memory_mb"]
    from kbench.run.execution.preparing import prepare_in_child
    from kbench.run.execution.sandbox import Sandbox

    is_ok, sandbox = True, Sandbox()
    with composer() as hydra:
        for name in names:
            composed = hydra.compose(_dataset_words(name) + limit)
            memory_mb, download = settings(composed).limits.memory_mb, action == "prepare"
            config = composed["dataset"]
            for form in _forms(config, folders) if action == "check" else [config]:
                try:
                    folder = prepare_in_child(
                        with_variant(form), folders, memory_mb, sandbox, download=download
                    )
                    _show_prepared(form, folder)
                except DataNotFoundError as error:
                    print(f"absent: {error}", file=sys.stderr if download else sys.stdout)
                    is_ok &= "all" in requested and not download
                except DataError as error:
                    print(f"{form['name']}: {error}", file=sys.stderr)
                    is_ok = False
    return 0 if is_ok else 1


def _dataset_words(name: str) -> list[str]:
    """The words of a command for a data set, or for a number on OpenML."""
    if name.startswith("openml:"):
        return ["dataset=file", f"dataset.path={name}"]
    return [f"dataset={name}"]


def _forms(config: dict[str, Any], folders: Any) -> Iterator[dict[str, Any]]:
    """The config of the data set, and of its variants whose separate files are present."""
    from kbench.data import status

    yield config
    for name, variant in config["variants"].items():
        form = config | {"variant": name}
        if "source" in (variant or {}) and status(form, folders).present:
            yield form


def _print_files(names: list[str], folders: Any) -> int:
    files = options("dataset")
    for name in names:
        print(name)
        with describing(files.get(name, Path(name))):
            _show_files(
                read_yaml(files[name]) if name in files else _OPENML | {"path": name}, folders
            )
    return 0


def _show_files(config: dict[str, Any], folders: Any) -> None:
    from kbench.data import by_files, locate

    for variants, form in by_files(config):
        indent = "  "
        if variants:
            print(f"  variant {variants}")
            indent = "    "
        for file in locate(form, folders):
            print(f"{indent}{file.name}: {file.path or 'absent'}")
            if file.path is None:
                for candidate in file.candidates:
                    print(f"{indent}  looked for {candidate}")
                print(f"{indent}  comes from {file.url or 'no public address'}")


def _show_prepared(config: dict[str, Any], folder: Path) -> None:
    from kbench.data import open_prepared

    data = open_prepared(folder)
    kind = "dense" if hasattr(data.X_train, "flags") else "CSR"
    name = config["name"] + (f" ({config['variant']})" if config["variant"] else "")
    print(
        f"{name}: ok, {data.X_train.shape[0]} + {data.X_test.shape[0]} rows, "
        f"{data.X_train.shape[1]} features, {kind} {data.X_train.dtype}, {data.sha256[:12]}"
    )
    for note in data.notes:
        print(f"  {note}")
