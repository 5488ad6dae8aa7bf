"""Stochastic dual coordinate ascent with kernels (k-SDCA), for the hinge loss.

Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization" (JMLR 14, 2013), procedure SDCA-Perm. With f = sum_i y_i a_i k(x_i, .) and
0 <= a_i <= C = 1 / (nu n), a step maximises the dual exactly in the coordinate of a row:

    a_i <- clip(a_i + (1 - y_i f(x_i)) / k(x_i, x_i), 0, C)
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.methods.base.one_vs_rest import BinaryProblems
from kbench.methods.stochastic.kernel_passes import KernelPasses


@dataclass(eq=False, repr=False, kw_only=True)
class KernelSDCA(KernelPasses):
    """Kernel support vector machine by random passes of exact dual steps, without intercept.

    More than two classes are one-vs-rest.

    Parameters
    ----------
    nu : float, default=1e-4
        Regularisation: the fit minimises nu/2 ||f||^2 + mean hinge loss. Set by hand.
    batch_size : int, default=1024
        Number of rows whose function values are computed together. Set by hand.
    n_epochs : int, default=5
        Passes over the rows. Set by hand.
    max_time : float or None, default=None
        Seconds after which the fit ends.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    class_weight, probability
        As in `KernelSVC`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    support_ : (s,) ints
        Rows with a non-zero coefficient.
    dual_coef_ : (m, s) float64
    n_support_ : (n_classes,) ints
    n_iter_ : int
        Number of batches.
    kernel_entries_, model_bytes_ : int
    timings_ : dict of str to float
        Seconds of "prepare", "step".
    n_features_in_ : int

    Notes
    -----
    The steps of a batch are taken one after the other, with the kernel matrix of the batch, so that
    the batch size changes only the speed. O(n^2 d) time for a pass, O(n (d + m)) memory. `fit`
    passes over the rows in another random order each time, and reports the number of rows seen and
    the model to the trace after each batch. With `partial_fit` the first chunk determines
    gamma="scale" and "auto", and time grows with the expansion.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import KernelSDCA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelSDCA(gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    batch_size: int = 1024
    n_epochs: int = 5

    def _step(
        self,
        t: int,
        batch: np.ndarray,
        F: np.ndarray,
        coef: np.ndarray,
        targets: BinaryProblems,
        matrix: KernelMatrix,
        n: int,
    ) -> None:
        K = matrix.block(batch, matrix.points(batch))
        alpha = coef[batch] * targets.Y[batch]
        ascend(K, targets.Y[batch], targets.C[batch], alpha, F)
        coef[batch] = alpha * targets.Y[batch]

    def _scaled_stream_coef(self, coef: np.ndarray, n_before: int, n: int) -> np.ndarray:
        # Dual variables shrink with their bound 1 / (nu n).
        return coef * (n_before / n)


@njit(cache=True)
def ascend(K, Y, C, alpha, F):
    """Take one step at each of b rows, in order, for m problems; changes alpha and F in place.

    K : (b, b), kernel matrix of the rows; Y, alpha, F : (b, m), signs, dual variables and values of
    f; C : (b,), upper bounds.
    """
    b, m = Y.shape
    for i in range(b):
        if K[i, i] <= 0.0:
            continue
        for j in range(m):
            step = (1.0 - Y[i, j] * F[i, j]) / K[i, i]
            new_alpha = min(max(alpha[i, j] + step, 0.0), C[i])
            change = Y[i, j] * (new_alpha - alpha[i, j])
            if change != 0.0:
                alpha[i, j] = new_alpha
                for k in range(i + 1, b):
                    F[k, j] += change * K[i, k]
