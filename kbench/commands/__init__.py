"""The subcommands of `kbench`, one module each.

A module reads the words of its command, calls the functions of `kbench.run`, `kbench.report` and
`kbench.data` that do the work, and prints. `kbench.cli` chooses the command. For completion, a
module names its keys (`KEYS`), its bare words and flags (`WORDS`), and says whether it takes the
words of a run, too (`TAKES_RUN`).
"""

# Subcommand -> (description, module of this package with main(argv) -> exit code)
COMMANDS = {
    "list": ("methods, data sets, experiments and grids, with a description", "listing"),
    "plan": ("what a command would run, what is done, what is left out and why", "planning"),
    "tune": ("choose a method's parameters on the training rows", "tuning"),
    "data": ("check, prepare or find the files of data sets", "datasets"),
    "report": ("the results: tables, a web page, LaTeX, methods compared", "reporting"),
    "predict": ("apply a kept model to further rows", "predicting"),
    "merge": ("compact the files of many runs into one; copy rows of other folders", "merging"),
    "publish": ("a site of pages and rows for any web server", "publishing"),
    "import": ("the rows of a site that `kbench publish` wrote", "importing"),
    "debug": ("do one run again in this process, with its traceback", "debugging"),
    "completion": ("the script with which bash, zsh or fish complete kbench's words", "completion"),
    "doctor": ("this machine: CPU, BLAS, versions, limits that work, folders", "doctor"),
}
