"""Majority vote of support vector classifiers, each fitted to a random sample of the rows.

The baseline of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
Machines" (ICML 2014), appendix, Table 6.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kbench.methods.base.box_svc import KernelProblems
from kbench.methods.base.dual_svc import DualFit, DualSVC, clipped_count, n_steps
from kbench.methods.base.parts import Part, solve_parts
from kbench.methods.base.sizes import number_of_groups
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Deadline, Trace
from kbench.validated import integer, usual


@dataclass(eq=False, repr=False)
class BaggingSVC(DualSVC):
    """Majority vote of `n_estimators` kernel machines of n / `n_estimators` random rows each.

    This is the baseline of the DC-SVM paper for early prediction: one model for each cluster there,
    but on random rows, and all models are evaluated. The rows of each model are drawn without
    replacement, independently of the other models.

    Parameters
    ----------
    n_estimators : int or None, default=None
        Number of models. None: one for each 500 rows, at most 64, but one for each 4,000 rows if
        there are more than 256,000 rows. More models than rows are reduced to the number of rows,
        with a warning.
    C, kernel, gamma, degree, coef0, tol, cache_mb, class_weight, probability, \
max_iter, max_time, dtype, \
shrinking
        As in `KernelSVC`, which calls `cache_mb` `cache_size`;
        `max_iter` limits each binary problem of each model.
    random_state : int, RandomState or None, default=None
        Seed of the samples.
    n_jobs : int or None, default=None
        Number of models trained in parallel through joblib; None is 1 unless a joblib backend
        sets another number. The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Support vectors of at least one model.
    n_support_ : (n_classes,) ints
    samples_ : list of (ceil(n / n_estimators),) ints
        Rows of each model.
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, over all models (`objective_` is the sum).
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "train".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    Training takes about 1 / n_estimators of the kernel values of the exact model. Prediction
    costs O(d) for each support vector of each model. `decision_function` is the mean of the votes
    -1 and 1; with several classes, the fraction of the votes for each class. There is no
    `dual_coef_`, because each model has its own coefficients.

    Each model sees n / n_estimators rows. If there are few rows, models of 500 rows each can be
    less accurate than a linear model of all rows (4,000 rows of covtype: 68 % against 74 %; the
    table of defaults in docs/tuned.md).

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014, appendix, Table 6.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import BaggingSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BaggingSVC(4, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    n_estimators: int | None = None
    _: KW_ONLY
    shrinking: bool = True
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        **DualSVC._parameter_constraints,
        "n_estimators": [integer(1), None],
        **usual("n_jobs", "shrinking"),
    }

    def _train(self, problem: KernelProblems, deadline: Deadline, trace: Trace) -> DualFit:
        n = len(problem.Y)
        with trace.phase("prepare"):
            n_estimators = number_of_groups(self.n_estimators, n)
            n_estimators = clipped_count("n_estimators", n_estimators, n, n)
            rng = check_random_state(self.random_state)
            sample_rows = -(-n // n_estimators)
            self.samples_ = [
                np.sort(rng.choice(n, sample_rows, replace=False)) for _ in range(n_estimators)
            ]
        with trace.phase("train"):
            parts = solve_parts(
                problem,
                [Part.zero(problem, rows) for rows in self.samples_],
                deadline=deadline,
                n_jobs=self.n_jobs,
                **self._solver_options(),
            )

        def make_vote(alpha: np.ndarray) -> Vote:
            del self.dual_coef_
            machines = []
            for part in (part.support for part in parts):
                coef = part.alpha * problem.Y[part.rows]
                dtype = prediction_dtype(problem.kernel, coef)
                machines.append(KernelExpansion(problem.kernel, part.rows, coef, dtype))
            return Vote(machines, problem.Y.shape[1])

        return DualFit(parts, n_steps(parts), make_vote)


@dataclass(eq=False, repr=False)
class Vote:
    """Fraction of the models that decide for each class; for two classes, the mean of -1 and 1.

    Parameters
    ----------
    machines : The decision functions of the models, X : (u, d) -> (u, n_outputs)
    n_outputs : m, which is 1 for two classes, else n_classes
    """

    machines: Sequence[KernelExpansion]
    n_outputs: int

    @property
    def nbytes(self) -> int:
        return sum(machine.nbytes for machine in self.machines)

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        return sum(machine.flops(n_features) for machine in self.machines)

    def __call__(self, X: Any) -> np.ndarray:
        """Votes at rows X : (u, d); (u, m) float64."""
        votes = np.zeros((X.shape[0], self.n_outputs))
        for machine in self.machines:
            values = machine(X)
            if self.n_outputs == 1:
                votes += np.where(values > 0, 1.0, -1.0)
            else:
                votes[np.arange(len(votes)), values.argmax(axis=1)] += 1.0
        return votes / len(self.machines)
