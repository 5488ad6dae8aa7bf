"""Parsing of the arguments of commands: key=value words, bare words and flags."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.config import unquoted
from kbench.errors import ConfigError
from kbench.mistyped import KEYS, nearest
from kbench.synonyms import synonym

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
    ("--shell-completion", "-sc"): "write `kbench completion bash|zsh|fish`",
    ("--hydra-help",): "write `kbench --help`",
}


def parse_words(
    argv: Sequence[str],
    keys: Iterable[str],
    listed: Iterable[str] | None = None,
    *,
    flags: Sequence[str] = (),
) -> tuple[list[str], dict[str, str]]:
    """Divide arguments into bare words, `flags` among them, and the values of key=value words.

    `listed` : the keys that error messages list, by default all of `keys`.

    Raises ConfigError: a key is not among `keys`, is given twice or without a value, or a word is
    another flag.
    """
    allowed = list(keys)
    bare_words: list[str] = []
    values: dict[str, str] = {}
    for word, next_word in zip_longest(argv, argv[1:], fillvalue=""):
        key, equals, value = word.partition("=")
        if word in flags or (not equals and not word.startswith("-")):
            bare_words.append(word)
        elif not equals or key not in allowed:
            offered = [*flags, *(f"{name}=..." for name in (allowed if listed is None else listed))]
            raise ConfigError(_unknown_word_message(word, next_word, [*allowed, *flags], offered))
        elif key in values:
            raise ConfigError(f"{key} is given twice, by {key}={values[key]} and {word}")
        elif not value:
            raise ConfigError(f"{word} has no value; leave it out, or write {key}=VALUE")
        else:
            values[key] = unquoted(value)
    return bare_words, values


def _unknown_word_message(
    word: str, next_word: str, allowed: Sequence[str], offered: Sequence[str]
) -> str:
    """The error message for a flag, or for KEY=VALUE whose key is not in `allowed`.

    next_word : the next word, which may be the value of a flag
    offered : flags and keys that the message lists
    """
    key, _, value = word.partition("=")
    name = key.lstrip("-+~")
    if key != name and name in allowed:
        return f"this command takes no {key}: write {name}={value or next_word or 'VALUE'}"
    hint = synonym(key, allowed) or nearest(name, allowed)
    if not hint and offered:
        hint = f"; it takes {', '.join(offered)}"
    return f"no key of this command is called {key!r}{hint}"


def results_folder(values: Mapping[str, str]) -> "ResultsFolder":
    """The folder `results_dir` of a command that reads rows.

    Raises ConfigError: the command names a folder that does not exist.
    """
    from kbench.run.results.folder import ResultsFolder

    path = Path(values.get("results_dir", "results"))
    if "results_dir" in values and not path.is_dir():
        siblings = [str(path.parent / p.name) for p in path.parent.glob("*") if p.is_dir()]
        hint = nearest(str(path), siblings)
        if "," in str(path):
            hint = "; a report reads one folder: `kbench merge A/ B/` copies rows into results/"
        raise ConfigError(f"results_dir={path}: there is no such folder{hint}")
    return ResultsFolder(path)


def parse_names(value: str | None) -> list[str] | None:
    """The names in a comma-separated value: 'a,b' -> ['a', 'b']; None -> None."""
    names = [] if value is None else [name.strip() for name in value.split(",")]
    return [name for name in names if name] or None


def parse_integer(key: str, value: str, minimum: int = 1) -> int:
    """Return the integer in `value`; raise a ConfigError if it is below `minimum` or no integer."""
    if not value.isdecimal() or int(value) < minimum:
        raise ConfigError(f"{key} is {value!r}, should be a whole number from {minimum}")
    return int(value)


def one_of(key: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value`; raise a ConfigError that lists the `allowed` values if it is not allowed."""
    allowed = list(allowed)
    if value not in allowed:
        raise ConfigError(
            f"{key} is {value!r}{nearest(value, allowed)}, should be one of {', '.join(allowed)}"
        )
    return value


def parse_boolean(key: str, value: str) -> bool:
    """Whether `value` is "true"; raise a ConfigError if it is neither "true" nor "false"."""
    return one_of(key, value, ["true", "false"]) == "true"


def parse_overrides(argv: Sequence[str]) -> tuple[list[str], bool, str | None]:
    """Return Hydra's overrides, whether -m is among the words, and the argument of --cfg or None.

    Raises ConfigError: a flag is unknown.
    """
    overrides: list[str] = []
    multirun = False
    config_part: str | None = None
    words = iter(argv)
    for word in words:
        if word in ("-m", "--multirun"):
            multirun = True
        elif word in ("-c", "--cfg"):
            config_part = one_of(word, next(words, ""), ["job"])
        elif word.startswith("-"):
            for spellings, advice in _HYDRA_FLAGS.items():
                if word.partition("=")[0] in spellings:
                    raise ConfigError(f"kbench takes no {word}: {advice}")
            key, _, value = word.lstrip("-").partition("=")
            hint = nearest(word, ["--multirun", "--cfg", "--help", "--version"])
            if key.partition(".")[0] in KEYS:
                hint = f": write {key}={value or next(words, 'VALUE')}"
            raise ConfigError(
                f"no flag is called {word!r}{hint}; flags are -m, --cfg job, --help and --version"
            )
        else:
            overrides.append(word)
    return overrides, multirun, config_part
