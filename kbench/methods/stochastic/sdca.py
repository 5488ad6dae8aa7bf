"""Stochastic dual coordinate ascent on random Fourier or Nystrom features (r-SDCA, n-SDCA).

Shalev-Shwartz and Zhang, "Stochastic Dual Coordinate Ascent Methods for Regularized Loss
Minimization" (JMLR 14, 2013), procedure SDCA-Perm. With C = 1 / (nu n) its steps are those of
LIBLINEAR's dual coordinate descent, so `kbench.solvers.linear.linear_dual` does the passes.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.approximation import FeatureMap, Nystrom, RandomFourierFeatures
from kbench.intrinsics.products import matmul
from kbench.kernels.constraints import kernel_constraints
from kbench.methods.approximate.feature_svc import FeatureSVC
from kbench.methods.base.one_vs_rest import LabelledChunk
from kbench.methods.stochastic.k_sdca import ascend
from kbench.methods.stochastic.mean_loss import MeanLoss
from kbench.validated import choice, integer

# Rows per block of a stream: larger blocks need fewer calls, but their matrix of float64 inner
# products, 2 MiB here, grows with the square. Set by hand.
_STREAM_ROWS = 512


@dataclass(eq=False, repr=False)
class SDCAClassifier(MeanLoss, FeatureSVC):
    """Linear model on features of a kernel by dual coordinate ascent, pass by pass.

    Minimises nu/2 ||w||^2 + mean loss, without intercept; more than two classes are one-vs-rest.

    Parameters
    ----------
    n_components : int, default=256
        Number of features; for Nystrom, number of landmarks. Set by hand.
    features : {"fourier", "nystrom"}, default="fourier"
    nu : float, default=1e-4
    max_iter : int, default=20
        Number of passes over the rows, each in another random order. Like `nu`, set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between passes.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    tol : float, default=1e-3
        The fit ends when max PG - min PG is below `tol` for the projected gradient PG of the dual
        with C = 1 / (nu n). Set by hand.
    kernel : str, default="rbf"
        A kernel of `kbench.kernels.KERNELS` that has a spectrum.
    gamma : float or {"scale", "auto"}, default="scale"
    class_weight, probability
        As in `KernelSVC`.
    memory_mb : float, default=4096.0
        Memory for the features of all rows, in MiB. If they need more, they are computed again in
        every pass. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_, feature_map_, coef_, n_support_, objective_, duality_gap_, violation_, n_iter_, \
converged_, n_parameters_, model_bytes_, timings_, n_features_in_
        As in `LinearizedSVC`, for the dual with C = 1 / (nu n).

    Notes
    -----
    Each step uses the result of earlier steps, so that it cannot overshoot. A pass with r
    features takes O(n r (d + 1)) time. 256 random features approximate the kernel of rows with
    several hundred columns poorly.
    `partial_fit` takes an exact dual step at each row of a chunk. The bound of the dual variables
    is 1 / (nu n) for n rows so far, so the variables of earlier rows shrink as n grows. The first
    chunk determines the kernel's width and the landmarks.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import SDCAClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     model = SDCAClassifier(512, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **FeatureSVC._parameter_constraints,
        **MeanLoss._parameter_constraints,
        "n_components": [integer(1)],
        "features": [choice("fourier", "nystrom")],
        **kernel_constraints("spectrum"),
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        *MeanLoss.read_by_every_chunk,
        "loss",
        "max_iter",
        "memory_mb",
        "tol",
    }

    n_components: int = 256
    _: KW_ONLY
    features: str = "fourier"
    max_iter: int = 20
    loss: str = "hinge"
    tol: float = 1e-3
    kernel: str = "rbf"
    gamma: float | str = "scale"
    memory_mb: float = 4096.0

    def _checked_chunk(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> LabelledChunk:
        if self.loss != "hinge":
            raise ValueError(f"partial_fit needs loss='hinge', got {self.loss!r}")
        return super()._checked_chunk(X, y, classes, sample_weight)

    def _learn(self, chunk: LabelledChunk) -> None:
        w, n_before = self._stream_coef(chunk), getattr(self, "n_seen_", 0)
        n = n_before + len(chunk.Y)
        w *= n_before / n  # all dual variables shrink with their bound 1 / (nu n)
        for start in range(0, len(chunk.Y), _STREAM_ROWS):
            rows = slice(start, start + _STREAM_ROWS)
            Y, C = chunk.Y[rows], chunk.weight[rows] / (self.nu * n)
            Z = np.empty((len(Y), len(w)), np.float32)
            self.feature_map_.fill(chunk.X[rows], Z)
            alpha = np.zeros(Y.shape)
            ascend(matmul(Z, Z.T).astype(np.float64), Y, C, alpha, matmul(Z, w))
            w += matmul(Z.T, alpha * Y)
        self._set_machine(w)
        self.n_seen_, self.n_iter_ = n, 1

    def _feature_map(self, seed: int) -> FeatureMap:
        options: dict[str, Any] = {"kernel": self.kernel, "gamma": self.gamma, "random_state": seed}
        if self.features == "nystrom":
            return Nystrom(self.n_components, **options)
        return RandomFourierFeatures(self.n_components, form="cos_sin", **options)
