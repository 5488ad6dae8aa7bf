"""Linear support vector machine on random Fourier features (random kitchen sinks)."""

from typing import Any, ClassVar

from kbench.approximation import FeatureMap, RandomFourierFeatures
from kbench.methods._linearised import LinearisedSVC


class RandomFourierSVC(LinearisedSVC):
    """Kernel machine of a shift-invariant kernel's random approximation, without intercept.

    A linear machine on cosines and sines of random projections
    (`kbench.approximation.RandomFourierFeatures`).

    Parameters
    ----------
    n_components : int, default=3000
        Features; with form="cos_sin" a cosine and a sine for each frequency.
    C : float, default=1.0
        Weight of the loss, multiplied by the weights of row and class.
    kernel : {"rbf", "laplacian"}, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    form : {"cos_sin", "phase"}, default="cos_sin"
        "phase": cosines with random phases.
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
    feature_map_ : RandomFourierFeatures
    coef_ : (1, r) or (n_classes, r)
        w, by features.
    n_support_ : (n_classes,) ints
        Rows of each class with a dual variable that is not zero.
    objective_, duality_gap_, violation_ : float
        Of the linear dual; the first two summed over problems.
    n_iter_ : int
    converged_ : bool
    n_parameters_, model_bytes_ : int
        Numbers that describe the map and w; bytes that prediction keeps.
    timings_ : dict of str to float
        Seconds of "prepare", "cluster" (drawing frequencies), "features", "solve".
    n_features_in_ : int

    Notes
    -----
    O(n m d) time for m features and O(n m) for a pass; 4 n m bytes up to `memory_mb`. Prediction
    costs O(m d) a row.

    References
    ----------
    A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kbench.methods import RandomFourierSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFourierSVC(1000, C=10.0, gamma=1e-3, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **LinearisedSVC._parameter_constraints,
        **{name: RandomFourierFeatures._parameter_constraints[name] for name in ("kernel", "form")},
    }

    def __init__(
        self,
        n_components: int = 3000,
        *,
        C: float = 1.0,
        kernel: str = "rbf",
        gamma: float | str = "scale",
        form: str = "cos_sin",
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
        self.form = form
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.memory_mb = memory_mb
        self.random_state = random_state

    def _feature_map(self, seed: int) -> FeatureMap:
        return RandomFourierFeatures(
            self.n_components,
            kernel=self.kernel,
            gamma=self.gamma,
            form=self.form,
            random_state=seed,
        )
