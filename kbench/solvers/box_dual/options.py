"""Switches of the exact solver's accelerations, for ablations and tests; not a public interface.

Each acceleration of `box_dual` has a switch. Every combination reaches the same tolerance; only
time and the number of kernel values change. The exception is `refinement`: without it, the result
says how far the float32 solution misses the tolerance. `scripts/ablate_svm.py` prints what each
acceleration gains; docs/solver.md explains them.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SolverOptions:
    """Which accelerations are on."""

    # Solve on growing random subsets (`nested_subsets`); off: all points are active at once.
    nested_subsets: bool = True
    duplicates: bool = True  # Merge equal points (`duplicates`)
    keep_half: bool = True  # Keep the newer half of a working set for the next (`block_descent`)
    # Newton steps on a face where coordinate steps make little progress (`face_newton`), and the
    # minimum over the free points of a regression (`face_pivoting`).
    face_newton: bool = True
    # Compute cheap kernel rows again instead of storing them (`row_cache`); off: store all rows at
    # their first use.
    recompute_rows: bool = True
    # Recompute residuals near the margin in float64 and continue (`refinement`); off: stop after
    # the float32 solve and report its true violation.
    refinement: bool = True
    # Store the matrix of all points where many of them are free (`stored_descent`).
    stored_matrix: bool = True
    # Replacement for `pair_steps` (with intercept) or `coordinate_steps`.
    inner_steps: Callable[..., int] | None = None
    # Points of the first nested subset, by default two working sets. Problems with fewer than 16
    # times as many points have a smaller first subset (`nested_subsets`).
    first_subset: int = 1024
    # Without epsilon, sets S of at most this many points are one working set: K_SS of 2,048 points
    # takes 16 MiB in float32 and is stored while S stays the same. With 1,024 points, covtype_30k
    # computes 11 % more kernel values, ijcnn1 5 % and cod-rna 2 % (`scripts/bench_svm.py`, means of
    # four orders of rows).
    whole_set: int = 2048
    # Problems of at most this many points are solved with all points active, without a search for
    # duplicates and groups: their kernel rows are short, and both searches cost as much as they
    # save (`scripts/bench_small.py --crossover`).
    few_points: int = 2000
    # Groups of fewer points are combined; by default a working set (docs/solver.md, "Constants").
    smallest_group: int = 512


ALL_ON = SolverOptions()
