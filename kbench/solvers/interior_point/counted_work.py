"""Rules for when the interior-point method is used, by counted work."""

from typing import Any

# Factorisations of a problem: 15 to 40 as a rule.
_FACTORISATIONS = 25
# The factor needs at least this many rows for each column, so that r x r matrices are cheap.
_ROWS_PER_COLUMN = 10
# Nanoseconds of a multiplication, counted for factorisations of all points although later ones
# leave out points at bounds; and of the rest of an iteration (`scripts/bench_small.py --any-C`).
_NANOSECONDS = 0.015
_NANOSECONDS_OF_ITERATION = 150_000.0
# Nanoseconds of a step of two coefficients of the small-problem solver: per point, and per step.
NANOSECONDS_PER_POINT = 0.6
NANOSECONDS_OF_STEP = 60.0
# Points up to which a problem of the large-problem solver may end on its stored matrix.
MAX_STORED = 2000


def is_low_rank(n: int, rank: float, n_features: int) -> bool:
    """Whether n points of a kernel of this rank are solved on its explicit map at once.

    25 factorisations of n r^2 multiplications are compared with the n^2 d of a dual solver, which
    computes most kernel values once.
    """
    if not 0 < rank * _ROWS_PER_COLUMN <= n:
        return False
    return _FACTORISATIONS * rank * rank <= n * n_features


def steps_before(n: int, work: float) -> int:
    """How many steps of two coefficients among n points cost as much as the interior-point method.

    work : multiplications of a factorisation, `Matrix.work`
    """
    return int(steps_within(n, _FACTORISATIONS * (_NANOSECONDS_OF_ITERATION + _NANOSECONDS * work)))


def steps_within(n: Any, nanoseconds: Any) -> Any:
    """The number of steps of two coefficients among n points that fit into this time."""
    return nanoseconds // (NANOSECONDS_OF_STEP + NANOSECONDS_PER_POINT * n)


def nanoseconds_of_steps(n: int, steps: float) -> float:
    """Time of this number of steps of two coefficients among n points."""
    return steps * (NANOSECONDS_OF_STEP + NANOSECONDS_PER_POINT * n)


def factorisation(n: int, rank: float) -> float:
    """Multiplications of the cheaper factorisation of n points: n^3 / 3, or of a map's columns."""
    return min(n * rank * (rank + 1.0), n**3 / 3.0)
