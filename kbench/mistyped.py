"""Answers to mistyped words of a command: the nearest name, or what to write instead."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from kbench.errors import ConfigError, one_line
from kbench.settings import Settings
from kbench.synonyms import METHOD_SYNONYMS, synonym

# Folders of configs/ from which a command selects files, and the keys of a command and its configs.
GROUPS = ("method", "dataset", "experiment", "grid", "limits", "parallel")
KEYS = frozenset({*GROUPS, *(f.name for f in fields(Settings)), "plan", "tuned", "use"})

# Similarity to a misspelt word (difflib's ratio, from 0 to 1) above which a name is offered, and
# the largest difference to the similarity of the best name. With a lower ratio or a larger
# difference more misspellings are recognised, and more names are offered that were not meant. Set
# by hand.
_MIN_RATIO, _MAX_GAP = 0.6, 0.2
# Number of characters from which a word is compared with parts of names, too: shorter words are in
# many names that were not meant. Set by hand.
_MIN_CONTAINED = 3
# Number of names that are offered, and number of names in a group up to which a message lists them
# all. With more names the right one is offered more often, but messages are longer. Set by hand.
_MAX_OFFERED, _MAX_LISTED = 3, 8


def nearest(word: str, known: Iterable[str]) -> str:
    """' (nearest: a, b)' for a message; '' if no known word is similar."""
    # Dotted keys are compared by their last words, because most keys share their first words.
    dotted = word.count(".") > 0
    last_word = word.casefold().rpartition(".")[2]
    matcher = difflib.SequenceMatcher(b=last_word)
    ratios: dict[str, float] = {}
    for name in sorted(set(known)):
        matcher.set_seq1((name.rpartition(".")[2] if dotted else name).casefold())
        contained = len(last_word) >= _MIN_CONTAINED and last_word in name.casefold()
        if (matcher.quick_ratio() > _MIN_RATIO and matcher.ratio() > _MIN_RATIO) or contained:
            ratios[name] = matcher.ratio()
    min_ratio = max(ratios.values(), default=0.0) - _MAX_GAP
    full_ratios = {n: difflib.SequenceMatcher(None, n, word).ratio() for n in ratios}
    offered = [name for name in ratios if ratios[name] >= min_ratio]
    offered.sort(key=lambda name: (-ratios[name], -full_ratios[name]))
    return f" (nearest: {', '.join(offered[:_MAX_OFFERED])})" if offered else ""


def hint_for_unknown(group: str, name: str, known: Iterable[str]) -> str:
    """What to write after "no GROUP is called NAME" in an error message.

    group : folder of configs/
    known : all names of the group
    """
    known = list(known)
    names = f", there are {', '.join(sorted(known)) or 'none'}"
    if len(known) > _MAX_LISTED:
        lists = f"`kbench list {group}s` names" if group in GROUPS else f"configs/{group} holds"
        names = f"; {lists} them"
    hint = nearest(name, known) or names
    if name == "null":
        hint = f": write {group}=NAME{names}"
    elif alternatives := [
        other for other in METHOD_SYNONYMS.get(name.casefold(), ()) if other in known
    ]:
        hint = f" (nearest: {', '.join(alternatives)})"
    elif name.startswith("[") or name in ("all", "*"):
        values = name.strip("[]") if name.startswith("[") else "glob(*)"
        hint = f": several are written -m '{group}={values}'"
    elif name.startswith("{"):
        hint = f": write one key at a time, as in {group}.{name.strip('{}').replace(':', '=', 1)}"
    if group == "dataset" and re.fullmatch(r"[\w-]+", name):
        files = sorted(path.name for path in Path().glob(f"{name}.*"))
        hint = f": write dataset.path={files[0]}" if files else hint
    if (Path("configs", group, f"{name}.yml")).is_file():
        hint = f": configs/{group}/{name}.yml is there, its name should end in .yaml"
    if group == "parallel" and name.isdigit():
        hint = f": parallel.jobs={name} sets how many runs are made at a time"
    return hint


# Keys of Hydra that kbench replaces -> what to write instead.
_HYDRA_KEYS = {
    "hydra/sweeper": "-m with values, grid=NAME, or, for Optuna's search, `kbench tune method=M "
    "dataset=D 'method.C=interval(1e-3,1e3)' tune.runs=40`",
    "hydra/launcher": "parallel=loky|dask|ray|slurm",
    "hydra.run.dir": "results_dir=FOLDER",
    "hydra.sweep.dir": "results_dir=FOLDER",
}


def with_hyphens(word: str) -> str:
    """`word` with hyphens for typographic dashes, as web pages have; '' without such a dash."""
    if not word.startswith(("–", "—", "−")):
        return ""
    return "-" * (1 + (word[0] == "—")) + word.lstrip("–—−")


def key_of(word: str) -> str:
    """The key of a word of the command line: `method.C` of `+method.C=1`."""
    return word.partition("=")[0].lstrip("+~")


def check_word(text: str, before: str, after: str) -> None:
    """Refuse a word of a command that Hydra would misread, or would answer with Hydra's help.

    text : the word.
    before, after : the words beside it, or "".
    """
    if text.endswith(",") and (not after or "=" in after):
        hint = "; the character is called comma" * text.endswith((".delimiter=,", ".decimal=,"))
        raise ConfigError(f"{text}: a value is missing after the last comma{hint}")
    key, equals, value = text.partition("=")
    name = key.lstrip("+~")
    if not equals and not text.startswith("~"):
        if (continues_previous := before.endswith((",", "="))) or after.startswith("="):
            first, second = (before, text) if continues_previous else (text, after)
            raise ConfigError(f"{first} {second}: write it without spaces, as in {first}{second}")
        hint = "; `kbench help` shows both"
        if hyphens := with_hyphens(text):
            hint = f": write {hyphens}"
        elif _is_key(text):
            hint = f": write {text}={'VALUE' if '=' in after else after or 'VALUE'}"
        elif (typed := re.fullmatch(r"([\w.]+):(.+)", text)) and _is_key(typed[1]):
            hint = f": write {typed[1]}={typed[2]}"
        raise ConfigError(f"{text!r} is neither a command nor key=value{hint}")
    if equals and not name:
        raise ConfigError(f"{text}: a key is missing before =, as in method{text}")
    if "@" in name:
        raise ConfigError(
            f"{text}: kbench does not take Hydra's packages (@); write "
            f"{name.partition('@')[0]}={value}"
        )
    if re.match(r"hydra[./]", name):
        hint = f"write {_HYDRA_KEYS[name]}" if name in _HYDRA_KEYS else "leave it out"
        raise ConfigError(f"{text}: kbench sets Hydra's own keys itself; {hint}")
    if not re.search(r"[./@]", name) and name not in KEYS:
        hint = synonym(name) or nearest(name, KEYS - {"use"})
        if not hint:
            keys = ", ".join(sorted(KEYS))
            hint = f"; a method's parameter is method.{name}=..., and a command has the keys {keys}"
        raise ConfigError(f"no key is called {name!r}{hint}")
    head = re.split(r"[./@]", name)[0]
    if text.startswith("+") and head not in KEYS:
        raise ConfigError(f"no key is called {name!r}{nearest(head, KEYS)}")
    if text.startswith("~") and head not in ("method", "tuned", "experiment"):
        raise ConfigError(f"{text}: this key cannot be removed; write {name}=VALUE")
    if text == "tuned=null":
        raise ConfigError("tuned=null: write tuned=none, which uses no tuned file")
    if re.match(r"~(/|$)", value):
        raise ConfigError(
            f"{text}: the shell expands ~ only where a word begins; write {key}=$HOME{value[1:]}"
        )


def _is_key(name: str) -> bool:
    return name.partition(".")[0] in KEYS


def _syntax_hint(key: str, value: str) -> str:
    """The hint for a value that Hydra cannot parse; '' if quotes make it right."""
    straight = value.translate(dict.fromkeys(map(ord, "“”„‘’‚«»"), "'"))
    if straight != value:
        return f"quotes should be ' or \", as in {key}={straight}"
    if value.startswith("="):
        return f"write {key}{value}"
    if ",," in value or value.startswith(","):
        return "a value is missing at a comma"
    if re.search(r"[\s;]+[\w.]+=", value):
        return "words are separated by blanks outside quotes"
    if re.fullmatch(r"\{[^{}]*\}", value):
        return (
            f"several values are written -m {key}={value.strip('{}')}; a mapping is '{{name: 1}}'"
        )
    return ""


def syntax_error(typed: str, reason: str, *, intervals: bool) -> ConfigError:
    """Return the error for a word that Hydra cannot parse.

    typed : the word
    reason : the text of Hydra's error
    intervals : whether the command is `kbench tune`, which takes key=interval(LOW,HIGH)
    """
    text = one_line(typed)
    key, _, value = text.partition("=")
    is_plain = re.fullmatch(r"[\w./@+~]+", key) is not None
    if key != key.strip():
        return ConfigError(f"{text}: write {key.strip()}={value.strip()} without blanks")
    if is_plain and not re.fullmatch(r"[+~]*\w+([./]\w+)*", key):
        return ConfigError(
            f"{text}: a key consists of words with dots between them, as in method.C"
        )
    if is_plain and re.match(r"(tag\(.*)?interval\(", value):
        return ConfigError(
            f"{text}: should be {key}=interval(LOW,HIGH) of two numbers, or "
            f"{key}=tag(log,interval(LOW,HIGH))"
        )
    if unknown := re.search(r"Unknown function '(\w+)'", reason):
        tune = f"'{key}=interval(0.1,10)' for kbench tune, or "
        return ConfigError(
            f"{text}: Hydra has no function {unknown[1]}: write {tune * intervals}the values, as "
            f"in -m {key}=0.1,1,10"
        )
    if value and re.fullmatch(r"[-+\d.e^*/()]+", value):
        return ConfigError(f"{text}: write the number out, as in {key}=1000")
    reason = one_line(reason.split("\n")[0])
    if "NoViableAlt" in reason or "no viable alternative" in reason:
        reason = "a character that Hydra does not read outside quotes"
    if hint := _syntax_hint(key, value):
        return ConfigError(f"{text}: {hint}")
    has_example = is_plain and text == typed and not set(value) & set("'\"\\$`!")
    example = f""", as in "{key}='{value}'\"""" * has_example
    return ConfigError(f"{text}: {reason}; quote a value with special characters{example}")
