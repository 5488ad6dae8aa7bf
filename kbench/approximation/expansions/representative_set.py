"""Rows whose convex combinations approximate all rows: DeriveRS and DeriveAE of AESVM.

Nandan, Khargonekar and Talathi, "Fast SVM Training Using Approximate Extreme Points" (JMLR 15,
2014), Algorithms 1 to 3. The rows of each class are divided into sets (first level), and these into
subsets of neighbours (second level). In a subset A,

    X* = the rows on the smallest ball around phi(A);
    for the other rows x, the farthest from the ball's centre first:
        if min_mu ||phi(x) - sum_t mu_t phi(x_t)||^2 > eps over convex mu on X*:  X* <- X* + {x}

Afterwards every row is a convex combination mu of X* up to eps, and its weight is divided over X*
in proportion to mu.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix

# The residual of a combination is minimised until it is at most max(_RELATIVE_GAP eps, _MIN_GAP)
# above its lower bound: a smaller gap takes more steps and decides more rows near eps correctly.
# Set by hand.
_RELATIVE_GAP = 0.01
_MIN_GAP = 1e-9
# Guard: a row is on the smallest ball if its coefficient in the ball's centre exceeds this; smaller
# coefficients are rounding errors of the conditional-gradient steps.
_MIN_COEFFICIENT = 1e-7


@njit(nogil=True, cache=True)
def nearest_combination(gram, size, products, constant, mu, limit, tol):
    """Minimise constant + mu'K mu - 2 mu'k over convex mu by pairwise conditional-gradient steps.

    gram : (>= size, >= size). K in its first rows and columns.
    products : (>= size,). k
    constant : float. ||phi(x)||^2, or 0 if its value does not matter
    mu : (>= size,). The convex combination to start from; overwritten by the solution.
    limit : float. Stop as soon as the lower bound exceeds this.
    tol : float. Stop when the value is at most this far above the lower bound.

    Returns value, and a lower bound of the minimum.
    """
    gradient = np.empty(size)  # half of it: K mu - k
    for t in range(size):
        gradient[t] = -products[t]
    value = constant
    for s in range(size):
        if mu[s] > 0.0:
            row = gram[s]
            for t in range(size):
                gradient[t] += mu[s] * row[t]
    for t in range(size):
        value += mu[t] * (gradient[t] - products[t])
    lower_bound = -np.inf
    for _ in range(1000 + 20 * size):  # guard: `tol` ends the loop before
        toward, away, mean_gradient = 0, -1, 0.0
        for t in range(size):
            if gradient[t] < gradient[toward]:
                toward = t
            if mu[t] > 0.0:
                mean_gradient += mu[t] * gradient[t]
                if away < 0 or gradient[t] > gradient[away]:
                    away = t
        lower_bound = max(lower_bound, value - 2.0 * (mean_gradient - gradient[toward]))
        if value - lower_bound <= tol or lower_bound > limit:
            break
        gradient_difference = gradient[away] - gradient[toward]
        curvature = gram[toward, toward] + gram[away, away] - 2.0 * gram[toward, away]
        step = mu[away]
        if gradient_difference < step * curvature:
            step = gradient_difference / curvature
            mu[away] -= step
        else:
            mu[away] = 0.0
        mu[toward] += step
        value += step * (step * curvature - 2.0 * gradient_difference)
        toward_row, away_row = gram[toward], gram[away]
        for t in range(size):
            gradient[t] += step * (toward_row[t] - away_row[t])
    return value, lower_bound


@njit(nogil=True, cache=True)
def _extreme_points(gram, eps):
    """Members : (s,), combinations : (a, s) and residuals : (a,) of the rows of gram : (a, a)."""
    a = len(gram)
    tol = max(_RELATIVE_GAP * eps, _MIN_GAP)
    diagonal = np.diag(gram).copy()
    centre = np.zeros(a)
    centre[0] = 1.0
    nearest_combination(gram, a, 0.5 * diagonal, 0.0, centre, np.inf, tol)
    distances = diagonal - 2.0 * (gram @ centre)
    farthest_first = np.argsort(-distances)
    members, position = np.empty(a, np.int64), np.full(a, -1, np.int64)
    member_gram, products = np.empty((a, a)), np.empty(a)
    combinations, residuals = np.zeros((a, a)), np.zeros(a)
    size = 0
    for sweep in range(2):
        for i in farthest_first:
            on_ball = centre[i] > _MIN_COEFFICIENT
            if on_ball != (sweep == 0):
                continue
            nearest = 0
            for t in range(size):
                products[t] = gram[i, members[t]]
                if (
                    member_gram[t, t] - 2.0 * products[t]
                    < member_gram[nearest, nearest] - 2.0 * products[nearest]
                ):
                    nearest = t
            if not on_ball:
                mu = combinations[i]
                mu[nearest] = 1.0
                value, _ = nearest_combination(
                    member_gram, size, products, diagonal[i], mu, eps, tol
                )
                if value <= eps:
                    residuals[i] = value
                    continue
                for t in range(size):
                    mu[t] = 0.0
            for t in range(size):
                member_gram[size, t] = member_gram[t, size] = products[t]
            member_gram[size, size] = diagonal[i]
            members[size], position[i] = i, size
            size += 1
    # A member added after a row was examined may improve the combination of that row.
    for i in range(a):
        if position[i] >= 0:
            combinations[i, position[i]] = 1.0
            continue
        for t in range(size):
            products[t] = gram[i, members[t]]
        value, _ = nearest_combination(
            member_gram, size, products, diagonal[i], combinations[i], np.inf, tol
        )
        residuals[i] = max(value, 0.0)
    return members[:size].copy(), combinations[:, :size].copy(), residuals


@dataclass(frozen=True)
class RepresentativeSet:
    """The representative rows of a data set."""

    members: np.ndarray  # (M,) ints: row numbers, ascending
    # (M,): weight that each member represents; all sum to the total weight of the rows.
    weights: np.ndarray
    # (n,): ||phi(x) - combination of x||^2; 0 for members and for rows without weight.
    residuals: np.ndarray


def representative_set(
    kernel: KernelMatrix,
    norms: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    *,
    eps: float,
    first_level: str,
    first_size: int,
    second_size: int,
) -> RepresentativeSet:
    """Choose the representative rows: DeriveRS, Algorithm 1.

    kernel : KernelMatrix of n points
    norms : (n,). ||x||^2 of the rows.
    labels : (n,) ints. Classes; a row represents rows of its own class only.
    weights : (n,). Rows with weight 0 are left out.
    eps : Bound on the residuals; if negative, every row represents itself
    first_level : {"fls2", "fls1"}
        "fls2" bisects recursively at the median kernel distance from a row; "fls1" takes the rows
        in their order.
    first_size, second_size : P and V, the largest sets of the two levels

    O(n log(n / P) + n P / V) kernel values for the two levels and n V for the subsets, and O(n V s)
    time for s members in each subset.
    """
    kernel = kernel.astype(np.float64)
    diagonal = kernel.diagonal()
    members_of_subsets, represented_weight, residuals = (
        [],
        np.zeros(len(kernel)),
        np.zeros(len(kernel)),
    )
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (weights > 0))
        if first_level == "fls2":
            first_level_sets = _bisect(kernel, diagonal, rows, first_size)
        else:
            first_level_sets = [rows[i : i + first_size] for i in range(0, len(rows), first_size)]
        for first_level_set in first_level_sets:
            for subset in _neighbour_subsets(kernel, diagonal, norms, first_level_set, second_size):
                gram = kernel.block(subset, kernel.points(subset))
                members, combinations, residuals[subset] = _extreme_points(gram, float(eps))
                members_of_subsets.append(subset[members])
                represented_weight[subset[members]] = matmul(weights[subset], combinations)
    rows = np.sort(np.concatenate(members_of_subsets))
    return RepresentativeSet(rows, represented_weight[rows], residuals)


def _distances(
    kernel: KernelMatrix, diagonal: np.ndarray, rows: np.ndarray, row: int
) -> np.ndarray:
    """||phi(x) - phi(x_row)||^2 - k(x_row, x_row) for each of the rows x : (a,); (a,)."""
    values = kernel.block(rows, kernel.points(np.array([row])))[:, 0]
    return diagonal[rows] - 2.0 * values


def _bisect(
    kernel: KernelMatrix, diagonal: np.ndarray, rows: np.ndarray, size: int
) -> list[np.ndarray]:
    """FLS2: cut at the median distance from the first row, until no set is larger than `size`."""
    if len(rows) <= size:
        return [rows]
    order = np.argpartition(_distances(kernel, diagonal, rows, rows[0]), len(rows) // 2)
    near, far = np.split(rows[order], [len(rows) // 2])
    return [*_bisect(kernel, diagonal, near, size), *_bisect(kernel, diagonal, far, size)]


def _neighbour_subsets(
    kernel: KernelMatrix, diagonal: np.ndarray, norms: np.ndarray, rows: np.ndarray, size: int
) -> list[np.ndarray]:
    """SLS: take the `size` rows nearest to the longest row; go on from the next nearest row."""
    subsets = []
    centre = rows[np.argmax(norms[rows])] if len(rows) else 0
    while len(rows) > size:
        order = np.argpartition(_distances(kernel, diagonal, rows, centre), size)
        subsets.append(rows[order[:size]])
        centre, rows = rows[order[size]], rows[order[size:]]
    return [*subsets, rows] if len(rows) else subsets
