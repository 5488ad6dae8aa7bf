"""Kernel ridge regression on an approximate kernel matrix.

    (G~ + alpha I) c = y,   with weights w of the rows (G~ + alpha diag(1/w)) c = y,

with G~ from any approximation of `kbench.approximation`: MEKA, BKA, the Nystrom kinds, random
Fourier features, Fastfood. This is the comparison of Si, Hsieh and Dhillon, "Memory Efficient
Kernel Approximation" (JMLR 18, 2017), section 6.3.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if

from kbench import class_labels
from kbench.approximation import (
    BKA,
    MEKA,
    Approximation,
    KernelApproximation,
    Machine,
    kernel_error,
)
from kbench.approximation.features.factored import FactoredEquations
from kbench.chunked import ChunkedRows
from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods.base.composition import fresh_part
from kbench.methods.base.penalty import chosen_alpha
from kbench.methods.base.ridge import (
    RidgeEstimator,
    WeightedRidgeClassifierMixin,
    WeightedRidgeRegressorMixin,
    compared_rows,
    sample_targets,
    warn_unconverged,
)
from kbench.methods.base.survey import Survey
from kbench.methods.base.weights import checked_weights
from kbench.methods.out_of_core.feature_chunks import feature_sample, with_gamma_of_all_rows
from kbench.methods.out_of_core.ridge_chunks import (
    BlockTrainer,
    cluster_sample,
    fit_clusters,
    fit_normal_equations,
)
from kbench.solvers import solve_cg
from kbench.trace import Deadline, Trace
from kbench.validated import choice, fit_context, usual, validate_data


@dataclass(eq=False, repr=False)
class _ApproximateRidge(RidgeEstimator):
    """Base of the regressor and the classifier."""

    _parameter_constraints: ClassVar[dict] = {
        **RidgeEstimator._parameter_constraints,
        "approximation": [HasMethods(["fit", "kernel_matrix"]), None],
        "solver": [choice("direct", "cg", "pcg")],
        **usual("tol", "max_iter", "max_time", "error_rows", "random_state"),
    }

    read_by_every_chunk: ClassVar[set[str]] = {
        "error_rows",
        "fit_intercept",
        "max_iter",
        "max_time",
        "probability",
        "solver",
        "tol",
    }

    approximation: Approximation | None = None
    _: KW_ONLY
    alpha: float | str = "loo"
    solver: str = "direct"
    tol: float = 1e-6
    max_iter: int = 500
    max_time: float | None = None
    error_rows: int = 1000
    random_state: Any = None

    def _solve(
        self, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None = None
    ) -> Machine:
        deadline = Deadline(self.max_time, trace)
        # The model does not keep the fitted part, which may hold features of all training rows.
        part = fresh_part(self.approximation, MEKA(), self.random_state)
        matrix = part.fit(X, trace=trace).kernel_matrix(X, trace=trace)
        self.kernel_numbers_ = matrix.n_parameters_
        if matrix.kernel_entries_:
            self.kernel_entries_ = matrix.kernel_entries_
        with trace.phase("solve"):
            self.alpha_ = chosen_alpha(self.alpha, lambda: part.kernel_, X, Y, weight)
            scale = None if weight is None else np.sqrt(weight)
            coef = None
            if self.solver == "direct":
                self.n_iter_, self.converged_ = 1, True
            elif scale is None:
                coef = self._conjugate_gradients(matrix, Y, deadline, trace)
            else:
                scaled_matrix, targets = matrix.scaled(scale), scale[:, None] * Y
                coef = self._conjugate_gradients(scaled_matrix, targets, deadline, trace)
                coef = None if coef is None else scale[:, None] * coef
            if coef is None:
                machine = matrix.ridge_machine(Y, self.alpha_, scale)
            else:
                machine = matrix.machine(coef)
        if self.error_rows:
            with trace.pause():
                exact_matrix = KernelMatrix(part.kernel_, X)
                self.kernel_error_ = kernel_error(
                    exact_matrix, matrix, compared_rows(X, self.error_rows)
                )
        return machine

    def _sample_size(self) -> int | None:
        part = fresh_part(self.approximation, MEKA(), None)
        if isinstance(part, BKA):
            supports_chunks = self.solver == "direct" and part.partition == "kmeans"
            return cluster_sample(part.n_clusters) if supports_chunks else None
        supports_chunks = self.solver == "direct" and hasattr(part, "row_basis")
        return feature_sample(part) if supports_chunks else None

    def _solve_chunks(self, rows: ChunkedRows, survey: Survey, seed: int, trace: Trace) -> Machine:
        part = with_gamma_of_all_rows(
            fresh_part(self.approximation, MEKA(), self.random_state), survey
        )
        sample, targets = survey.sample, sample_targets(survey)
        if isinstance(part, BKA):
            options: dict[str, Any] = {
                "gamma": part.gamma,
                "degree": part.degree,
                "coef0": part.coef0,
            }
            kernel = make_kernel(part.kernel, sample, **options)
            self.alpha_ = chosen_alpha(self.alpha, lambda: kernel, sample, targets)
            trainer = BlockTrainer(kernel, part.dtype, survey.targets, self.alpha_)
            cluster_fit = fit_clusters(part, trainer, rows, survey, seed, trace)
            self.kernel_numbers_ = sum(record.n_rows**2 for record in cluster_fit.records)
            self.kernel_entries_ = sum(record.kernel_entries for record in cluster_fit.records)
            self.notes_ = cluster_fit.notes
            machine = cluster_fit.machine
        else:
            part.fit(sample, trace=trace)
            self.alpha_ = chosen_alpha(self.alpha, lambda: part.kernel_, sample, targets)
            basis = part.row_basis()
            machine = fit_normal_equations(basis, rows, survey.targets, self.alpha_, trace)
            n_links = 0 if basis.link is None else int(np.count_nonzero(basis.link))
            self.kernel_numbers_ = sum(basis.ranks) + n_links
        self.n_iter_, self.converged_ = 1, True
        return machine

    def _supports_partial_fit(self) -> bool:
        """Whether `partial_fit` works with these parameters."""
        part = fresh_part(self.approximation, MEKA(), None)
        # With an intercept the sums would need targets minus their mean, which each chunk changes.
        return self.solver == "direct" and hasattr(part, "row_basis") and not self.fit_intercept

    def _is_first_chunk(self) -> bool:
        return not hasattr(self, "_stream")

    def _add_chunk(self, X: Any, Y: np.ndarray, sample_weight: Any) -> Self:
        """Add a validated chunk to the sums of the stream, and solve."""
        weight = None
        if sample_weight is not None:
            weight = checked_weights(sample_weight, len(Y))
        trace = Trace()
        if self._is_first_chunk():
            if hasattr(self, "_machine"):
                warn(
                    "partial_fit begins a stream and forgets what fit has learned, because fit "
                    "does not keep the sums of its rows"
                )
            self.__dict__.pop("intercept_", None)  # an earlier fit may have set it
            part = fresh_part(self.approximation, MEKA(), self.random_state)
            part.fit(X, trace=trace)
            basis = part.row_basis()
            self.alpha_ = chosen_alpha(self.alpha, lambda: part.kernel_, X, Y, weight)
            self._stream = basis, FactoredEquations(basis, Y.shape[1])
            self.n_seen_ = 0
        basis, equations = self._stream
        with trace.phase("features"):
            equations.add(X, Y, weight)
        with trace.phase("solve"):
            self._machine = basis.machine(equations.weights(self.alpha_))
        self.n_seen_ += len(Y)
        self.n_iter_, self.converged_ = 1, True
        self.model_bytes_, self.timings_ = self._machine.nbytes, dict(trace.timings)
        return self

    def _conjugate_gradients(
        self, matrix: KernelApproximation, Y: np.ndarray, deadline: Deadline, trace: Trace
    ) -> np.ndarray | None:
        """(G~ + alpha I)^-1 Y, or None if G~ + alpha I turns out to be indefinite."""
        options = {}
        if self.solver == "pcg":
            options["precondition"] = matrix.preconditioner(self.alpha_)
        result = solve_cg(
            lambda V: matmul(matrix, V) + self.alpha_ * V,
            Y,
            **options,
            alpha=self.alpha_,
            tol=self.tol,
            max_iter=self.max_iter,
            max_time=deadline.seconds_left(),
            trace=trace,
        )
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        if result.indefinite:
            return None
        warn_unconverged(result, self)
        return result.x


class ApproximateRidge(WeightedRidgeRegressorMixin, _ApproximateRidge):
    """Kernel ridge regression without intercept on an approximate kernel matrix.

    Parameters
    ----------
    approximation : kernel approximation or None, default=None
        For example `MEKA`, `BKA`, `SpectralNystrom`, `Nystrom`, `RandomFeatures`,
        `RandomFourierFeatures` or `Fastfood` of `kbench.approximation`; None is `MEKA()`. It is
        cloned before it is fitted. If its `random_state` is None, it gets that of the estimator.
    alpha : float or "loo", default="loo"
        Added to the diagonal of the kernel matrix: lambda of the papers.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    solver : {"direct", "cg", "pcg"}, default="direct"
        "direct" is exact, by Woodbury's identity and a Cholesky factorisation; "cg" is conjugate
        gradients, which the papers use; "pcg" preconditions them. If the matrix is too indefinite
        to be factorised (MEKA with sampled links), all three replace its negative eigenvalues by
        zero, with a RuntimeWarning.
    tol : float, default=1e-6
        Relative residual at which "cg" and "pcg" stop. Set by hand.
    max_iter : int, default=500
        Largest number of iterations of "cg" and "pcg". Set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`; "cg" and "pcg" check it between products.
    error_rows : int, default=1000
        Number of rows on which `kernel_error_` is measured, outside the timed part of `fit`; 0
        measures nothing. Set by hand.
    fit_intercept : bool, default=False
        As in `KernelRidge`; True excludes `partial_fit`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    kernel_error_ : float
        Relative Frobenius error of the approximate kernel matrix on `error_rows` rows, which are
        the same for every approximation and seed. Absent if `error_rows` is 0.
    kernel_numbers_ : int
        Numbers that the approximate kernel matrix stores.
    kernel_entries_ : int
        Kernel values computed for it; absent for random features, which need none.
    n_iter_ : int
    converged_ : bool
        Iterations and convergence of conjugate gradients; 1 and True for the direct solver.
    timings_ : dict of str to float
        Seconds of the phases of the approximation ("cluster", "bases" and "links" of MEKA,
        "cluster" and "blocks" of BKA, "landmarks" and "features" of feature maps) and of "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    `partial_fit` adds the sums W'W and W'y of its rows to those of earlier chunks and solves again:
    with fixed alpha and features that do not depend on the rows (random features with a number for
    gamma) the model is that of a fit to all rows. Otherwise the first chunk determines alpha,
    gamma, landmarks and clusters. `fit` keeps no sums: a later `partial_fit` begins anew, with a
    warning.

    Rows in chunks (`ChunkedRows`) are read twice. Features, landmarks and clusters are chosen on a
    sample; W'W and W'y are summed over all rows, which solves the same equations in the memory of
    W'W. BKA's clusters are the leaves of a tree of k-means, whose rows are sorted on disk. All need
    solver="direct"; there is no `kernel_error_`, and `kernel_numbers_` counts no rows of W.

    With W of rank r in c clusters of rank k each, "direct" costs O(n k^2 + r^3 / 3) beside the
    approximation, "cg" O(n k + r^2) an iteration, "pcg" twice that and once O(n k^2). Prediction
    needs the landmarks of a row's own cluster (MEKA), all landmarks, or the features of the row.

    References
    ----------
    S. Si, C.-J. Hsieh, I. S. Dhillon, "Memory Efficient Kernel Approximation", JMLR 18, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.approximation import MEKA
    >>> from kbench.methods import ApproximateRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ApproximateRidge(MEKA(20, n_clusters=3, gamma=5.0), alpha=0.1, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """

    @available_if(lambda self: self._supports_partial_fit())
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add a chunk of a stream. O(b r (d + r) + r^3) for rank r; memory O(r^2).

        Parameters
        ----------
        X : (b, d) array or CSR
        y : (b,) or (b, m) targets
        sample_weight : (b,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Other numbers of features or targets than in earlier chunks.
        """
        is_first = self._is_first_chunk()
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True, reset=is_first)
        Y = np.asarray(y, np.float64)
        one_target = Y.ndim == 1
        Y = Y.reshape(len(Y), -1)
        if not is_first and Y.shape[1] != self._stream[1].products[0].shape[1]:
            raise ValueError(f"y has {Y.shape[1]} targets, not as many as in earlier chunks")
        self._one_target = one_target
        return self._add_chunk(X, Y, sample_weight)


@dataclass(eq=False, repr=False)
class ApproximateRidgeClassifier(WeightedRidgeClassifierMixin, _ApproximateRidge):
    """Kernel ridge classification on an approximate kernel matrix.

    Fits targets -1 and +1, one-vs-rest for more than two classes, which share the approximation and
    its factorisation. Parameters and attributes are those of `ApproximateRidge`, and `classes_`.
    """

    @available_if(lambda self: self._supports_partial_fit())
    @fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add a chunk of a stream, as `ApproximateRidge.partial_fit` does.

        Parameters
        ----------
        X : (b, d) array or CSR
        y : (b,) labels
        classes : (n_classes,)
            All classes of the stream; needed with the first chunk.
        sample_weight : (b,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The first chunk has no classes, or a later one has other classes or features.
        """
        is_first = self._is_first_chunk()
        X, y = validate_data(self, X, y, reset=is_first)
        index = class_labels.index_in_stream(self, y, classes, first=is_first)
        return self._add_chunk(X, class_labels.signs(index, len(self.classes_)), sample_weight)
