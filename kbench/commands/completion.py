"""kbench completion bash|zsh|fish: print the script with which a shell completes kbench's words.

    bash: source <(kbench completion bash)          in ~/.bashrc
    zsh:  source <(kbench completion zsh)           in ~/.zshrc, after compinit
    fish: kbench completion fish | source           in ~/.config/fish/config.fish

The script completes commands, methods, data sets, experiments, grids, the parameters of the method
on the command line, and all other keys. The shell asks `kbench completion words WORD ...` for the
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

# The function splits COMP_LINE, because bash breaks words at "=" and replaces only the last part.
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
    """Print a script, or one candidate on each line; exit code 0."""
    if argv and argv[0] == "words":
        for candidate in candidates(argv[1:]):
            print(candidate)
        return 0
    if len(argv) != 1:
        raise ConfigError("kbench completion takes a shell: bash, zsh or fish")
    print(SHELLS[one_of("shell", argv[0], SHELLS)], end="")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """Completions of the last word, which may be empty, of the `words` after `kbench`."""
    *previous, last = words or [""]
    if previous and previous[0] in COMMANDS:
        completions = _words_of_command(COMMANDS[previous[0]][1], previous[1:], last)
    else:
        completions = _words_of_run(previous, last)
        if not previous:
            completions += [*COMMANDS, "--help", "--version"]
    return sorted({word for word in completions if word.startswith(last)})


def _words_of_command(module: str, previous: Sequence[str], last: str) -> list[str]:
    """Bare words, keys and names that a command takes."""
    command = import_module(f"kbench.commands.{module}")
    keys = getattr(command, "KEYS", ())
    of_run = _words_of_run(previous, last) if getattr(command, "TAKES_RUN", False) else []
    if "=" in last:
        key = last.partition("=")[0]
        return _completed_options(key, last) if key in keys and key in GROUPS else of_run
    names = options("dataset") if module == "datasets" and previous else ()
    return [*getattr(command, "WORDS", ()), *(f"{key}=" for key in keys), *names, *of_run]


def _words_of_run(previous: Sequence[str], last: str) -> list[str]:
    """Groups, their options, and the keys of the method and data set on the command line."""
    key, equals, _ = last.partition("=")
    if equals:
        return _completed_options(key, last) if key in GROUPS else []
    options_by_group = dict(word.split("=", 1) for word in previous if "=" in word)
    settings = {field.name for field in fields(Settings)} - set(GROUPS)
    completions = [*(f"{name}=" for name in (*GROUPS, *settings)), "-m"]
    for group in GROUPS:
        name = options_by_group.get(group, "default" if group in ("limits", "parallel") else "")
        if name in options(group) and group not in ("experiment", "grid"):
            config = read_yaml(options(group)[name])
            completions += [f"{group}.{path}=" for path in flatten(_settable(config))]
    if "dataset" in options_by_group:
        shared = read_yaml(shipped_root() / "config.yaml").get("dataset") or {}
        completions += [f"dataset.{path}=" for path in flatten(shared)]
    return completions


def _settable(config: dict[str, object]) -> dict[str, object]:
    """The keys of a config that a command can set."""
    fixed_keys = ("defaults", "meta", "name", "estimator", "parts")
    return {key: value for key, value in config.items() if key not in fixed_keys}


def _completed_options(key: str, last: str) -> list[str]:
    """`key=a,b` for every option b, because -m sweeps over lists."""
    typed_part = last[: max(last.rfind(","), last.find("=")) + 1]
    used = set(typed_part.partition("=")[2].split(","))
    return [typed_part + name for name in options(key) if name not in used]
