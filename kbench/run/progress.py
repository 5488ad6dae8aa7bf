"""What a user sees while runs go by: a line per run, and on a terminal a live one below them."""

import sys
from collections import Counter
from typing import Any, TextIO

FEW = 50  # runs of which each gets its line above the live one


class Progress:
    """Counts finished runs and tells about them on `stream` (standard error by default)."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total = total
        self._done: Counter[str] = Counter()
        self._bar: Any = None
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=total, file=self._stream, unit="run", dynamic_ncols=True, leave=False
            )

    def running(self, names: list[str]) -> None:
        """Show what is running now."""
        if self._bar is not None:
            failed = sum(n for status, n in self._done.items() if status != "ok")
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            now = f"{names[0]}{more}" if names else "-"
            self._bar.set_postfix_str(f"{failed} failed, running {now}")

    def finished(self, name: str, row: dict[str, Any]) -> None:
        """Count a run and tell it; of many, on a terminal, only those that failed."""
        self._done[row["status"]] += 1
        line = f"{name}: {describe(row)}"
        if self._bar is None:
            count = sum(self._done.values())
            print(f"[{count}/{self._total}] {line}", file=self._stream, flush=True)
            return
        if row["status"] != "ok" or self._total <= FEW:
            self._bar.write(line, file=self._stream)
        self._bar.update()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def describe(row: dict[str, Any]) -> str:
    """'ok, accuracy 0.9872, fit 1.2 s, predict 0.03 s', or what went wrong and how to see it."""
    if row["status"] != "ok":
        why = row.get("message") or "no message"
        return f"{row['status']}: {why} [kbench debug {row['key'][:8]}]"
    parts = ["ok"]
    if row.get("accuracy") is not None:
        parts.append(f"accuracy {row['accuracy']:.4f}")
    elif row.get("rmse") is not None:
        parts.append(f"RMSE {row['rmse']:.4g}")
    parts.append(f"fit {row['fit_wall_s']:.3g} s")
    parts.append(f"predict {row['predict_wall_s']:.3g} s")
    if row.get("message"):
        parts.append(row["message"])
    return ", ".join(parts)
