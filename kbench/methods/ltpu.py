"""Network of locally-tuned processing units, trained as a linear support vector machine: LTPU."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from kbench.approximation import FeatureMap, LandmarkFeatures
from kbench.methods._linearised import LinearisedSVC


class LTPU(LinearisedSVC):
    """Radial basis function network without intercept.

    1. Centres c_j: centroids of a few iterations of k-means on `n_samples` rows.
    2. Units z_j(x) = k(x, c_j), by default exp(-gamma ||x - c_j||^2), all of one width.
    3. Output weights: a linear support vector machine on the units.

    As it stands in the comparisons of the DC-SVM paper. The penalty is on the weights of the units
    and not, as in a kernel machine, on the norm of the function.

    Parameters
    ----------
    n_components : int, default=3000
        Centres; all rows where there are fewer.
    C : float, default=1.0
        Weight of the loss, multiplied by the weights of row and class.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    landmarks : {"kmeans", "uniform"}, default="kmeans"
        "uniform": rows drawn without replacement.
    n_samples : int, default=20000
        Rows that k-means works on.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    tol : float, default=0.1
        On max PG - min PG of the dual, as in LIBLINEAR.
    max_iter : int, default=1000
        Passes over all points.
    class_weight : dict, "balanced" or None, default=None
    memory_mb : float, default=4096.0
        MiB of features that are held; beyond, they are computed anew for every pass.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    feature_map_ : LandmarkFeatures
    coef_ : (1, r) or (n_classes, r)
        w, by features.
    n_support_ : (n_classes,) ints
        Rows of each class with a dual variable that is not zero.
    objective_, duality_gap_, violation_ : float
        Of the linear dual; the first two summed over problems.
    n_iter_ : int
    converged_ : bool
    kernel_entries_ : int
        Kernel values between rows and centres computed in `fit`.
    n_parameters_, model_bytes_ : int
        Numbers that describe the map and w; bytes that prediction keeps.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (centres), "features", "solve".
    n_features_in_ : int

    Notes
    -----
    O(n m d) time with m centres and O(n m) for a pass; 4 n m bytes up to `memory_mb`. Prediction
    costs O(m d) a row.

    References
    ----------
    J. Moody, C. J. Darken, "Fast Learning in Networks of Locally-Tuned Processing Units", Neural
    Computation 1, 1989.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import LTPU
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LTPU(300, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **LinearisedSVC._parameter_constraints,
        **{
            name: LandmarkFeatures._parameter_constraints[name]
            for name in ("kernel", "degree", "coef0", "landmarks", "n_samples")
        },
    }

    def __init__(
        self,
        n_components: int = 3000,
        *,
        C: float = 1.0,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: str = "kmeans",
        n_samples: int = 20000,
        loss: str = "hinge",
        tol: float = 0.1,
        max_iter: int = 1000,
        class_weight: dict | str | None = None,
        memory_mb: float = 4096.0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.n_samples = n_samples
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.memory_mb = memory_mb
        self.random_state = random_state

    def _feature_map(self, seed: int) -> FeatureMap:
        return LandmarkFeatures(
            self.n_components,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            landmarks=self.landmarks,
            n_samples=self.n_samples,
            random_state=seed,
        )
