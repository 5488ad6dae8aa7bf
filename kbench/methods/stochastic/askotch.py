"""ASkotch and Skotch: full kernel ridge regression by preconditioned block steps.

Rathore, Frangella, Yang, Derezinski and Udell, "Have ASkotch: A Neat Solution for Large-scale
Kernel Ridge Regression" (arXiv 2407.10070); the algorithm is `kbench.solvers.ridge.askotch`.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.approximation.clipped import clipped
from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeRegressorMixin
from kbench.methods.stochastic.ridge_descent import RidgeDescent
from kbench.solvers.ridge.askotch import solve_askotch
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.validated import POSITIVE, integer

# Least number of rows of a block, which is a hundredth of the rows in the paper. Smaller blocks
# take more steps and as much time (`scripts/bench_ridge_descent.py`).
_MIN_BLOCK_ROWS = 100


@dataclass(eq=False, repr=False)
class ASkotchRidge(RidgeDescent):
    """Kernel ridge by ASkotch; base of the regressor and the classifier.

    The parameters and attributes that are not listed are those of `RidgeDescent`.

    Parameters
    ----------
    block_size : int or None, default=None
        b, rows of a step. None is n / 100 as in the paper, but at least 100.
    rank : int, default=100
        r of the block's Nystrom approximation, as in the paper. A larger r saves steps, each of
        which takes longer.
    accelerated : bool, default=True
        False is Skotch: the same steps without momentum.
    damping : bool, default=True
        Whether the preconditioner's ridge is alpha plus the smallest eigenvalue of the
        approximation; False is alpha alone.
    mu, nu : float or None, default=None
        Parameters of the acceleration. None is the paper's choice: mu = alpha, here at most b / n,
        and nu = n / b.

    Attributes
    ----------
    mu_, nu_ : float
        Values of the last step; nu is doubled if the descent diverges.

    Notes
    -----
    A step takes b (n + b) kernel values and O(b^2 r) time; memory is O(n m + b^2). Prediction costs
    O(n d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeDescent._parameter_constraints,
        "block_size": [integer(1), None],
        "rank": [integer(1)],
        "accelerated": ["boolean"],
        "damping": ["boolean"],
        "mu": [POSITIVE, None],
        "nu": [POSITIVE, None],
    }

    _: KW_ONLY
    block_size: int | None = None
    rank: int = 100
    accelerated: bool = True
    damping: bool = True
    mu: float | None = None
    nu: float | None = None

    def _descend(self, kernel: KernelMatrix, Y: np.ndarray, **limits: Any) -> DescentResult:
        n = len(kernel)
        if self.block_size is None:
            block_rows = min(n, max(_MIN_BLOCK_ROWS, n // 100))
        else:
            block_rows = clipped("block_size", self.block_size, n)
        return solve_askotch(
            kernel,
            Y,
            self.alpha_,
            block_size=block_rows,
            rank=self.rank,
            accelerated=self.accelerated,
            damped=self.damping,
            mu=self.mu,
            nu=self.nu,
            **limits,
        )


class ASkotchRegressor(RidgeRegressorMixin, ASkotchRidge):
    """Kernel ridge regression by ASkotch; parameters and attributes as in `ASkotchRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import ASkotchRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ASkotchRegressor(0.1, gamma=50.0, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """


@dataclass(eq=False, repr=False)
class ASkotchClassifier(RidgeClassifierMixin, ASkotchRidge):
    """Kernel ridge classification by ASkotch; parameters and attributes as in `ASkotchRidge`."""
