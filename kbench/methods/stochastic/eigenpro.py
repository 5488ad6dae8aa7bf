"""EigenPro 2: kernel regression by stochastic gradients in a kernel with lowered eigenvalues.

Ma and Belkin, "Kernel Machines That Adapt to GPUs for Effective Large Batch Training" (MLSys 2019);
the algorithm is `kbench.solvers.ridge.eigenpro`.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeRegressorMixin
from kbench.methods.stochastic.ridge_descent import RidgeDescent
from kbench.solvers.ridge.eigenpro import solve_eigenpro
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.validated import NOT_NEGATIVE, choice, integer

# The paper's sample for the eigenvectors: 2,000 rows if there are at most 100,000, else 12,000.
_MAX_ROWS_OF_SMALL_SAMPLE, _SMALL_SAMPLE, _LARGE_SAMPLE = 100_000, 2_000, 12_000
# Seconds that the eigenvectors of s rows take, divided by s^3: 12,000 rows take 170 s on one core;
# and the fraction of `max_time` that they may take, which leaves the rest for the steps. Both are
# set by hand.
_SECONDS_PER_CUBE, _FRACTION_OF_TIME = 1e-10, 0.25


@dataclass(eq=False, repr=False)
class EigenProRidge(RidgeDescent):
    """Kernel regression by EigenPro 2; base of the regressor and the classifier.

    The parameters and attributes that are not listed are those of `RidgeDescent`.

    Parameters
    ----------
    alpha : float or "loo", default="loo"
        As in `RidgeDescent`, or 0 as in the paper, which regularises by `max_iter` alone.
    batch_size : int, default=1024
        Largest number of rows of a step. The paper takes as many as fill a GPU; a core needs fewer.
        Set by hand.
    subsample_size : int or None, default=None
        s, the number of rows from whose kernel matrix eigenvectors are computed; None is the
        paper's 2,000 for up to 100,000 rows and 12,000 for more, but at most as many as take a
        quarter of `max_time`.
    n_directions : int or None, default=None
        q: the q - 1 largest eigenvalues are lowered to the q-th, so 1 lowers none. None is the
        largest q, up to 401, for which the critical batch size of the lowered kernel, above which
        larger batches do not save steps, is at most `batch_size`.
    max_iter : int, default=2000
        Largest number of steps, of `batch_size` rows each. Set by hand.

    Attributes
    ----------
    step_size_ : float
        eta of the last step; if the descent diverges, it begins anew with half of eta.
    directions_, subsample_size_ : float
        q and s

    Notes
    -----
    O(s^3) time to begin with; a step takes b (n + s) kernel values for b rows. Memory is
    O(n m + s^2) for m targets. Prediction costs O(n d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeDescent._parameter_constraints,
        "alpha": [NOT_NEGATIVE, choice("loo")],
        "batch_size": [integer(1)],
        "subsample_size": [integer(1), None],
        "n_directions": [integer(1), None],
    }

    _: KW_ONLY
    batch_size: int = 1024
    subsample_size: int | None = None
    n_directions: int | None = None
    max_iter: int = 2000

    def _descend(self, kernel: KernelMatrix, Y: np.ndarray, **limits: Any) -> DescentResult:
        n = len(kernel)
        size = self.subsample_size
        if size is None:
            size = _SMALL_SAMPLE if n <= _MAX_ROWS_OF_SMALL_SAMPLE else _LARGE_SAMPLE
            if self.max_time is not None:
                seconds = _FRACTION_OF_TIME * self.max_time
                size = min(size, max(1, int((seconds / _SECONDS_PER_CUBE) ** (1 / 3))))
        return solve_eigenpro(
            kernel,
            Y,
            self.alpha_,
            batch_size=min(self.batch_size, n),
            subsample_size=min(size, n),
            n_directions=self.n_directions,
            **limits,
        )


class EigenProRegressor(RidgeRegressorMixin, EigenProRidge):
    """Kernel regression by EigenPro 2; parameters and attributes as in `EigenProRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import EigenProRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = EigenProRegressor(0.1, gamma=50.0, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """


@dataclass(eq=False, repr=False)
class EigenProClassifier(RidgeClassifierMixin, EigenProRidge):
    """Classification by EigenPro 2; parameters and attributes as in `EigenProRidge`."""
