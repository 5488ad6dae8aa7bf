"""kbench plan key=value ...: show what the same command without `plan` would run.

The plan has the number of runs of every method and data set, and the number of those that have a
row already (in this environment and with this number of threads), the tuned files that apply,
dropped runs with the reason, absent data, and an estimate of the time from rows of similar runs.
Parameters are checked as before a run, those of scikit-learn's estimators also by fits to a few
rows. Your own file is read and prepared, so that its faults are reported. Nothing is downloaded and
nothing runs.
`kbench plan ... show=runs` prints one command for each run.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kbench.commands.arguments import one_of, parse_overrides, parse_words
from kbench.commands.running import more_runs_text
from kbench.config import composer
from kbench.errors import ConfigError, counted

KEYS = ("show",)
TAKES_RUN = True


def main(argv: Sequence[str]) -> int:
    """Print the plan; exit code 0."""
    from kbench.run.execution.preload import worker_sandbox

    overrides, multirun, config = parse_overrides(argv)
    if config is not None:
        raise ConfigError("kbench plan has no --cfg; `kbench method=... --cfg job` shows a config")
    show_words = [word for word in overrides if word.startswith("show=")]
    overrides = [word for word in overrides if word not in show_words]
    show = parse_words(show_words, KEYS)[1].get("show", "summary")
    one_of("show", show, ["summary", "runs"])
    sandbox = worker_sandbox(overrides)

    from kbench.data import Folders, status
    from kbench.run.execution.preparing import obtain_in
    from kbench.run.execution.rehearsal import check_methods, refused_runs, rehearsed
    from kbench.run.execution.runner import environment_of, finished_here, todo_and_done
    from kbench.run.planning.durations import COLUMNS, duration_lines
    from kbench.run.planning.plan import make_plan
    from kbench.run.results.folder import ResultsFolder
    from kbench.run.results.user_functions import Callbacks

    with composer() as hydra:
        plan = make_plan(hydra, overrides, multirun=multirun)
    Callbacks(plan.settings.callbacks)  # raises if a name cannot be imported
    finished = finished_here(plan)
    todo, done = todo_and_done(plan, finished)
    if todo or plan.absent:
        plan.drop_repeats(check_methods(sandbox, plan))
        todo, done = todo_and_done(plan, finished)
    obtain = obtain_in(sandbox)
    folders = Folders.from_environment(plan.settings.datasets_dir)
    for name, dataset_config in {run.data_key: run.dataset_config for run in todo}.items():
        # The data sets of sklearn are small and need no files.
        if dataset_config["source"]["kind"] in ("file", "sklearn"):
            plan.prepared[name] = obtain(dataset_config, replace(plan.settings, download=False))
        elif (folder := status(dataset_config, folders).prepared) is not None:
            plan.prepared[name] = folder
    if lines := refused_runs(sandbox, plan, todo) or rehearsed(sandbox, plan, todo):
        raise ConfigError(f"{lines[0]}{more_runs_text(lines)}")
    if show == "runs":
        for run in todo:
            print(run.command)
    else:
        n_todo = Counter((run.dataset, run.method) for run in todo)
        n_done = Counter((run.dataset, run.method) for run, _ in done)
        pairs = sorted({*n_todo, *n_done})
        width = max((len(f"{method} on {dataset}") for dataset, method in pairs), default=0)
        for dataset, method in pairs:
            counts = f"{n_todo[dataset, method]:6} to run {n_done[dataset, method]:6} done"
            print(f"{f'{method} on {dataset}':{width}} {counts}")
    for line in [*plan.hidden_lines, *(f"tuned: {line}" for line in plan.tuned_lines)]:
        print(line)
    for reason in plan.dropped:
        print(f"dropped: {reason}")
    for message in plan.absent.values():
        print(f"absent data: {message}")
    if show == "summary":
        by_status = Counter(str(row["status"]) for _, row in done)
        states = "".join(f", {n} {status}" for status, n in sorted(by_status.items()))
        print(f"{counted(len(plan.runs), 'run')}: {len(todo)} to run, {len(done)} done{states}")
        if todo:
            rows = ResultsFolder(plan.settings.results_dir).measured(COLUMNS)
            at_once = plan.settings.parallel.at_once
            for line in duration_lines(todo, rows, environment_of(plan), at_once):
                print(line)
    return 0
