"""Dual problems of parts of a training set, one after another or side by side through joblib."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kbench.kernels import KernelMatrix
from kbench.methods._box_svc import Problem, Start, solve_problems
from kbench.solvers import BoxDualResult
from kbench.trace import Deadline


class Part(NamedTuple):
    """Some rows of a training set and dual variables for them."""

    rows: np.ndarray  # (p,) ascending
    alpha: np.ndarray  # (p, m)
    results: Sequence[BoxDualResult] = ()  # one for each of the m problems

    @property
    def support(self) -> "Part":
        """The rows with a coefficient that is not zero (in one of the problems)."""
        kept = self.alpha.any(axis=1)
        return self._replace(rows=self.rows[kept], alpha=self.alpha[kept])


def solve_parts(
    problem: Problem,
    parts: Iterable[Part],
    *,
    deadline: Deadline,
    n_jobs: int | None = None,
    **options: Any,
) -> list[Part]:
    """Solve the dual on each part alone, from the part's alpha.

    Parameters
    ----------
    problem : Problem
        Its kernel matrix counts the kernel values.
    parts : iterable of Part
    deadline : Deadline
        Of all parts together.
    n_jobs : int or None
        Parts solved at once; the solutions do not depend on it.
    **options
        As in `solve_box_dual`.
    """
    given = list(parts)
    solved = Parallel(n_jobs=n_jobs)(
        delayed(_solve)(
            problem.kernel.take(part.rows),
            problem.Y[part.rows],
            problem.C[part.rows],
            Start(part.alpha),
            max_time=deadline.seconds_left(),
            **options,
        )
        for part in given
    )
    for _, n_entries in solved:
        problem.kernel.count(n_entries)
    return [
        Part(part.rows, np.column_stack([result.alpha for result in results]), results)
        for part, (results, _) in zip(given, solved, strict=True)
    ]


def _solve(
    kernel: KernelMatrix, *arguments: Any, **options: Any
) -> tuple[list[BoxDualResult], int]:
    """Solutions, and how many kernel values they took."""
    return solve_problems(kernel, *arguments, **options), kernel.n_entries
