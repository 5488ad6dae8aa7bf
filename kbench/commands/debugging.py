"""kbench debug KEY [results_dir=DIR] [pdb=true]: repeat the run of a row in this process.

KEY is the key of a row or its first letters. The command prints the traceback of a failure, or the
columns of the new row, and writes nothing. pdb=true opens the debugger at the failure.

The method, the data set, the seed and the parameters come from the row's columns. From the row's
command only keys of the data set and limits are taken, so that a row from an untrusted source
cannot choose which code runs.
"""

import json
import re
import shlex
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from kbench.commands.arguments import parse_boolean, parse_overrides, parse_words, results_folder
from kbench.config import composer, interpolates
from kbench.errors import ConfigError
from kbench.mistyped import key_of
from kbench.settings import Limits

KEYS = ("results_dir", "pdb")
# Keys of a data set that a row's command may not set: addresses of downloads and generators, and
# facts that the row's columns state. `_DESCRIPTION` has keys that only describe the data.
_REFUSED = ("source.files", "source.kind", "source.bundled", "source.generator", "facts", "assumed")
_DESCRIPTION = ("name", "about", "homepage", "licence")


def main(argv: Sequence[str]) -> int:
    """Repeat the run; exit code 0 if it ends well, 1 if it raises an exception."""
    from kbench.run.execution.preparing import obtain_in
    from kbench.run.execution.sandbox import Sandbox
    from kbench.run.execution.worker import Live, SharedState, set_threads
    from kbench.run.execution.worker import run as do_run
    from kbench.run.planning.plan import make_plan

    bare_words, values = parse_words(argv, KEYS)
    if len(bare_words) != 1:
        raise ConfigError("kbench debug takes one KEY, as in `kbench debug 3f9a01c2`")
    opens_debugger = parse_boolean("pdb", values.get("pdb", "false"))
    row = results_folder(values).row(bare_words[0])
    words, ignored = overrides_of(row)
    with composer() as hydra:
        plan = make_plan(hydra, words, obtain=obtain_in(Sandbox()))
    if not plan.runs:
        raise ConfigError("; ".join([*plan.absent.values(), *plan.dropped]) or "no run")
    run = plan.runs[0]
    print(f"{run.command}\n  was {row['status']}: {_printable(row['message'] or 'no message')}")
    for word in ignored:
        print(f"  ignored in the row's command: {_printable(word)}")
    if run.key != row["key"]:
        print("  the configs or the data have changed since then, so this run may differ")
    set_threads(run.threads, None)
    try:
        measured, _ = do_run(plan.task(run), Live(lambda message: None), SharedState())
    except Exception:
        traceback.print_exc()
        if opens_debugger:
            import pdb

            pdb.post_mortem()
        return 1
    for name, value in measured.items():
        if value is not None:
            print(f"  {name:18} {value}")
    return 0


def overrides_of(row: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Hydra overrides that compose the run of a row, and words of its command that are ignored.

    Raises ConfigError: the row's parameters are not a mapping of names to plain values, or name a
    key of kbench.
    """
    from kbench.config import hydra_value
    from kbench.data.configs.keys import KEYS as DATASET_KEYS
    from kbench.run.planning.tuned_files import NO_TUNED_FILE

    data_keys = [k for k in DATASET_KEYS if not k.startswith(_REFUSED) and k not in _DESCRIPTION]
    data_keys.append("holdout")  # a search writes this whole group in one word
    try:
        command_words, _, _ = parse_overrides(shlex.split(row["command"] or "")[1:])
    except (ValueError, ConfigError):
        command_words = []
    # The data set of a user's file is named after the file, perhaps like a data set of kbench.
    dataset = "file" if "dataset=file" in command_words else row["dataset"]
    # Tuned files are excluded, because a file newer than the row would add parameters.
    words = [f"method={row['method']}", f"dataset={dataset}", NO_TUNED_FILE, f"seed={row['seed']}"]
    for name, value in _parameters(row).items():
        words.append(f"++method.{name}={hydra_value(value)}")
    ignored = []
    for word in command_words:
        key = key_of(word)
        group, _, subkey = key.partition(".")
        if group in ("method", "dataset", "seed", "tuned") and (not subkey or group == "method"):
            continue
        allowed_keys = {"dataset": data_keys, "limits": [f.name for f in fields(Limits)]}
        is_allowed = any(f"{subkey}.".startswith(f"{key}.") for key in allowed_keys.get(group, ()))
        if is_allowed and not interpolates(word):
            words.append(word)
        else:
            ignored.append(word)
    return words, ignored


def _parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    from kbench.run.planning.registry import RESERVED

    try:
        params = json.loads(row["params"] or "{}")
    except ValueError:
        params = None
    if not isinstance(params, dict):
        raise ConfigError(f"row {row['key'][:8]}: params is not a JSON object")
    for name, value in params.items():
        if name in RESERVED or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ConfigError(f"row {row['key'][:8]}: {name!r} is not a parameter of a method")
        if "${" in json.dumps(value):
            raise ConfigError(
                f"row {row['key'][:8]}: {name} holds an interpolation, which is not allowed"
            )
    return params


def _printable(text: str) -> str:
    """`text` with control characters, which a terminal would interpret, replaced by ?."""
    return "".join(c if c.isprintable() or c in " \n" else "?" for c in text)
