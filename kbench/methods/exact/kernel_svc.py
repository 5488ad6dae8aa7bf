"""Support vector classifier, solved exactly, in the place of `sklearn.svm.SVC`."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from kbench.methods.base.penalty import C_CONSTRAINT
from kbench.methods.exact.linear_chunks import LinearInChunks
from kbench.methods.exact.svc_conventions import SVC_C_CONSTRAINT, warn_of_unbounded
from kbench.validated import choice, usual


@dataclass(eq=False, repr=False)
class KernelSVC(LinearInChunks):
    """C-support vector classifier.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)) over the kernel's function space
    and, with `fit_intercept`, over b, through its dual

        min_a  1/2 a'Qa - e'a,   0 <= a_i <= C_i  [, y'a = 0],   Q_ij = y_i y_j k(x_i, x_j).

    With the intercept this is the problem of `sklearn.svm.SVC`, whose parameters have the same
    meaning here; without, it has no equality constraint and is the problem of the DC-SVM papers.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Upper bound of the dual variables, multiplied by the weights of row and class; inf, the
        hard margin, is taken as 1e10, with a warning where that bounds a variable. With "loo", the
        default on the command line, C is 1 / ridge for the kernel ridge model with the lowest
        leave-one-out error on at most 500 rows; `C_` is the choice.
    kernel : str or callable, default="rbf"
        A kernel of `kbench.kernels.KERNELS`; `python -m kbench.kernels` shows their formulas. A
        callable gets all rows of `fit` in one call, as in SVC, if their values fit into
        `cache_size` (8 n^2 bytes); otherwise it is called with blocks of rows and all of `fit`'s.
        The rows may be of any kind, such as texts, and the values sparse. Precomputed values are
        dense. The matrix of the training rows must be symmetric, up to 3e-4 of its largest value.
    gamma : float, (d,) array or {"scale", "auto"}, default="scale"
        "scale" is 1 / (d Var(X)) of all rows, those of weight 0 included, as in SVC; "auto" is
        1 / d. Numbers are positive, because with gamma=0 the kernel is constant, so that every row
        would have the same decision value. An array has a width for each column of X: "rbf" is then
        exp(-sum_j gamma_j (x_j - z_j)^2), and any other kernel is evaluated with gamma=1 on columns
        times sqrt(gamma_j), or times gamma_j where gamma multiplies a distance and not its square
        ("laplacian" and the Matern kernels). Columns of width 0 have no effect. `fit` then copies
        the rows.
    degree : int, default=3
        At least 1: with degree=0 the kernel is constant.
    coef0 : float, default=0.0
    shrinking : bool, default=True
        Whether the large-problem solver works on a subset of the points and checks the others from
        time to time; with both values the solution satisfies `tol` on all points.
    probability : bool, default=False
        Whether to fit what `predict_proba` needs: a sigmoid of the decision values of held-out rows
        in five folds, for each pair of classes ("ovr": for each class against the rest). This takes
        five further fits. scikit-learn 1.9 deprecates this parameter of SVC, whose default
        "deprecated" is taken as False; `CalibratedClassifierCV(KernelSVC(), ensemble=False)` works
        as well.
    tol : float, default=1e-3
        Violation of the dual's optimality at which to stop, LIBSVM's criterion for float64 kernel
        values.
    cache_size : float, default=1000.0
        MiB for kernel values, at most; memory is taken as it is needed. Set by hand.
    class_weight : dict, "balanced" or None, default=None
    verbose : bool, default=False
        Whether `fit` prints a line on its result.
    max_iter : int, default=-1
        Limit on steps of each binary problem; -1 means no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for several classes with multi_class="ovo": a value for
        each class, from the pairs' votes and decision values, or the decision values of the pairs.
    break_ties : bool, default=False
        Whether the decision values of the pairs decide between classes with equally many votes in
        `predict`; otherwise the first of these classes wins.
    random_state : int, RandomState or None, default=None
        Seed of the folds for `probability`.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Several classes: each against each, as in SVC, or each against the rest.
    fit_intercept : bool, default=True
    max_time : float or None, default=None
        Limit on the seconds from the start of the solver, for all binary problems together and for
        the further fits of `probability`. Time in callbacks of the trace does not count. A fit that
        meets the limit issues a ConvergenceWarning.
    dtype : {"float32", "float64"}, default="float32"
        Precision of kernel values in the large-problem solver, which uses float64 for
        problems of at most 1,024 points anyway, and in its predictions. The small-problem solver
        ignores it: its kernel rows are float32, and it computes float64 values where the
        rounding of the rows could hide a violation above `tol`. Coefficients and gradient are
        float64 in every case, and the violation from float64 values is at most `tol`.
    split : bool, default=True
        Whether the large-problem solver solves groups of points separately if the kernel values
        between them are negligible at `tol`.
    warm_start : bool, default=False
        Whether `fit` begins at the solution of the last fit, if that had the same classes in the
        same rows and proportional weights. The result is the same up to `tol` and takes less time.

    Attributes
    ----------
    classes_ : (n_classes,)
    class_weight_ : (n_classes,)
        Factors of C.
    support_ : (n_sv,) ints
        Rows with a coefficient that is not zero in one of the problems, sorted by class.
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (m, n_sv) array, CSR if the rows were
        y_i a_i. Two classes: m = 1. "ovr": m = n_classes. "ovo", as in SVC: m = n_classes - 1, for
        a support vector of class c its coefficients against the other classes in their order.
    intercept_ : (m,)
        One for each binary problem: 1, n_classes ("ovr"), n_classes (n_classes - 1) / 2 ("ovo":
        classes 0 and 1, 0 and 2, ..., values are positive for the first).
    coef_ : (m, d)
        Normals of the problems' hyperplanes, only with kernel="linear".
    n_support_ : (n_classes,) ints
        Support vectors of each class.
    n_iter_ : (m,) ints
        Steps of one or two coordinates of each problem, and iterations of the interior-point
        method.
    fit_status_ : int
        0 if every problem was solved to `tol`, else 1 (and a ConvergenceWarning).
    shape_fit_ : tuple
        Shape of X.
    objective_, duality_gap_ : float
        Objective of the dual, and the primal objective minus the dual one, which bounds the error
        of the objective; sums over problems.
    violation_ : float
        Largest of the problems' violations. With `converged_` the violation from float64 kernel
        values is at most `tol`; after a limit `violation_` is from float64 values.
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`.
    notes_ : tuple of str
        Whether the interior-point method was used.
    timings_ : dict of str to float
        Seconds of "prepare", "solve" and, with `probability`, "calibrate".
    model_bytes_ : int
        Bytes of the arrays with which the model predicts.
    n_features_in_ : int

    See Also
    --------
    DCSVC : Trains and predicts by clusters; approximate, and faster.

    Notes
    -----
    Binary problems with intercept of at most 2,000 points (500 if most columns have two
    values) are solved by `kbench.solvers.small`, larger ones by `kbench.solvers.solve_box_dual`;
    the result satisfies the same criterion. Linear and polynomial kernels of a rank far below the
    number of rows, and small problems of any semidefinite kernel after many steps, are solved by
    `kbench.solvers.interior_point` in 15 to 50 iterations, whatever C and the columns' scales are;
    where float64 cannot reach `tol` at such a C, the warning says "rounding".
    The small-problem solver continues from `tol` to the optimum itself where that costs little
    beside the steps, or where a large C leaves a large duality gap.

    A fit to rows in chunks (kernel="linear") takes 128 bytes a row beside the rows, which it writes
    to disk and reads ten times an iteration. Its model is `coef_` and `intercept_`: support vectors
    are not kept, and there is no `support_vectors_`.

    Time is O(n d) for every support vector, about n kernel values, and O(n) for each step of a
    small problem; memory is `cache_size` and O(n d). Prediction costs O(n_sv (d + m)) a row.

    References
    ----------
    C.-J. Hsieh, S. Si, I. S. Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
    Machines", ICML 2014.

    Examples
    --------
    `KernelSVC` where `SVC` was:

    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from kbench.methods import KernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = make_pipeline(MinMaxScaler(), KernelSVC())
    >>> grid = {"kernelsvc__C": [1.0, 10.0], "kernelsvc__gamma": ["scale", 0.1]}
    >>> search = GridSearchCV(model, grid, cv=3).fit(X[:1000], y[:1000])
    >>> search.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _sklearn_class: ClassVar[str] = "SVC"
    _parameter_constraints: ClassVar[dict] = {
        **LinearInChunks._parameter_constraints,
        "C": [*SVC_C_CONSTRAINT, *C_CONSTRAINT],
        "multi_class": [choice("ovr", "ovo")],
        "split": ["boolean"],
        **usual("fit_intercept", "warm_start"),
    }

    C: float | str = 1.0
    _: KW_ONLY
    probability: bool = False
    class_weight: dict | str | None = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None
    multi_class: str = "ovo"
    fit_intercept: bool = True
    split: bool = True
    warm_start: bool = False

    def _warn(self, reasons: set[str]) -> None:
        super()._warn(reasons)
        warn_of_unbounded(self.C, self.dual_coef_)
