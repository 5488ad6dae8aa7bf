"""Dual problems of parts of a training set, solved one by one or in parallel through joblib."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kbench.kernels import KernelMatrix
from kbench.methods.base.box_svc import KernelProblems, Start, solve_problems
from kbench.solvers import BoxDualResult
from kbench.trace import Deadline


class Part(NamedTuple):
    """Some rows of a training set and their dual variables."""

    rows: np.ndarray  # (p,) ascending
    alpha: np.ndarray  # (p, m)
    results: Sequence[BoxDualResult] = ()  # one for each of the m problems, once solved

    @staticmethod
    def zero(problem: KernelProblems, rows: np.ndarray) -> "Part":
        """The part of these rows with all dual variables zero."""
        return Part(rows, np.zeros((len(rows), problem.Y.shape[1])))

    @property
    def support(self) -> "Part":
        """The rows with a non-zero coefficient in at least one of the problems."""
        has_coef = self.alpha.any(axis=1)
        return self._replace(rows=self.rows[has_coef], alpha=self.alpha[has_coef])


def solve_parts(
    problem: KernelProblems,
    parts: Iterable[Part],
    *,
    deadline: Deadline,
    n_jobs: int | None = None,
    **options: Any,
) -> list[Part]:
    """Solve the dual of each part, starting from the part's alpha.

    problem : Its kernel matrix counts the kernel values of all parts
    deadline : Time limit of all parts together
    n_jobs : Number of parts solved in parallel; the solutions do not depend on it
    **options : Options of `solve_box_dual`
    """
    parts_to_solve = list(parts)
    solutions = Parallel(n_jobs=n_jobs)(
        delayed(_solve)(
            problem.kernel.take(part.rows),
            problem.Y[part.rows],
            problem.C[part.rows],
            Start(part.alpha),
            max_time=deadline.seconds_left(),
            **options,
        )
        for part in parts_to_solve
    )
    for _, n_entries in solutions:
        problem.kernel.count(n_entries)
    return [
        Part(part.rows, np.column_stack([result.alpha for result in results]), results)
        for part, (results, _) in zip(parts_to_solve, solutions, strict=True)
    ]


def _solve(
    kernel: KernelMatrix, *arguments: Any, **options: Any
) -> tuple[list[BoxDualResult], int]:
    """Solutions and the number of kernel values that they computed."""
    return solve_problems(kernel, *arguments, **options), kernel.n_entries
