"""Show progress: a line for each finished run, and on a terminal a live line below them."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from kbench.compiling import MESSAGE
from kbench.run.execution.guard import RunState

# Number of runs up to which each finished run gets a line on a terminal. Set by hand.
MAX_LISTED_RUNS = 50
# Seconds between two updates of the live line, which should be readable. Set by hand.
TICK_S = 1.0
# Numbers of a fit in progress on the live line, which has little space. Set by hand.
_NUMBERS = 3
# Progress values that best predict when a fit will end, and are shown before all others.
_PRIORITY = ("violation", "objective", "residual", "loss", "samples", "passes", "blocks", "trees")


@dataclass(frozen=True)
class Running:
    """A run in progress."""

    label: str
    state: RunState
    seconds: float  # Since its start
    tol: Any = None  # The parameter `tol`, if it has one

    def __str__(self) -> str:
        phase = MESSAGE if self.state.compiling else f"{self.state.phase} {self.seconds:.0f} s"
        progress = self.state.progress
        names = [name for name in _PRIORITY if name in progress]
        names += [name for name in progress if name not in _PRIORITY]
        numbers = [self._number(name) for name in names[:_NUMBERS]]
        return ", ".join([f"{self.label}: {phase}", *numbers])

    def _number(self, name: str) -> str:
        has_tol = name == "violation" and type(self.tol) in (int, float)
        tolerance = f" (tol {self.tol:g})" if has_tol else ""
        return f"{name} {self.state.progress[name]:.4g}{tolerance}"


class Progress:
    """Counts finished runs and reports them on `stream` (standard error by default)."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = total
        self._done: Counter[str] = Counter()
        self._bar: Any = None
        self._next = 0.0
        self._labels: list[str] = []
        self._announced = False
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=total, file=self._stream, unit="run", dynamic_ncols=True, leave=False
            )

    def running(self, runs: Sequence[Running]) -> None:
        """Show the runs in progress: immediately if they have changed, else once a second."""
        labels = [run.label for run in runs]
        now = time.monotonic()
        if labels == self._labels and now < self._next:
            return
        self._labels, self._next = labels, now + TICK_S
        if self._bar is None:  # a line says once that numba compiles
            compiling = [run for run in runs if run.state.compiling and not self._announced]
            for run in compiling[:1]:
                self._announced = True
                print(f"{run.label}: {MESSAGE}", file=self._stream)
            return
        failed = sum(n for status, n in self._done.items() if status != "ok")
        suffix = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        text = f"{runs[0]}{suffix}" if runs else "-"
        self._bar.set_postfix_str(f"{failed} failed, running {text}")

    def finished(self, name: str, row: dict[str, Any]) -> None:
        """Count a run and print its line; among many runs on a terminal, only failed ones."""
        self._done[row["status"]] += 1
        line = f"{name}: {describe(row)}"
        if self._bar is None:
            count = sum(self._done.values())
            print(f"[{count}/{self._total}] {line}", file=self._stream, flush=True)
            return
        if row["status"] != "ok" or self._total <= MAX_LISTED_RUNS:
            self._bar.write(line, file=self._stream)
        self._bar.update()

    def close(self) -> None:
        """Remove the live line."""
        if self._bar is not None:
            self._bar.close()


# Column -> text. A run's line shows the first of these columns that its row has.
_LEADING = {
    "accuracy": "accuracy {:.4f}",
    "pinball": "pinball loss {:.4g}",
    "rmse": "RMSE {:.4g}",
    "roc_auc": "ROC AUC {:.4f}",
}


def describe(row: dict[str, Any]) -> str:
    """A text for a row, such as 'ok, accuracy 0.9872, fit 1.2 s, predict 0.03 s'."""
    if row["status"] != "ok":
        why = row.get("message") or "no message"
        return f"{row['status']}: {why} [kbench debug {row['key'][:8]}]"
    scores = [column for column in _LEADING if row.get(column) is not None]
    score = [_LEADING[column].format(row[column]) for column in scores[:1]]
    seconds = [f"{part} {row[f'{part}_wall_s']:.3g} s" for part in ("fit", "predict")]
    # `kbench predict` takes the word; the name of the file begins with the row's key.
    model = f"model={row['key'][:8]}" if row.get("model") else None
    return ", ".join(filter(None, ["ok", *score, *seconds, model, row.get("message")]))
