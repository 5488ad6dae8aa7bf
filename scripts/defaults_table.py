"""The tables of `docs/tuned.md`: every method with its defaults, beside a linear machine.

    python scripts/reference.py run FOLDER defaults
    python scripts/defaults_table.py FOLDER [docs/tuned.md]

Replaces what is between the two comments of the document by the newest rows of
`experiment=defaults` in FOLDER. A star marks what is more than a point of accuracy below
`linear_svc`, or more than 2 % of RMSE above `ridge`; the documentation says why. Prints the
starred methods that it does not name below the tables.
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.files import atomic_file
from kbench.run.results.folder import ResultsFolder

BEGIN, END = "<!-- written by scripts/defaults_table.py -->\n", "<!-- end -->\n"
EXPERIMENT = "defaults"
# Linear machine, measure, and the worst score that needs no reason.
KINDS = {
    "classification": ("linear_svc", "accuracy", lambda linear: linear - 0.01),
    "regression": ("ridge", "rmse", lambda linear: 1.02 * linear),
}


def rows_of(folder: Path) -> pd.DataFrame:
    """The rows of the experiment; exits if there are none."""
    rows = ResultsFolder(folder).read(reference=False)
    rows = rows[(rows["experiment"] == EXPERIMENT) & (rows["status"] != "interrupted")]
    if rows.empty:
        sys.exit(f"{folder}: no rows of experiment={EXPERIMENT}")
    return rows.sort_values("started_at").drop_duplicates(["method", "dataset"], keep="last")


def table(rows: pd.DataFrame, kind: str) -> tuple[str, set[str]]:
    """Markdown of one kind of task, and the methods with a star."""
    linear, measure, worst = KINDS[kind]
    own = rows[(rows["task"] == "regression") == (kind == "regression")]
    scores = own.pivot(index="method", columns="dataset", values=measure)
    states = own.pivot(index="method", columns="dataset", values="status")
    if linear not in scores.index:
        return "", set()
    limits = worst(scores.loc[linear])
    methods = [linear, *sorted(set(scores.index) - {linear})]
    lines = [["method", *scores.columns], ["---"] * (1 + scores.shape[1])]
    starred = set()
    for method in methods:
        cells = []
        for name in scores.columns:
            value, limit = scores.at[method, name], limits[name]
            behind = value > limit if kind == "regression" else value < limit
            starred |= {method} if behind else set()
            cells.append(_cell(value, states.at[method, name], measure) + "\\*" * bool(behind))
        lines.append([method, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines), starred


def _cell(value: float, status: Any, measure: str) -> str:
    if status != "ok" or pd.isna(value):
        return "" if pd.isna(status) else str(status)
    return f"{100 * value:.1f}" if measure == "accuracy" else f"{value:.3g}"


def main(folder: Path, document: Path) -> None:
    rows = rows_of(folder)
    (classes, first), (numbers, second) = (table(rows, kind) for kind in KINDS)
    text = document.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        sys.exit(f"{document}: needs the lines {BEGIN!r} and {END!r}")
    with atomic_file(document) as file:
        file.write(f"{before}{BEGIN}\n{classes}\n{numbers}\n{END}{after}".encode())
    reasons = after.partition("\n## ")[0]
    for method in sorted(first | second):
        if f"`{method}`" not in reasons:
            print(f"{method}: below the linear machine, and {document} does not say why")


if __name__ == "__main__":
    from usage import answer_help

    answer_help(__doc__)
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else "docs/tuned.md"))
