"""Parsing of the arguments of commands: key=value words, bare words and flags."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.config import nearest, unquoted
from kbench.errors import ConfigError

if TYPE_CHECKING:
    from kbench.run.results.folder import ResultsFolder

# Flags of Hydra's own command line that kbench does not take -> what to write instead.
_HYDRA_FLAGS = {
    ("--info", "-i"): "`kbench doctor` describes the installation, `--cfg job` the configuration",
    ("--resolve",): "leave it out, `--cfg job` shows resolved values",
    ("--package", "-p"): "leave it out, `--cfg job` shows every package",
    ("--config-dir", "-cd", "--config-path", "-cp"): "put the files into ./configs/method, "
    "./configs/dataset, ...; kbench looks there first",
    ("--config-name", "-cn"): "there is one configuration; method=..., dataset=... and "
    "experiment=... choose its parts",
    ("--run", "-r"): "leave it out",
    ("--shell-completion", "-sc"): "`kbench completion bash|zsh|fish`",
    ("--hydra-help",): "`kbench --help`",
}


def read(argv: Sequence[str], keys: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Divide arguments into bare words and the values of key=value words.

    Raises
    ------
    ConfigError
        A key is not among `keys`, or a word is a flag.
    """
    known = list(keys)
    bare: list[str] = []
    values: dict[str, str] = {}
    for word in argv:
        key, equals, value = word.partition("=")
        if not equals and not word.startswith("-"):
            bare.append(word)
        elif key in known and equals:
            values[key] = unquoted(value)
        else:
            all_keys = f"; it takes {', '.join(f'{k}=...' for k in known)}" if known else ""
            raise ConfigError(
                f"no key of this command is called {key!r}{nearest(key, known)}{all_keys}"
            )
    return bare, values


def results_folder(values: Mapping[str, str]) -> "ResultsFolder":
    """The folder `results_dir` of a command that reads rows.

    Raises
    ------
    ConfigError
        The command names a folder that does not exist.
    """
    from kbench.run.results.folder import ResultsFolder

    path = Path(values.get("results_dir", "results"))
    if "results_dir" in values and not path.is_dir():
        siblings = [str(path.parent / p.name) for p in path.parent.glob("*") if p.is_dir()]
        hint = nearest(str(path), siblings)
        if "," in str(path):
            hint = "; a report reads one folder"
        raise ConfigError(f"results_dir={path}: there is no such folder{hint}")
    return ResultsFolder(path)


def names(value: str | None) -> list[str] | None:
    """The names in a comma-separated value: 'a,b' -> ['a', 'b']; None -> None."""
    return None if value is None else [name for name in value.split(",") if name]


def whole(what: str, value: str, minimum: int = 1) -> int:
    """The integer in `value`; a ConfigError if it is not an integer of at least `minimum`."""
    if not value.isdecimal() or int(value) < minimum:
        raise ConfigError(f"{what} is {value!r}, should be a whole number from {minimum}")
    return int(value)


def one_of(what: str, value: str, known: Iterable[str]) -> str:
    """Return `value`; raise a ConfigError that lists the known values if it is not among them."""
    known = list(known)
    if value not in known:
        raise ConfigError(
            f"{what} is {value!r}{nearest(value, known)}, should be one of {', '.join(known)}"
        )
    return value


def truth(what: str, value: str) -> bool:
    """Whether `value` is "true"; raise a ConfigError if it is neither "true" nor "false"."""
    return one_of(what, value, ["true", "false"]) == "true"


def flags(argv: Sequence[str]) -> tuple[list[str], bool, str | None]:
    """Hydra overrides, whether -m is among the words, and the argument of --cfg or None.

    Raises
    ------
    ConfigError
        A flag is unknown.
    """
    overrides: list[str] = []
    multirun = False
    show: str | None = None
    words = iter(argv)
    for word in words:
        if word in ("-m", "--multirun"):
            multirun = True
        elif word in ("-c", "--cfg"):
            show = one_of(word, next(words, ""), ["job"])
        elif word.startswith("-"):
            for spellings, instead in _HYDRA_FLAGS.items():
                if word.partition("=")[0] in spellings:
                    raise ConfigError(f"kbench takes no {word}: {instead}")
            hint = nearest(word, ["--multirun", "--cfg", "--help", "--version"])
            raise ConfigError(
                f"no flag is called {word!r}{hint}; flags are -m, --cfg job, --help and --version"
            )
        else:
            overrides.append(word)
    return overrides, multirun, show
