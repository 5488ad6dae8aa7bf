"""Stochastic dual descent: full kernel ridge regression by random coordinates.

Lin, Padhy, Antoran, Tripp, Terenin, Szepesvari, Hernandez-Lobato and Janz, "Stochastic Gradient
Descent for Gaussian Processes Done Right" (ICLR 2024, arXiv 2310.20581); the algorithm is
`kbench.solvers.ridge.stochastic_dual`.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeRegressorMixin
from kbench.methods.stochastic.ridge_descent import RidgeDescent
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.solvers.ridge.stochastic_dual import solve_stochastic_dual
from kbench.validated import POSITIVE, integer, real


@dataclass(eq=False, repr=False)
class SDDRidge(RidgeDescent):
    """Kernel ridge by stochastic dual descent; base of the regressor and the classifier.

    The parameters and attributes that are not listed are those of `RidgeDescent`.

    Parameters
    ----------
    batch_size : int, default=512
        Largest number of rows of a step. Set by hand; `momentum` is the paper's.
    step_size : float or None, default=None
        beta n of the paper, which tries 1, 5, 10, 50, ... None is a bound on the stable step sizes
        for this momentum, computed from the diagonal of the kernel matrix and the largest
        eigenvalue of the matrix of 512 rows.
    momentum : float, default=0.9
    averaging : float or None, default=None
        Weight r of the last coefficients in their geometric average, which is the model; None is
        the paper's 100 / max_iter, at most 1.
    max_iter : int, default=2000
        T, the largest number of steps. Set by hand; the paper takes 100,000 on its large data sets.

    Attributes
    ----------
    step_size_ : float
        Step size of the last step; if the descent diverges, it begins anew with half of it.

    Notes
    -----
    A step takes b n kernel values; memory is O(n m). Prediction costs O(n d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeDescent._parameter_constraints,
        "batch_size": [integer(1)],
        "step_size": [POSITIVE, None],
        "momentum": [real(0, 1, closed="left")],
        "averaging": [real(0, 1, closed="right"), None],
    }

    _: KW_ONLY
    batch_size: int = 512
    step_size: float | None = None
    momentum: float = 0.9
    averaging: float | None = None
    max_iter: int = 2000

    def _descend(self, kernel: KernelMatrix, Y: np.ndarray, **limits: Any) -> DescentResult:
        return solve_stochastic_dual(
            kernel,
            Y,
            self.alpha_,
            batch_size=min(self.batch_size, len(kernel)),
            step_size=self.step_size,
            momentum=self.momentum,
            averaging=self.averaging,
            **limits,
        )


class SDDRegressor(RidgeRegressorMixin, SDDRidge):
    """Kernel ridge regression by stochastic dual descent; parameters as in `SDDRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import SDDRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SDDRegressor(0.1, gamma=50.0, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """


@dataclass(eq=False, repr=False)
class SDDClassifier(RidgeClassifierMixin, SDDRidge):
    """Kernel ridge classification by stochastic dual descent; parameters as in `SDDRidge`."""
