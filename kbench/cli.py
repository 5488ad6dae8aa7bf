"""`kbench`: a bare first word is a command; other words are a run that Hydra composes.

This module does not import heavy packages, so that help is printed at once.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from kbench import __version__, signals, streams
from kbench.commands import COMMANDS
from kbench.errors import NO_CACHE, ConfigError, KbenchError, one_line, with_type

HELP = f"""kbench {__version__}: experiments with large-scale kernel machines

  kbench method=svc dataset=digits            one run, one row in results/
  kbench -m method=svc,knn seed=0,1,2         every combination of the values
  kbench method=svc grid=c_gamma              a grid over the method's parameters
  kbench experiment=demo                      a set of runs with a name
  kbench method=svc method.C=10 limits.wall_s=60 results_dir=elsewhere
  kbench method=svc dataset=file dataset.path=my.libsvm dataset.task=binary

  -m, --multirun    sweep over values that are separated by commas
  --cfg job         show the composed configuration and run nothing
  rerun=none|failed|changed|all    which runs that have a row are repeated (default none)
  on_error=stop     no run starts after a run has failed
  metrics=[NAME]    further scores, as log_loss; docs/results.md has the names
  callbacks=[MODULE:FUNCTION]    functions of your own that get every finished row
  tag=NAME          a label of the rows; `kbench report tag=NAME` shows only these rows

Commands:
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 all ok, 1 a run or a check failed, 2 the command failed.

    A signal that ends the command gives 128 plus its number; if nobody reads the output to its
    end, the signal is SIGPIPE.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv is None:
            streams.open_standard_streams()
            streams.require_open_files()
            streams.warn_of_cpu_limit()
            streams.warn_of_memory_limit()
            streams.warn_of_disabled_numba()
            signals.stop_on_signals()
        if sys.platform == "win32":
            raise ConfigError(
                "kbench does not run on Windows itself, but in its Linux subsystem (WSL)"
            )
        with signals.no_stop_lost():
            code = _dispatch(words)
        sys.stdout.flush()
        return code
    except KbenchError as error:
        print(f"kbench: {_printable(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return signals.reader_gone()
    except OSError as error:
        streams.drop_unwritable_output()
        print(f"kbench: {_printable(streams.describe(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        return signals.exit_code(stop)
    except Exception as error:
        if isinstance(error, RuntimeError) and "cannot cache function" in str(error):
            message = NO_CACHE
        elif isinstance(error, MemoryError) or streams.may_lack_memory(error):
            message = f"out of memory: {_printable(with_type(error))}"
        else:
            raise
        print(f"kbench: {message}", file=sys.stderr)
        return 2


def _printable(text: str) -> str:
    """A message of one line without terminal escapes, which names of files may hold."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in one_line(text))


# Commands of other tools -> the command of kbench that does the same.
_COMMANDS_ELSEWHERE = {
    **dict.fromkeys(("show", "ls", "describe", "info", "methods", "datasets"), "list"),
    **dict.fromkeys(("results", "table", "summary", "plots"), "report"),
    "version": "--version",
}


def _hint_for(word: str, others: Sequence[str]) -> str:
    """A hint on a first word that is not a command."""
    from kbench.commands.reporting import WORDS
    from kbench.config import option_named
    from kbench.mistyped import KEYS, nearest, with_hyphens

    if not word:
        return "; is a variable of the shell empty? `kbench --help` names the commands"
    if others[:1] and others[0].startswith("="):
        value = others[0].removeprefix("=") or "".join(others[1:2])
        return f": write {word}={value} without blanks"
    if word in WORDS:
        return f": write kbench report {word}"
    if suggestion := option_named(word):
        return f": write {suggestion}"
    if hyphens := with_hyphens(word):
        return f": write {hyphens}"
    if word in KEYS:
        return f": write {word}=VALUE"
    if ":" in word and (key := word.partition(":")[0]) in KEYS:
        return f": write {key}={word.partition(':')[2]}"
    if word in _COMMANDS_ELSEWHERE:
        config = f", `kbench {' '.join(others)} --cfg job`" if any("=" in w for w in others) else ""
        return f": `kbench {_COMMANDS_ELSEWHERE[word]}`{config}"
    if any(other.startswith(("method=", "experiment=")) for other in others):
        return ": leave it out, `kbench method=... dataset=...` does the runs"
    return f"{nearest(word, COMMANDS)}; `kbench --help` names the commands"


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"kbench {__version__}")
        return 0
    if words[:1] in (["-m"], ["--multirun"]) and words[1:] and words[1] in COMMANDS:
        words[:2] = words[1::-1]  # `kbench -m plan ...` means `kbench plan -m ...`
    if len(words) == 2 and "help" in words and {*words} & {*COMMANDS}:
        words = [*({*words} & {*COMMANDS}), "--help"]
    word = words[0] if words else "help"
    asks_help = any(flag in words for flag in ("-h", "--help"))
    if word == "help" or (asks_help and word not in COMMANDS):
        print(HELP, end="")
        for name, (about, _) in COMMANDS.items():
            print(f"  {name:10} {about}")
        return 0
    os.getcwd()  # raises here, before the command begins, if the working directory is gone
    if word in COMMANDS:
        module = import_module(f"kbench.commands.{COMMANDS[word][1]}")
        if asks_help:
            print((module.__doc__ or "").strip())
            return 0
        return module.main(words[1:])
    if "=" not in word and not word.startswith(("-", "~")):
        raise ConfigError(f"{word!r} is not a command{_hint_for(word, words[1:])}")
    from kbench.commands import running

    return running.main(words)
