"""NORMA: kernel machines by stochastic gradient descent in function space.

Kivinen, Smola and Williamson, "Online Learning with Kernels" (IEEE Transactions on Signal
Processing 52, 2004), section II, with batches of b rows:

    f <- (1 - eta_t nu) f - (eta_t / b) sum_i l'(f(x_i), y_i) k(x_i, .),    eta_t = theta / (nu t)
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.methods.base.one_vs_rest import BinaryProblems
from kbench.methods.stochastic.kernel_passes import KernelPasses
from kbench.solvers.stochastic.losses import LOSSES
from kbench.validated import POSITIVE, choice, integer


@dataclass(eq=False, repr=False, kw_only=True)
class NORMA(KernelPasses):
    """Kernel machine by functional gradient steps on batches, without intercept.

    More than two classes are one-vs-rest.

    Parameters
    ----------
    nu : float, default=1e-4
        Regularisation: the fit minimises nu/2 ||f||^2 + mean loss. Set by hand.
    loss : {"hinge", "smoothed_hinge", "log"}, default="hinge"
    theta : float, default=1.0
        Factor of the step sizes eta_t = theta / (nu t), t = 1, 2, ... Set by hand.
    batch_size : int, default=64
        Largest number of rows of a step. Set by hand.
    n_epochs : int or None, default=None
        Passes over the rows; None means one pass, or as many passes as have 2,000 batches.
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
    O(n^2 d) time for a pass, O(n (d + m)) memory, O(s d) to predict a row.
    `fit` passes over the rows `n_epochs` times, each time in another random order, and reports the
    number of rows seen and the model to the trace after each batch. With `partial_fit` the first
    chunk determines gamma="scale" and "auto", and time grows with the expansion.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import NORMA
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NORMA(batch_size=50, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelPasses._parameter_constraints,
        "n_epochs": [integer(1), None],
        "loss": [choice("hinge", "smoothed_hinge", "log")],
        "theta": [POSITIVE],
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        *KernelPasses.read_by_every_chunk,
        "loss",
        "nu",
        "theta",
    }

    loss: str = "hinge"
    theta: float = 1.0
    batch_size: int = 64
    n_epochs: int | None = None

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
        eta = self.theta / (self.nu * (t + 1))
        weight = targets.C[batch] * (self.nu * n)
        gradient = LOSSES[self.loss].gradient(F, targets.Y[batch])
        if t:
            coef *= 1.0 - eta * self.nu
        coef[batch] -= eta / len(batch) * weight[:, None] * gradient
