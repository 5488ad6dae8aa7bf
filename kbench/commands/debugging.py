"""kbench debug KEY [results_dir=DIR] [pdb=true]: do the run behind a row again, in this process.

KEY is the key of a row or its first letters. Prints the traceback of what goes wrong, or the row
that comes out; nothing is written. pdb=true opens the debugger at the failure.
"""

import shlex
import traceback
from collections.abc import Sequence

from kbench.commands.arguments import flags, one_of, read
from kbench.config import composer
from kbench.errors import ConfigError


def main(argv: Sequence[str]) -> int:
    """Exit code 0 when the run ends well, 1 when it raises."""
    from kbench.run.plan import make_plan
    from kbench.run.results import ResultsFolder
    from kbench.run.tuned import NONE
    from kbench.run.worker import run as do_run
    from kbench.run.worker import set_threads

    bare, values = read(argv, ["results_dir", "pdb"])
    if len(bare) != 1:
        raise ConfigError("kbench debug takes one KEY, as in `kbench debug 3f9a01c2`")
    debugger = one_of("pdb", values.get("pdb", "false"), ["true", "false"]) == "true"
    row = ResultsFolder(values.get("results_dir", "results")).row(bare[0])
    overrides, _, _ = flags(shlex.split(row["command"])[1:])
    with composer() as hydra:
        # The command holds every parameter; a tuned file written since must not add to them.
        plan = make_plan(hydra, [*(word for word in overrides if word != NONE), NONE], obtain=True)
    run = plan.runs[0]
    print(f"{row['command']}\n  was {row['status']}: {row['message'] or 'no message'}")
    if run.key != row["key"]:
        print("  the configs or the data have changed since: this is not quite the same run")
    set_threads(run.threads, None)
    try:
        measured, _ = do_run(plan.task(run), lambda: None, {})
    except Exception:
        traceback.print_exc()
        if debugger:
            import pdb

            pdb.post_mortem()
        return 1
    for name, value in measured.items():
        if value is not None:
            print(f"  {name:18} {value}")
    return 0
