"""The rank of an approximation that may keep a given count of numbers.

Approximations are compared at equal memory, counted in numbers that they keep for the training
rows (`n_parameters_`): n r for r features, n k and the entries of L for MEKA (Si, Hsieh and
Dhillon, JMLR 18, 2017, "number of parameters"). Equal ranks are not equal memory: random features
of rank k are 2 k columns, and MEKA also keeps L.
"""

from collections.abc import Callable
from typing import Any

from kbench.validated import POSITIVE, integer

# Constraints of the two parameters; a user sets one of them.
CONSTRAINTS: dict[str, list[Any]] = {
    "rank": [integer(1), None],
    "numbers_per_row": [POSITIVE, None],
}


def require_one(rank: int | None, numbers_per_row: float | None) -> None:
    """Raise a ValueError if both are set or neither is."""
    if (rank is None) == (numbers_per_row is None):
        raise ValueError(
            f"set one of rank and numbers_per_row, and the other one to None; got rank={rank}, "
            f"numbers_per_row={numbers_per_row}"
        )


def chosen_rank(
    rank: int | None, numbers_per_row: float | None, n: int, count: Callable[[int], float]
) -> int:
    """`rank`, or the largest rank up to n that keeps at most `numbers_per_row` times n numbers.

    rank, numbers_per_row : One of the two is None
    n : Rows
    count : Returns how many numbers a rank keeps, strictly increasing; called O(log n) times

    Raises ValueError: both are set or neither is, or rank 1 keeps more numbers.
    """
    require_one(rank, numbers_per_row)
    if rank is not None:
        return rank
    assert numbers_per_row is not None
    budget = numbers_per_row * n
    if count(1) > budget:
        raise ValueError(
            f"numbers_per_row={numbers_per_row:g} allows {budget:,.0f} numbers, and rank 1 keeps "
            f"{count(1):,.0f}"
        )
    lower, upper = 1, n + 1
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if count(middle) <= budget:
            lower = middle
        else:
            upper = middle
    return lower
