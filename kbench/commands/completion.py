"""kbench completion bash|zsh|fish: prints the script with which a shell completes kbench's words.

    bash: source <(kbench completion bash)          in ~/.bashrc
    zsh:  source <(kbench completion zsh)           in ~/.zshrc, after compinit
    fish: kbench completion fish | source           in ~/.config/fish/config.fish

It completes commands, methods, data sets, experiments, grids, the parameters of the method on the
command line, and all other keys. The shell asks `kbench completion words WORD ...` for the
candidates of the last word.
"""

from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module

from kbench.commands import COMMANDS
from kbench.commands.arguments import one_of
from kbench.config import flatten, options, read_yaml, shipped_root
from kbench.errors import ConfigError
from kbench.mistyped import GROUPS
from kbench.settings import Settings

# COMP_LINE is divided here, because bash breaks words at "=" and replaces only the part after it.
_BASH = """\
_kbench() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$' \\t\\n'
    local -a words=($line)
    [[ $line == *[[:space:]] ]] && words+=("")
    local last="${words[${#words[@]}-1]}"
    local cut="${last%"${last##*=}"}"
    local IFS=$'\\n'
    COMPREPLY=($("${words[0]}" completion words "${words[@]:1}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$cut"}")
}
complete -o nospace -o default -F _kbench kbench
"""

_ZSH = """\
_kbench() {
    local -a found
    found=("${(@f)$(${words[1]} completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -Q -S '' -- ${(@)found:#}
}
compdef _kbench kbench
"""

_FISH = """\
complete -c kbench -f -a \
'(set -l words (commandline -opc) (commandline -ct); kbench completion words $words[2..-1])'
"""

SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
WORDS = (*SHELLS,)


def main(argv: Sequence[str]) -> int:
    """Print a script, or one candidate per line; exit code 0."""
    if argv and argv[0] == "words":
        for candidate in candidates(argv[1:]):
            print(candidate)
        return 0
    if len(argv) != 1:
        raise ConfigError("kbench completion takes a shell: bash, zsh or fish")
    print(SHELLS[one_of("shell", argv[0], SHELLS)], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Completions of the last of `words`, which follow `kbench`; it may be empty."""
    *before, last = words or [""]
    if before and before[0] in COMMANDS and before[0] != "plan":
        words_after = _words_of_command(COMMANDS[before[0]][1], before[1:], last)
    else:
        words_after = _words_of_run(before, last)
        if not before:
            words_after += [*COMMANDS, "--help", "--version"]
    return sorted({word for word in words_after if word.startswith(last)})


def _words_of_command(module: str, before: Sequence[str], last: str) -> list[str]:
    """Bare words, keys and names that a command takes."""
    command = import_module(f"kbench.commands.{module}")
    keys = getattr(command, "KEYS", ())
    if "=" in last:
        key = last.partition("=")[0]
        return _values(key, last) if key in keys and key in GROUPS else []
    names = options("dataset") if module == "datasets" and before else ()
    return [*getattr(command, "WORDS", ()), *(f"{key}=" for key in keys), *names]


def _words_of_run(before: Sequence[str], last: str) -> list[str]:
    """Groups, their options, and the keys of the chosen method and data set."""
    key, equals, _ = last.partition("=")
    if equals:
        return _values(key, last) if key in GROUPS else []
    chosen = dict(word.split("=", 1) for word in before if "=" in word)
    settings = {field.name for field in fields(Settings)} - set(GROUPS)
    words_of_run = [*(f"{name}=" for name in (*GROUPS, *settings)), "-m"]
    for group in GROUPS:
        name = chosen.get(group, "default" if group in ("limits", "parallel") else "")
        if name in options(group) and group not in ("experiment", "grid"):
            config = read_yaml(options(group)[name])
            words_of_run += [f"{group}.{path}=" for path in flatten(_settable(config))]
    if "dataset" in chosen:
        shared = read_yaml(shipped_root() / "config.yaml").get("dataset") or {}
        words_of_run += [f"dataset.{path}=" for path in flatten(shared)]
    return words_of_run


def _settable(config: dict[str, object]) -> dict[str, object]:
    """The keys of a config that a run can set: without Hydra's list and the description."""
    described = ("defaults", "meta", "name", "estimator", "parts")
    return {key: value for key, value in config.items() if key not in described}


def _values(key: str, last: str) -> list[str]:
    """`key=a,b` for every option b, because -m sweeps over lists."""
    head = last[: max(last.rfind(","), last.find("=")) + 1]
    taken = set(head.partition("=")[2].split(","))
    return [head + name for name in options(key) if name not in taken]
