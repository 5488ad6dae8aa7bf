"""Majority vote of support vector classifiers of random parts of the rows."""

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from kbench.methods._box_svc import BoxSVC
from kbench.methods._parts import Part, solve_parts
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Deadline, Trace


class BaggingSVC(BoxSVC):
    """`n_estimators` kernel machines, each of n / `n_estimators` random rows, and their vote.

    The comparison of the DC-SVM paper for early prediction: as many machines of as many rows, but
    of random rows and all asked. Each machine's rows are drawn without replacement, independently
    of the others'.

    Parameters
    ----------
    n_estimators : int, default=64
    C : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    cache_mb : float, default=200.0
    class_weight : dict, "balanced" or None, default=None
    max_iter : int, default=-1
        Of each binary problem of each machine.
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    shrinking : bool, default=True
        From `C` on as in `KernelSVC`.
    random_state : int, RandomState or None, default=None
        Of the rows.
    n_jobs : int or None, default=None
        Machines trained at once, through joblib; None is 1 (unless a joblib backend says other).
        The result does not depend on it.

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (n_sv,) ints
        Rows that support some machine.
    n_support_ : (n_classes,) ints
    samples_ : list of (ceil(n / n_estimators),) ints
        Rows of each machine.
    n_iter_, objective_, violation_, converged_
        As in `KernelSVC`, over all machines (objective_ is their sum).
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "prepare" and "train".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    Training takes about 1 / n_estimators of the kernel values of the exact machine. Prediction
    costs O(d) for each support vector of each machine. `decision_function` is the balance of votes,
    from -1 to 1; with several classes, the share of each.

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

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_estimators: int = 64,
        *,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_mb: float = 200.0,
        class_weight: dict | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        dtype: str = "float32",
        shrinking: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.cache_mb = cache_mb
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.dtype = dtype
        self.shrinking = shrinking
        self.random_state = random_state
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Draw the rows and train the machines.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) labels
        sample_weight : (n,), optional
            Multiplies C row by row.
        trace : Trace, optional
            Told the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            More machines than rows, and what `KernelSVC` refuses.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.max_time, trace)
        with trace.phase("prepare"):
            problem = self._problem(X, y, sample_weight)
            n, m = problem.Y.shape
            if self.n_estimators > n:
                raise ValueError(
                    f"n_estimators={self.n_estimators} is more than the {n} training points"
                )
            rng = check_random_state(self.random_state)
            size = -(-n // self.n_estimators)
            self.samples_ = [
                np.sort(rng.choice(n, size, replace=False)) for _ in range(self.n_estimators)
            ]
        with trace.phase("train"):
            parts = solve_parts(
                problem,
                [Part(rows, np.zeros((size, m))) for rows in self.samples_],
                deadline=deadline,
                n_jobs=self.n_jobs,
                **self._solver_options(),
            )
        with trace.phase("prepare"):
            results = [result for part in parts for result in part.results]
            total = np.zeros((n, m))
            for part in parts:
                total[part.rows] += part.alpha
            self._finish(problem, total, results)
            # A coefficient of the vote there is none: each machine has its own.
            del self.dual_coef_
            machines = []
            for part in (part.support for part in parts):
                coef = part.alpha * problem.Y[part.rows]
                dtype = prediction_dtype(problem.kernel, coef)
                machines.append(KernelExpansion(problem.kernel, part.rows, coef, dtype))
            self._machine = Vote(machines, m)
        self.kernel_entries_ = problem.kernel.n_entries
        self.model_bytes_ = sum(machine.nbytes for machine in machines)
        self.timings_ = dict(trace.timings)
        return self


class Vote:
    """Share of the machines that decide for a class; of two classes, the balance of the shares.

    Parameters
    ----------
    machines : sequence of KernelExpansion
    n_outputs : int
        m
    """

    def __init__(self, machines: Sequence[KernelExpansion], n_outputs: int) -> None:
        self.machines = machines
        self.n_outputs = n_outputs

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
