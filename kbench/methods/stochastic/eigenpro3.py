"""EigenPro 3: kernel ridge in the span of centres by preconditioned, projected stochastic steps.

Abedsoltan, Belkin and Pandit, "Toward Large Kernel Models" (ICML 2023). The algorithm is in
`kbench.solvers.ridge.eigenpro3`, and so is EigenPro 4, which projects after several steps.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.approximation.clipped import clipped
from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeRegressorMixin
from kbench.methods.stochastic.eigenpro import EigenProRidge
from kbench.methods.stochastic.ridge_descent import RidgeDescent
from kbench.solvers.ridge.eigenpro3 import solve_eigenpro3
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.validated import integer

# Least number of sampled centres for each direction. The paper's code has 10 (5,000 for 500). A
# larger number allows fewer directions, so that more passes follow; with 2 centres per direction
# the eigenvectors are noise and steps diverge (1,000 centres of cpusmall and kin40k). Set by hand.
_CENTRES_PER_DIRECTION = 5
# Largest number p of centres whose kernel matrix is decomposed for the exact projection: O(p^3)
# time and 8 p^2 bytes, about 10 s and 0.8 GB for 10,000 centres. Set by hand.
_MAX_EXACT_CENTRES = 10_000
# Passes of EigenPro 2 in an inexact projection: more project more exactly and take more kernel
# values. The number is that of the paper's code.
_PROJECTION_PASSES = 2


@dataclass(eq=False, repr=False)
class EigenPro3Ridge(RidgeDescent):
    """Kernel ridge in the span of centres by EigenPro 3; base of the regressor and the classifier.

    The parameters and attributes that are not listed are those of `RidgeDescent`.

    Parameters
    ----------
    alpha : float or "loo", default="loo"
        Weight of ||f||^2 against the sum of squared errors, as in `FalkonRidge`, whose problem is
        the same; or 0 as in the paper, which regularises by the centres and `max_iter` alone.
    n_components : int, default=1000
        p, the number of centres, which are rows drawn without replacement; at most the number of
        rows. Set by hand.
    batch_size : int or None, default=None
        m, largest number of rows of a step; None is the critical batch size of the preconditioned
        kernel, as in the paper, and at most the number of rows.
    subsample_size : int, default=5000
        s, largest number of centres whose kernel matrix is decomposed. This s and the largest q are
        those of the paper's code.
    n_directions : int, default=500
        Largest q: the eigenvalues above the q-th are lowered to the q-th. q is at most a fifth of
        the s centres, and smaller if batches are smaller than the critical batch size.
    projection_passes : int or None, default=None
        Passes of EigenPro 2 over the centres in each projection; 0 projects exactly. None is 0 for
        up to 10,000 centres, and 2 for more, as in the paper's code.
    projection_period : int, default=1
        T, steps between projections. 1 is EigenPro 3; a larger T is EigenPro 4 (arXiv 2411.16658),
        which saves projections and takes m^2 more kernel values for each step since the last
        projection. Each step of reduced variance is followed by a projection, whatever T is.
    variance_reduction : bool, default=True
        Whether steps have reduced variance (SAGA) once a pass no longer halves the residual, which
        is not in the paper. False: all steps are the paper's, whose coefficients converge only if f
        interpolates the targets.
    tol : float, default=1e-5
        Largest relative residual of the normal equations, with kernel values in float64. It weighs
        the leading eigenvectors most: at 1e-4 the error of the predictions may still fall. Set by
        hand.
    max_iter : int, default=50
        Largest number of passes over the rows. The paper's code makes 10 to 20, without a `tol`.

    Attributes
    ----------
    centres_ : (p,) ints
        The rows that are centres.
    dual_coef_ : (p, number of targets) float64
    n_iter_ : int
        Passes.
    step_size_ : float
        eta of the last step; if the descent diverges, it begins anew with half of eta.
    batch_size_, directions_ : float
        m and q of the descent.

    Notes
    -----
    O(s^3 + p s q + p^3) time to begin with (without p^3 if the projection is inexact); a pass takes
    n p kernel values, and each of its n / m steps O(p^2), or 2 p^2 kernel values for each pass of
    an inexact projection. Memory is O(n + p q), and 8 p^2 bytes for an exact projection.
    Prediction costs O(p d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeDescent._parameter_constraints,
        "alpha": EigenProRidge._parameter_constraints["alpha"],
        "n_components": [integer(1)],
        "batch_size": [integer(1), None],
        "subsample_size": [integer(1)],
        "n_directions": [integer(1)],
        "projection_passes": [integer(0), None],
        "projection_period": [integer(1)],
        "variance_reduction": ["boolean"],
    }

    _: KW_ONLY
    n_components: int = 1000
    batch_size: int | None = None
    subsample_size: int = 5000
    n_directions: int = 500
    projection_passes: int | None = None
    projection_period: int = 1
    variance_reduction: bool = True
    tol: float = 1e-5
    max_iter: int = 50

    def _centres(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        p = clipped("n_components", self.n_components, n)
        self.centres_ = np.sort(rng.choice(n, p, replace=False))
        return self.centres_

    def _descend(self, kernel: KernelMatrix, Y: np.ndarray, **limits: Any) -> DescentResult:
        n, p = len(kernel), len(self.centres_)
        n_passes = self.projection_passes
        if n_passes is None:
            n_passes = 0 if p <= _MAX_EXACT_CENTRES else _PROJECTION_PASSES
        s = min(self.subsample_size, p)
        return solve_eigenpro3(
            kernel,
            Y,
            self.alpha_,
            centres=self.centres_,
            batch_size=None if self.batch_size is None else min(self.batch_size, n),
            subsample_size=s,
            n_directions=min(self.n_directions, max(1, s // _CENTRES_PER_DIRECTION)),
            projection_passes=n_passes,
            projection_period=self.projection_period,
            variance_reduction=self.variance_reduction,
            **limits,
        )


class EigenPro3Regressor(RidgeRegressorMixin, EigenPro3Ridge):
    """Kernel regression by EigenPro 3; parameters and attributes as in `EigenPro3Ridge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import EigenPro3Regressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = EigenPro3Regressor(0.1, n_components=100, gamma=50.0, max_iter=200, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """


@dataclass(eq=False, repr=False)
class EigenPro3Classifier(RidgeClassifierMixin, EigenPro3Ridge):
    """Classification by EigenPro 3; parameters and attributes as in `EigenPro3Ridge`."""
