"""What the search minimises: error rates of classifiers, squared errors of regressions."""

import copy
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.trace import Deadline
from kbench.width_search import constants
from kbench.width_search.c_path import along_c, class_problem, in_time, regression_problem, stored
from kbench.width_search.gram import Gram, PreparedRows


class Losses(NamedTuple):
    """Held-out losses for p values of C."""

    losses: np.ndarray  # (p, 3) sums of the loss, of its square, and of the rows' weights
    solved: np.ndarray  # (p,) whether all problems reached the tolerance
    support_fraction: np.ndarray  # (p,) fraction of training rows that are support vectors
    # (p,) absolute value of the largest dual coefficient, as a multiple of C and the row's factor
    largest_coef: np.ndarray


class SearchTargets(Protocol):
    """Targets of all rows, and the losses of models trained on some of them."""

    constant_error: float  # Error of the best constant
    scale_of_c: float  # C of the final model divided by C of the search
    last_rung_values: int  # Kernel values for one width between the training rows of the last rung
    steps_per_row: int  # Limit on steps of a model after the first rung for each training row

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """A random order of the rows in which every range represents the data."""

    def representatives(self, order: np.ndarray) -> np.ndarray:
        """The first row of each class in `order`; none for a regression."""

    def adapt(self, error: float) -> None:
        """Set what depends on the lowest error of the first rung, before the second rung."""

    def subproblems(
        self, rows: PreparedRows, training: np.ndarray, validation: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and validation rows of each smaller problem; one pair if nothing is divided."""

    @property
    def subproblem_factor(self) -> float:
        """Time of a model of all rows, divided by the time of one of its subproblems."""

    def arranged(self, training: np.ndarray) -> np.ndarray:
        """Training rows in the order in which `losses` needs them."""

    def constant_losses(self, training: np.ndarray, validation: np.ndarray) -> np.ndarray | None:
        """Losses (3,) if the training rows have one class only, else None."""

    def losses(
        self,
        gram: Gram,
        gamma: float,
        Cs: Sequence[float],
        training: np.ndarray,
        validation: np.ndarray,
        max_steps: int,
        deadline: Deadline,
    ) -> Losses:
        """Losses of the validation rows for increasing values of C.

        A single problem returns the values of C solved before the deadline.

        Raises OutOfTime: the deadline has passed before any value of C was solved for all problems.
        """

    def losses_of(self, predicted: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Loss of each prediction for some rows; (len(rows),)."""


class Classification:
    """Classes by pairs, as in `KernelSVC`; two classes are one pair.

    If there are more than `constants.MAX_PAIRS` pairs, only pairs within groups of similar classes
    are solved: a row is in the wrong class if another class of its own class's group wins.

    Parameters
    ----------
    index : (n,) class numbers
    balanced : Whether every class has the same weight in the error, as in balanced accuracy
    factor : (n,), optional
        Positive factors of C, the weights of classes and rows. The search's C is for factors of
        mean 1.
    """

    last_rung_values = constants.LAST_VALUES
    steps_per_row = constants.STEPS_OF_CLASSES

    def __init__(
        self, index: np.ndarray, n_classes: int, *, balanced: bool, factor: np.ndarray | None = None
    ) -> None:
        self._index, self._k, self._factor = index, n_classes, factor
        self.scale_of_c = 1.0 if factor is None else 1.0 / float(factor.mean())
        counts = np.bincount(index, minlength=n_classes)
        weights = len(index) / (n_classes * counts) if balanced else np.ones(n_classes)
        self._weight = weights[index]
        self.constant_error = 1.0 - float((weights * counts).max()) / len(index)
        self._pairs = np.array(list(itertools.combinations(range(n_classes), 2)))
        # Group of each class, and the problem of each group, once they are known.
        self._group = np.zeros(n_classes, int)
        self._groups: list[Classification] = []

    def weights_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Factors of C for these rows; None if all rows have the same factor."""
        return None if self._factor is None else self._factor[rows]

    @property
    def is_grouped(self) -> bool:
        return len(self._pairs) > constants.MAX_PAIRS

    @property
    def subproblem_factor(self) -> float:
        return len(self._pairs) / max(len(group._pairs) for group in self._groups or [self])

    def subproblems(
        self, rows: PreparedRows, training: np.ndarray, validation: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        if not self.is_grouped:
            return [(training, validation)]
        if not self._groups:
            self._set_groups(rows)
        training_groups, validation_groups = (
            self._group[self._index[subset]] for subset in (training, validation)
        )
        return [
            (training[training_groups == g], validation[validation_groups == g])
            for g in range(len(self._groups))
            if np.any(training_groups == g) and np.any(validation_groups == g)
        ]

    def _set_groups(self, rows: PreparedRows) -> None:
        """Set the groups of similar classes and their problems. O(n d)."""
        k, n = self._k, len(self._index)
        counts = np.bincount(self._index, minlength=k)
        members = sp.csr_matrix((1.0 / counts[self._index], (self._index, np.arange(n))), (k, n))
        means = matmul(members, rows.X)
        means = means.toarray() if sp.issparse(means) else np.asarray(means)
        # Groups of this size have k (size - 1) / 2 pairs in all, at most `MAX_PAIRS`.
        size = max(constants.MIN_GROUP, 1 + 2 * constants.MAX_PAIRS // k)
        groups = _bisected(means, np.arange(k), math.ceil(k / size))
        for g, group in enumerate(map(np.sort, groups)):
            self._group[group] = g
            problem = copy.copy(self)
            index_in_group = np.zeros(k, int)
            index_in_group[group] = np.arange(len(group))
            problem._index, problem._k = index_in_group[self._index], len(group)
            problem._pairs = np.array(list(itertools.combinations(range(len(group)), 2)))
            problem._group, problem._groups = np.zeros(len(group), int), []
            self._groups.append(problem)

    def _problem_of(self, rows: np.ndarray) -> "Classification":
        """The problem of a group of classes if all rows are of one group, else this problem."""
        if not self._groups:
            return self
        groups_of_rows = self._group[self._index[rows]]
        return (
            self._groups[groups_of_rows[0]]
            if groups_of_rows.min() == groups_of_rows.max()
            else self
        )

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """A random order that spreads each class evenly: every range represents the data."""
        position = np.empty(len(self._index))
        for c in range(self._k):
            rows = np.flatnonzero(self._index == c)
            position[rows] = (rng.permutation(len(rows)) + rng.random()) / len(rows)
        return np.argsort(position, kind="stable")

    def representatives(self, order: np.ndarray) -> np.ndarray:
        return order[np.sort(np.unique(self._index[order], return_index=True)[1])]

    def adapt(self, error: float) -> None:
        """Do nothing: a classifier's loss has no scale to adapt to."""

    def last_rows(self, fraction: float) -> np.ndarray:
        """Sorted indices of the last rows of each class, this fraction of them and at least one."""
        chosen = []
        for c in range(self._k):
            rows = np.flatnonzero(self._index == c)
            chosen.append(rows[-max(1, round(fraction * len(rows))) :])
        return np.sort(np.concatenate(chosen))

    def arranged(self, training: np.ndarray) -> np.ndarray:
        return training[np.argsort(self._index[training], kind="stable")]

    def constant_losses(self, training: np.ndarray, validation: np.ndarray) -> np.ndarray | None:
        classes = self._index[training]
        if classes.min() < classes.max():
            return None
        return self._sums((self._index[validation] != classes[0])[:, None], validation)[0]

    def _sums(self, wrong: np.ndarray, validation: np.ndarray) -> np.ndarray:
        """Sums (p, 3) of the loss, its square and the weights, from the mask `wrong` : (v, p)."""
        weight = self._weight[validation]
        total = np.full(wrong.shape[1], weight.sum())
        return np.column_stack([matmul(weight, wrong), matmul(weight**2, wrong), total])

    def error(self, wrong: np.ndarray, rows: np.ndarray) -> float:
        """Error of predictions for `rows`, from the mask `wrong`."""
        loss, _, weight = self._sums(wrong[:, None], rows)[0]
        return float(loss / weight)

    def losses_of(self, predicted: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._weight[rows] * (predicted != self._index[rows])

    def losses(
        self,
        gram: Gram,
        gamma: float,
        Cs: Sequence[float],
        training: np.ndarray,
        validation: np.ndarray,
        max_steps: int,
        deadline: Deadline,
    ) -> Losses:
        if (group_problem := self._problem_of(training)) is not self:
            arguments = (gram, gamma, Cs, training, validation, max_steps, deadline)
            return group_problem.losses(*arguments)
        n, p, k = len(training), len(Cs), self._k
        if k == 2:
            kernel = gram.kernel_rows(gamma)
        else:
            K = gram.matrix(gamma)
        weights = self.weights_of(training)
        factor = np.ones(n) if weights is None else self.scale_of_c * weights
        starts = np.searchsorted(self._index[training], np.arange(k + 1))
        spans = [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]
        # As in `SmallDualResult.coef`, a row has a coefficient for each other class.
        coef = np.zeros((n, p, k - 1), np.float32)
        intercepts = np.zeros((p, len(self._pairs)))
        solved = np.ones(p, bool)
        for pair, (a, b) in enumerate(self._pairs):
            n_a, n_b = (spans[c].stop - spans[c].start for c in (a, b))
            if n_a == 0 or n_b == 0:
                # The votes of a pair with one empty class go to the other class.
                intercepts[:, pair] = 1.0 if n_a else -1.0
                continue
            if k > 2:
                values = np.empty((n_a + n_b, n_a + n_b), np.float32)
                values[:n_a, :n_a], values[:n_a, n_a:] = (
                    K[spans[a], spans[a]],
                    K[spans[a], spans[b]],
                )
                values[n_a:, :n_a], values[n_a:, n_a:] = (
                    K[spans[b], spans[a]],
                    K[spans[b], spans[b]],
                )
                kernel = stored(values)
            signs = np.repeat([1.0, -1.0], [n_a, n_b])
            options: dict = {"max_steps": max_steps, "deadline": deadline}
            pair_factor = np.concatenate([factor[spans[a]], factor[spans[b]]])
            problem = class_problem(kernel, signs, pair_factor)
            solutions = along_c(problem, Cs, tol=constants.TOL, **options)
            if k == 2:
                solved_in_time = in_time(solutions)
                solutions, p = iter(solved_in_time), len(solved_in_time)
            for j, solution in enumerate(solutions):
                coef[spans[a], j, b - 1] = solution.coef[:n_a]
                coef[spans[b], j, a] = solution.coef[n_a:]
                intercepts[j, pair] = solution.intercept
                solved[j] &= solution.solved
        coef, intercepts, solved = coef[:, :p], intercepts[:p], solved[:p]
        is_support = np.any(coef, axis=2)
        largest_coef = (np.abs(coef).max(axis=2) / factor[:, None]).max(axis=0) / np.array(Cs[:p])
        support = np.flatnonzero(np.any(is_support, axis=1))
        index = self._index[training[support]]
        of_class = [slice(*np.searchsorted(index, (c, c + 1))) for c in range(k)]
        coef = coef[support]
        a, b = self._pairs.T
        wrong = np.empty((len(validation), p), bool)
        for rows, block in gram.blocks(gamma, support):
            sums = np.zeros((k, len(block), p, k - 1), np.float32)
            for c, span in enumerate(of_class):
                weights = coef[span].reshape(-1, p * (k - 1))
                sums[c] = matmul(block[:, span], weights).reshape(len(block), p, k - 1)
            # Value of the pair (a, b): rows of class a against b, and rows of b against a.
            values = np.moveaxis(sums[a, ..., b - 1] + sums[b, ..., a], 0, -1) + intercepts
            truth = self._index[validation[rows]]
            wrong[rows] = self._winners(values) != truth[:, None]
        return Losses(self._sums(wrong, validation), solved, is_support.mean(axis=0), largest_coef)

    def _winners(self, values: np.ndarray) -> np.ndarray:
        """Class numbers for values of the pairs : (..., pairs); positive is for the first class."""
        if self._k == 2:
            return (values[..., 0] <= 0.0).astype(np.intp)
        first, second = np.eye(self._k, dtype=np.float32)[self._pairs.T]
        won = (values > 0.0).astype(np.float32)
        return np.argmax(matmul(won, first) + matmul(1.0 - won, second), axis=-1)


def _bisected(means: np.ndarray, classes: np.ndarray, n_groups: int) -> list[np.ndarray]:
    """`n_groups` groups of classes, halved again and again by the principal axis of their means.

    means : (k, d) of all classes, classes : (q,) class numbers to be divided
    """
    if n_groups == 1:
        return [classes]
    centred = means[classes] - means[classes].mean(axis=0)
    axis = np.linalg.svd(centred, full_matrices=False)[2][0]
    ordered = classes[np.argsort(matmul(centred, axis), kind="stable")]
    first = n_groups // 2
    boundary = len(classes) * first // n_groups
    return _bisected(means, ordered[:boundary], first) + _bisected(
        means, ordered[boundary:], n_groups - first
    )


def centre_and_scale(y: np.ndarray) -> tuple[float, float, float]:
    """Centre and scale of the targets, and the largest error that counts, in units of the scale.

    Mean, deviation and infinity; for heavy-tailed targets, whose deviation is much larger than
    their interquartile range suggests, median, robust deviation and `constants.LARGEST_ERROR`.
    With the mean and the deviation, few of these targets would decide which model is best, and a
    tube that is a fraction of the deviation would hold all others.
    """
    low, median, high = np.quantile(y, (0.25, 0.5, 0.75))
    deviation, robust = float(y.std()), float(high - low) / constants.NORMAL_IQR
    if 0.0 < robust < deviation / constants.HEAVY_TAILS:
        return float(median), robust, constants.LARGEST_ERROR
    return float(y.mean()), deviation if deviation > 0.0 else 1.0, np.inf


class Regression:
    """Targets with mean 0 and deviation 1; the error is the mean squared error.

    For heavy-tailed targets (`centre_and_scale`) median and robust deviation replace them, and
    errors are clipped at `constants.LARGEST_ERROR` robust deviations of the targets. After the
    first rung, if targets or errors have heavy tails, the limit is as many robust deviations of its
    best model's errors. Without the limit, few wrong targets would decide which model is best, and
    a tube that is a fraction of the RMSE would hold all other errors.

    Parameters
    ----------
    y : (n,) targets
    epsilon : Half the width of the tube of the first rung, in deviations of y
    factor : (n,), optional. Positive factors of C, the weights of the rows, of mean 1.

    Attributes
    ----------
    epsilon : Half the width of the current tube, in deviations of y
    z : (n,). The targets with mean 0 and deviation 1.
    mean, scale_of_c : float
        Mean and deviation of y. C and epsilon of the search, times the deviation, are those for y.
    largest_error : float
        Larger errors of a row are clipped to it, in deviations of y; infinite without heavy tails.
    """

    # A model takes longer than of classes: nearly all rows are support vectors, and C is large
    # where the targets have little noise. So the last rung is smaller.
    last_rung_values = constants.SAMPLE_VALUES
    steps_per_row = constants.STEPS
    _is_adapted = False

    def __init__(self, y: np.ndarray, epsilon: float, factor: np.ndarray | None = None) -> None:
        self._factor = factor
        self.mean, self.scale_of_c, self.largest_error = centre_and_scale(y)
        self.z = (y - self.mean) / self.scale_of_c
        self.epsilon = epsilon
        # Quantiles of absolute errors on the first rung, by gamma and C.
        self._quantiles: defaultdict[tuple[float, float], list[float]] = defaultdict(list)
        self._set_constant_error()

    def _set_constant_error(self) -> None:
        # Without heavy tails the deviation of z is 1, but for rounding.
        is_heavy_tailed = np.isfinite(self.largest_error)
        self.constant_error = float(self._squares(self.z).mean()) if is_heavy_tailed else 1.0

    def _squares(self, errors: np.ndarray) -> np.ndarray:
        """Losses of errors, in the unit of `z`."""
        return np.minimum(np.abs(errors), self.largest_error) ** 2

    def order(self, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(len(self.z))

    def representatives(self, order: np.ndarray) -> np.ndarray:
        return order[:0]

    subproblem_factor = 1.0

    def subproblems(
        self, rows: PreparedRows, training: np.ndarray, validation: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(training, validation)]

    def adapt(self, error: float) -> None:
        """Widen the tube to a fraction of the first rung's RMSE, which saves steps.

        For heavy-tailed targets or errors the robust deviation of the errors replaces the RMSE.
        """
        deviation = float(np.sqrt(error))
        if self._quantiles:
            quantile = min(float(np.mean(values)) for values in self._quantiles.values())
            robust = max(quantile / constants.NORMAL_QUANTILE, self.epsilon)
            if np.isfinite(self.largest_error) or robust < deviation / constants.HEAVY_TAILS:
                self.largest_error = min(self.largest_error, constants.LARGEST_ERROR * robust)
                deviation = min(deviation, robust)
                self._set_constant_error()
        self.epsilon = max(self.epsilon, constants.TUBE_OF_ERROR * deviation)
        self._is_adapted = True

    def arranged(self, training: np.ndarray) -> np.ndarray:
        return training

    def constant_losses(self, training: np.ndarray, validation: np.ndarray) -> np.ndarray | None:
        return None

    def losses_of(self, predicted: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self._squares((predicted - self.mean) / self.scale_of_c - self.z[rows])

    def losses(
        self,
        gram: Gram,
        gamma: float,
        Cs: Sequence[float],
        training: np.ndarray,
        validation: np.ndarray,
        max_steps: int,
        deadline: Deadline,
        narrower_tubes: Sequence[float] = (),
    ) -> Losses:
        """As in `SearchTargets`; the last C is then solved with each narrower tube, too."""
        factor = np.ones(len(training)) if self._factor is None else self._factor[training]
        problem = regression_problem(stored(gram.matrix(gamma)), self.z[training], factor)
        solutions = in_time(
            along_c(
                problem,
                Cs,
                tol=constants.TOL_OF_TARGETS,
                max_steps=max_steps,
                climb_steps=int(constants.CLIMB_STEPS * max_steps),
                epsilon=self.epsilon,
                narrower_tubes=narrower_tubes,
                deadline=deadline,
            )
        )
        coef = np.array([solution.coef for solution in solutions]).T
        support = np.flatnonzero(coef.any(axis=1))
        intercepts = np.array([solution.intercept for solution in solutions])
        weights = coef[support].astype(np.float32)
        errors = np.empty((len(validation), len(solutions)))
        for rows, block in gram.blocks(gamma, support):
            errors[rows] = matmul(block, weights) + intercepts - self.z[validation[rows], None]
        if not self._is_adapted:
            for C, quantile in zip(
                Cs, np.quantile(np.abs(errors), constants.ERROR_QUANTILE, axis=0), strict=False
            ):
                self._quantiles[gamma, C].append(float(quantile))
        squares = self._squares(errors)
        n_rows = np.full(len(solutions), len(validation))
        sums = [squares.sum(axis=0), (squares**2).sum(axis=0), n_rows]
        solved = np.array([solution.solved for solution in solutions])
        every_c = np.array([*Cs, *[Cs[-1]] * len(narrower_tubes)])[: len(solutions)]
        largest_coef = (np.abs(coef) / factor[:, None]).max(axis=0) / every_c
        return Losses(np.column_stack(sums), solved, np.mean(coef != 0.0, axis=0), largest_coef)
