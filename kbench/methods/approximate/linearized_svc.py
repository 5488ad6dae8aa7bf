"""Linearised kernel machines: a linear support vector machine on explicit features.

`Nystrom(landmarks="kmeans")` gives LLSVM (Zhang, Lan, Wang and Moerchen, AISTATS 2012),
`RandomFourierFeatures` gives random kitchen sinks (Rahimi and Recht, NIPS 2007), `Fastfood` the
model of Le, Sarlos and Smola (ICML 2013), and `LandmarkFeatures(landmarks="kmeans")` the network of
locally-tuned processing units (Moody and Darken, Neural Computation 1, 1989), whose penalty is on
the weights of the units and not on the norm of a function.
"""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from sklearn.utils._param_validation import HasMethods

from kbench.approximation import FeatureMap, Nystrom
from kbench.methods.approximate.feature_svc import FeatureSVC
from kbench.methods.base.composition import fresh_part


@dataclass(eq=False, repr=False)
class LinearizedSVC(FeatureSVC):
    """Linear support vector machine, without intercept, on the features of a kernel.

    1. The feature map is fitted: landmarks are chosen, or frequencies drawn.
    2. A linear model is trained on the features z(x): the exact model of the kernel
       <z(x), z(x')>.

    Parameters
    ----------
    feature_map : kbench.approximation.FeatureMap or None, default=None
        `Nystrom`, `SpectralNystrom`, `RandomFourierFeatures`, `Fastfood`, `LandmarkFeatures`, ...;
        None is `Nystrom(1000, landmarks="kmeans")`, whose 1,000 landmarks are set by hand. The map
        is cloned before it is fitted. If its `random_state` is None, it gets a seed drawn from that
        of the estimator.
    C : float or "loo", default=1.0
        Weight of the loss, multiplied by the weights of row and class.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    tol : float, default=0.1
        Bound on max PG - min PG of the dual, as in LIBLINEAR.
    max_iter : int, default=1000
        Largest number of passes over all points, as in scikit-learn's `LinearSVC`.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between passes.
    class_weight, probability
        As in `KernelSVC`.
    memory_mb : float, default=4096.0
        MiB of features that are kept; more features are computed for every pass. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : (n_classes,)
    feature_map_ : FeatureMap
        The fitted map.
    coef_ : (1, r) or (n_classes, r)
        w, by features.
    n_support_ : (n_classes,) ints
        Rows of each class with a nonzero dual variable.
    objective_, duality_gap_, violation_ : float
        Values at the solution of the linear dual; objective and gap are sums over the one-vs-rest
        problems, the violation is the largest.
    n_iter_ : int
    converged_ : bool
    kernel_entries_ : int
        Kernel values between rows and landmarks computed in `fit`; absent without landmarks.
    n_parameters_, model_bytes_ : int
        Number of entries of the map and of w together; bytes that prediction needs.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (fitting the map), "features", "solve".
    n_features_in_ : int

    Notes
    -----
    A pass over n rows with r features costs O(n r); the features take 4 n r bytes up to
    `memory_mb`. Prediction folds the map's projection into w if it has one: with m landmarks it
    costs O(m d) a row, with r Fourier features O(r d), with Fastfood O(r log d).

    References
    ----------
    K. Zhang, L. Lan, Z. Wang, F. Moerchen, "Scaling up Kernel SVM on Limited Resources: A Low-Rank
    Linearization Approach", AISTATS 2012.
    A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    Q. Le, T. Sarlos, A. Smola, "Fastfood - Computing Hilbert Space Expansions in Loglinear Time",
    ICML 2013.
    J. Moody, C. J. Darken, "Fast Learning in Networks of Locally-Tuned Processing Units", Neural
    Computation 1, 1989.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.approximation import Nystrom
    >>> from kbench.methods import LinearizedSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LinearizedSVC(Nystrom(300, landmarks="kmeans", gamma=1e-3), C=10.0, random_state=0)
    >>> model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "feature_map": [HasMethods(["fit", "fill"]), None],
        **FeatureSVC._parameter_constraints,
    }

    feature_map: FeatureMap | None = None
    _: KW_ONLY
    C: float | str = 1.0
    loss: str = "hinge"
    tol: float = 0.1
    max_iter: int = 1000
    memory_mb: float = 4096.0

    def _feature_map(self, seed: int) -> FeatureMap:
        return fresh_part(self.feature_map, Nystrom(1000, landmarks="kmeans"), seed)
