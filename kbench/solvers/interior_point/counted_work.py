"""Rules that choose the interior-point method, by counted work."""

from typing import Any

# Number of factorisations that a problem is expected to take; measured problems take 15 to 50
# (docs/solver.md, "Kernels of low rank").
_FACTORISATIONS = 25
# Least number of rows of a factor for each column: r x r matrices are then cheap (docs/solver.md,
# "Constants").
_ROWS_PER_COLUMN = 10
# Nanoseconds of a multiplication, as if every factorisation had all points (later ones leave out
# points at bounds), and of the remaining work of an iteration (`scripts/bench_small.py --any-C`).
_NS_PER_MULTIPLICATION = 0.015
_NS_PER_ITERATION = 150_000.0
# Nanoseconds of a step of two coefficients of the small-problem solver: for each point, and for the
# step (`scripts/bench_small.py --any-C`).
NANOSECONDS_PER_POINT = 0.6
NANOSECONDS_OF_STEP = 60.0
# Largest number of points for which the large-problem solver may hand over to the method on the
# stored matrix, whose factorisations take n^3 / 3 each (`scripts/bench_small.py --any-C`).
MAX_STORED = 2000


def is_low_rank(n: int, rank: float, n_features: int) -> bool:
    """Whether n points of a kernel of this rank are solved on its explicit map from the start.

    25 factorisations of n r^2 multiplications are compared with n^2 d multiplications of a dual
    solver, which computes most kernel values once.
    """
    if not 0 < rank * _ROWS_PER_COLUMN <= n:
        return False
    return _FACTORISATIONS * rank * rank <= n * n_features


def steps_before(n: int, work: float) -> int:
    """Return how many steps of two coefficients cost as much as the interior-point method.

    work : multiplications of a factorisation, `Matrix.work`
    """
    return int(
        steps_within(n, _FACTORISATIONS * (_NS_PER_ITERATION + _NS_PER_MULTIPLICATION * work))
    )


def steps_within(n: Any, nanoseconds: Any) -> Any:
    """Return the number of steps of two coefficients among n points that fit into this time."""
    return nanoseconds // (NANOSECONDS_OF_STEP + NANOSECONDS_PER_POINT * n)


def nanoseconds_of_steps(n: int, steps: float) -> float:
    """Return the nanoseconds of this number of steps of two coefficients among n points."""
    return steps * (NANOSECONDS_OF_STEP + NANOSECONDS_PER_POINT * n)


def factorisation(n: int, rank: float) -> float:
    """Return the multiplications of the cheaper factorisation: of K, or of a map's columns."""
    return min(n * rank * (rank + 1.0), n**3 / 3.0)
