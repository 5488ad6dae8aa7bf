"""Switches of the exact solver's accelerations, for ablations and tests; not a public interface.

Each acceleration of `box_dual` can be switched off alone. Every combination reaches the same
tolerance; only time and the number of kernel values change (`refinement` is the exception: without
it the result says how far the float32 solution misses the tolerance). `scripts/ablate_svm.py`
prints what each one gains; docs/solver.md explains them.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SolverOptions:
    """Which accelerations are on.

    Attributes
    ----------
    nested_subsets : bool
        Solve on growing random subsets (`nested_subsets`); off: all points are active at once.
    duplicates : bool
        Merge equal points (`duplicates`).
    keep_half : bool
        Keep the newer half of a working set for the next (`block_descent`).
    face_newton : bool
        Newton steps on a face where coordinate steps make little progress (`face_newton`), and the
        minimum over the free points of a regression (`face_pivoting`).
    recompute_rows : bool
        Compute cheap kernel rows again instead of storing them (`row_cache`); off: store all rows
        at their first use.
    refinement : bool
        Recompute residuals near the margin in float64 and continue (`refinement`); off: stop after
        the float32 solve and report its true violation.
    stored_matrix : bool
        Store the matrix of all points where many of them are free (`stored_descent`).
    inner_steps : callable, optional
        Replacement for `pair_steps` (with intercept) or `coordinate_steps`.
    first_subset : int
        Points of the first nested subset, at least: two working sets by default. Fewer in problems
        of fewer than 16 times as many points (`nested_subsets`).
    whole_set : int
        Without epsilon, sets S of at most this many points are one working set: K_SS of 2,048
        points takes 16 MB in float32 and is kept while S stays the same. With 1,024 points,
        covtype_30k computes 11 % more kernel values, ijcnn1 5 % and cod-rna 2 %
        (`scripts/bench_svm.py`, means of four orders of rows).
    few_points : int
        Problems of at most this many points are solved with all points active and are not
        searched for duplicates and groups: their kernel rows are short, and both searches cost as
        much as they save.
    smallest_group : int
        Groups of fewer points are solved together with others; one working set by default.
    """

    nested_subsets: bool = True
    duplicates: bool = True
    keep_half: bool = True
    face_newton: bool = True
    recompute_rows: bool = True
    refinement: bool = True
    stored_matrix: bool = True
    inner_steps: Callable[..., int] | None = None
    first_subset: int = 1024
    whole_set: int = 2048
    few_points: int = 2000
    smallest_group: int = 512


ALL_ON = SolverOptions()
