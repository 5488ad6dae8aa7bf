"""A kernel matrix in hierarchically semi-separable (HSS) form.

Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge Regression" (IPDPS
2020), sections II and III. Points are ordered by a binary cluster tree. The diagonal blocks of the
leaves are stored exactly. The block between two siblings is U B V': B holds exact kernel values
between a few points of each sibling, called skeletons, and the bases U, V of an inner node are
products of its children's bases with a small matrix. Storage and products cost O(n r) for ranks r.
`compression` computes the bases, `products` multiplies by them, `ulv` factorises the shifted
matrix.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench.approximation.hss.compression import (
    MemoryLimitError,
    Tolerances,
    compress,
    rank_between,
)
from kbench.approximation.hss.products import HSSProducts, TreeExpansion
from kbench.approximation.hss.ulv import IndefiniteError, ShiftedFactor, ULVFactor
from kbench.approximation.operator import KernelApproximation, kernel_error, sampled_rows
from kbench.approximation.rounding import warn_of_rounding
from kbench.clustering.cluster_tree import cluster_tree
from kbench.clustering.neighbours import EXACT_ROWS, nearest_neighbours
from kbench.errors import warn
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.presets import HSS, resolve
from kbench.trace import Trace
from kbench.validated import (
    NOT_NEGATIVE,
    POSITIVE,
    choice,
    fit_context,
    integer,
    usual,
    validate_data,
)

# Parameters on which the tree and the table of neighbours depend.
_ORDERING_PARAMETERS = ("tree", "balanced", "leaf_size", "n_neighbours", "n_trees", "random_state")
# Learnt attributes that two fits with equal parameters to the same rows have in common.
_LEARNT = ("tree_", "_near", "kernel_", "ordered_kernel_", "nodes_", "kernel_entries_", "shape")
# The shift that an error message suggests and the preconditioner adds, relative to the size of the
# least eigenvalue, which is known to about 1 %. Set by hand.
_SUGGESTED_SHIFT = 1.1
# Rows of the larger of the two samples from which `estimated_rank` extrapolates; it takes 0.01 s.
# On cadata, kin40k and protein the estimate is within 20 % of the compressed rank. Set by hand.
_RANK_ROWS = 1000


@dataclass(eq=False, repr=False)
class HSSMatrix(KernelParameters, HSSProducts, BaseEstimator):
    """HSS approximation of the kernel matrix of the rows it is fitted to.

    Once fitted it is a symmetric (n, n) linear operator, rows and columns in the order of the data:
    it works with `matrix @ V`, the solvers of `scipy.sparse.linalg` and `aslinearoperator`.

    Parameters
    ----------
    kernel : str or callable, default="rbf"
        A positive semidefinite kernel of `kbench.kernels.KERNELS`.
    gamma : float or {"scale", "auto"}, default="scale"
        1 / (2 h^2) for the bandwidth h of the HSS papers.
    degree : int, default=3
    coef0 : float, default=0.0
        `kernel` to `coef0` have the same meaning as in `KernelSVC`.
    preset : {"paper_table4", "paper_table5", "fast", "accurate", "precise"}, default="fast"
        Values of the parameters from `leaf_size` to `sketch` that are None (see `kbench.presets`).
        A parameter that is not None always wins.
    tree : {"2means", "kd", "pca", "cobble", "natural"}, default="2means"
        Rule that splits the nodes (see `kbench.clustering.cluster_tree`).
    balanced : bool, default=False
        2-means splits nodes at the median instead of halfway between its centres. The other rules
        always split at the median.
    leaf_size : int or None, default=None
        Leaves have fewer points than this.
    n_neighbours : int or None, default=None
        Nearest neighbours of each point whose columns are sampled; 0 samples far columns only.
    n_trees : int or None, default=None
        Maximal number of random projection trees of the neighbour search. Up to 4,096 rows are
        searched exactly, without a tree; a warning then says that a number other than the
        preset's has no effect.
    rel_tol, abs_tol : float or None, default=None
        Smallest accepted pivot, relative to the first pivot and absolute. Both are divided by the
        level of the node.
    trace_tol : float or None, default=None
        Bound on the relative Frobenius norm of the residual of each basis; 0 disables it.
    max_rank : int or None, default=None
        Largest rank of a basis.
    max_near : int, "none" or None, default=None
        Maximum number of near columns of a node; "none" sets no limit.
    n_far : int or None, default=None
        Number of far columns of a node.
    sketch : int, "none" or None, default=None
        Number of columns of the sketch that replaces the sampled columns; a quarter of them for a
        node of much lower rank. "none" uses the sampled columns themselves.
    memory_mb : float or None, default=None
        Limit on the size of the matrix in MiB; None means no limit.
    dtype : {"float32", "float64"}, default="float32"
        Precision of kernel values and of the stored matrix.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    shape : (n, n)
    tree_ : ClusterTree
    neighbours_ : (n, k) int32 or None
    nodes_ : list of Node
    ranks_ : list of (min, mean, max)
        Ranks of the nodes of levels 1, 2, ...
    n_parameters_ : int
        Numbers stored in leaves, bases and sibling blocks. The paper's MB are 8e-6 times this.
    nbytes_ : int
    kernel_entries_ : int
        Kernel values that the compression computed.
    kernel_ : Kernel
        The kernel function.
    ordered_kernel_ : KernelMatrix
        Exact kernel matrix of the points in the order of the tree.
    timings_ : dict of str to float
        Seconds of "tree", "neighbours", "compress".

    Notes
    -----
    O(n r^2 + n r d) time for ranks r, O(n (r + leaf_size)) memory.

    References
    ----------
    G. Chavez, Y. Liu, P. Ghysels, X. S. Li, E. Rebrova, "Scalable and Memory-Efficient Kernel Ridge
    Regression", IPDPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse.linalg import cg
    >>> from kbench.approximation import HSSMatrix
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> K = HSSMatrix(gamma=0.5, random_state=0).fit(X)
    >>> x = K.factorise(shift=1.0).solve(X[:, 0])
    >>> y, _ = cg(K, X[:, 0] - x)
    >>> bool(K.relative_error(random_state=0) < 1e-2)
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        "preset": [choice(*filter(None, HSS))],
        "tree": [choice("2means", "kd", "pca", "cobble", "natural")],
        "balanced": ["boolean"],
        "leaf_size": [integer(2), None],
        "n_neighbours": [integer(0), None],
        "n_trees": [integer(1), None],
        "rel_tol": [NOT_NEGATIVE, None],
        "abs_tol": [NOT_NEGATIVE, None],
        "trace_tol": [NOT_NEGATIVE, None],
        "max_rank": [integer(1), None],
        "max_near": [integer(1), choice("none"), None],
        "n_far": [integer(0), None],
        "sketch": [integer(1), choice("none"), None],
        "memory_mb": [POSITIVE, None],
        **usual("dtype", "random_state"),
    }

    kernel: str | Callable[[Any, Any], np.ndarray] = "rbf"
    _: KW_ONLY
    preset: str = "fast"
    tree: str = "2means"
    balanced: bool = False
    leaf_size: int | None = None
    n_neighbours: int | None = None
    n_trees: int | None = None
    rel_tol: float | None = None
    abs_tol: float | None = None
    trace_tol: float | None = None
    max_rank: int | None = None
    max_near: int | str | None = None
    n_far: int | None = None
    sketch: int | str | None = None
    memory_mb: float | None = None
    dtype: str = "float32"
    random_state: Any = None

    def _validate_params(self) -> None:
        super()._validate_params()
        self._settings()

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        like: "HSSMatrix | None" = None,
        neighbours: np.ndarray | None = None,
        trace: Trace | None = None,
    ) -> Self:
        """Order the points and compress their kernel matrix.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : ignored
        like : HSSMatrix, optional
            A matrix fitted to the same rows. Its tree and neighbours are reused if the parameters
            that they depend on are equal, and its compression if all parameters are.
        neighbours : (n, k) ints, optional
            Row numbers of the nearest neighbours of each row, from another search.
        trace : Trace, optional
            Records the phases "tree", "neighbours", "compress".

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range or contradicts another one, `like` or `neighbours` has
            another number of rows than X, or the matrix exceeds `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        X = validate_data(self, X)
        n = X.shape[0]
        settings = self._settings()
        self._check_tables(n, like, neighbours)
        if like is not None and self._agrees(like, tuple(self.get_params(deep=False))):
            self.__dict__.update((name, getattr(like, name)) for name in _LEARNT)
            self.timings_ = dict(trace.timings)
            return self
        if like is not None and not self._agrees(like, _ORDERING_PARAMETERS):
            like = None
        rng = check_random_state(self.random_state)
        max_bytes = np.inf if self.memory_mb is None else self.memory_mb * 2**20
        with trace.phase("tree"):
            if like is None:
                self.tree_ = cluster_tree(
                    X, settings["leaf_size"], rng, rule=self.tree, balanced=self.balanced
                )
            else:
                self.tree_ = like.tree_
            self._check_leaves(max_bytes)
            permutation = self.tree_.permutation
            ordered = X[permutation]
            self.kernel_ = self.kernel_function(X)
            self.ordered_kernel_ = KernelMatrix(self.kernel_, ordered, self.dtype)
            warn_of_rounding([self.ordered_kernel_])
        n_neighbours = min(settings["n_neighbours"], n)
        with trace.phase("neighbours"):
            # (n, k) neighbours; rows and entries in the order of the tree
            self._near: np.ndarray | None = None if like is None else like._near
            if neighbours is not None:
                self._near = _inverse(permutation)[neighbours[permutation]]
            elif self._near is None and n_neighbours and len(self.tree_) > 1:
                # The runner passes the preset's number as if the user had set it.
                is_users_value = self.n_trees not in (None, HSS[self.preset]["n_trees"])
                if is_users_value and n <= EXACT_ROWS:
                    warn(
                        f"n_trees={self.n_trees} has no effect: the neighbours of {n} rows, up to "
                        f"{EXACT_ROWS}, are searched exactly"
                    )
                # In the order of the tree, neighbouring points are close in memory.
                self._near = nearest_neighbours(
                    ordered, n_neighbours, rng, max_trees=settings["n_trees"]
                )
        with trace.phase("compress"):
            self.nodes_ = compress(
                self.ordered_kernel_,
                self.tree_,
                self._near,
                Tolerances.of(settings),
                rng,
                max_bytes=max_bytes,
            )
        self.kernel_entries_ = self.ordered_kernel_.n_entries
        self.timings_ = dict(trace.timings)
        self.shape = (n, n)
        return self

    def kernel_function(self, X: Any) -> Kernel:
        """The kernel of the parameters; the rows X : (n, d) determine a gamma of "scale"."""
        return self._make_kernel(X)

    def estimated_rank(self, X: Any) -> float:
        """Rank of the block between the two clusters of rows X : (n, d), before it is compressed.

        The rank is extrapolated from those of two samples, as a power of the number of rows. A rank
        near the number of rows of the smaller cluster means that compression saves nothing.
        """
        # The estimate decides how a matrix is computed, not its values: a fixed seed will do.
        rng = np.random.RandomState(0)
        n = X.shape[0]
        if n < 2:
            return 0.0
        rows = X[np.sort(rng.permutation(n)[:_RANK_ROWS])]
        n_sampled = rows.shape[0]
        tree = cluster_tree(rows, n_sampled, rng, rule=self.tree, balanced=self.balanced)
        if len(tree) == 1:
            return 0.0
        kernel = KernelMatrix(self.kernel_function(X), rows[tree.permutation], self.dtype)
        middle = int(tree.stop[tree.left[-1]])
        clusters = rng.permutation(middle), middle + rng.permutation(n_sampled - middle)
        smaller_size = min(middle, n_sampled - middle)
        tolerances = Tolerances.of(self._settings())
        half_rank, sample_rank = (
            max(rank_between(kernel, clusters[0][:m], clusters[1][:m], tolerances, rng), 1)
            for m in (max(1, smaller_size // 2), smaller_size)
        )
        # If the number of rows doubles, the rank at most doubles and does not fall.
        exponent = np.clip(np.log2(sample_rank / half_rank), 0.0, 1.0)
        return float(min(sample_rank * (n / n_sampled) ** exponent, smaller_size * n / n_sampled))

    def _settings(self) -> dict[str, Any]:
        """Values in effect of the parameters that a preset sets; "none" becomes None."""
        for name in ("max_near", "n_trees"):
            value = getattr(self, name)
            if self.n_neighbours == 0 and isinstance(value, Integral):
                raise ValueError(
                    f"{name}={value} contradicts n_neighbours=0, which samples no near columns; "
                    f"leave out one of {name} and n_neighbours"
                )
        settings = resolve(self.preset, HSS, self.get_params(deep=False))
        return {name: None if value == "none" else value for name, value in settings.items()}

    def _agrees(self, other: "HSSMatrix", names: tuple[str, ...]) -> bool:
        """Whether another matrix has the same values in effect of these parameters."""
        parameters = self.get_params(deep=False) | self._settings()
        other_parameters = other.get_params(deep=False) | other._settings()
        return all(parameters[name] == other_parameters[name] for name in names)

    @staticmethod
    def _check_tables(n: int, like: "HSSMatrix | None", neighbours: np.ndarray | None) -> None:
        if like is not None and neighbours is not None:
            raise ValueError("like and neighbours both set the neighbours; give one of them")
        for table in (neighbours, None if like is None else like.tree_.permutation):
            if table is not None and len(table) != n:
                raise ValueError(f"neighbours or like is of {len(table)} rows, but X has {n}")

    def _check_leaves(self, max_bytes: float) -> None:
        leaves = self.tree_.leaves
        sizes = (self.tree_.stop - self.tree_.start)[leaves].astype(np.float64)
        n_bytes = np.dtype(self.dtype).itemsize * float((sizes**2).sum())
        if n_bytes > max_bytes:
            raise MemoryLimitError(
                f"memory_mb={self.memory_mb:g}, but the leaves of the HSS matrix alone take "
                f"{n_bytes / 2**20:.0f} MiB: lower leaf_size"
            )

    @property
    def neighbours_(self) -> np.ndarray | None:
        if self._near is None:
            return None
        permutation = self.tree_.permutation.astype(np.int32)
        return permutation[self._near[_inverse(permutation)]]

    @property
    def ranks_(self) -> list[tuple[int, float, int]]:
        tree = self.tree_
        ranks = np.array([0 if node.basis is None else node.basis.rank for node in self.nodes_])
        levels = (ranks[tree.level == level] for level in range(1, tree.level.max() + 1))
        return [(int(r.min()), float(r.mean()), int(r.max())) for r in levels]

    @property
    def n_parameters_(self) -> int:
        return sum(node.n_parameters for node in self.nodes_)

    @property
    def nbytes_(self) -> int:
        return sum(node.nbytes for node in self.nodes_) + self.tree_.permutation.nbytes

    def factorise(self, shift: float, dtype: Any = None, *, explain: bool = True) -> ShiftedFactor:
        """ULV factors of K~ + shift I.

        Parameters
        ----------
        shift : float
        dtype : float32 or float64; by default the matrix's
        explain : bool
            On failure, compute the least eigenvalue for the error message.

        Raises
        ------
        numpy.linalg.LinAlgError
            A ValueError: K~ + shift I is not positive definite; the message names a sufficient
            shift.
        """
        check_is_fitted(self)
        try:
            factor = ULVFactor(self.tree_, self.nodes_, shift, dtype or self.dtype)
        except IndefiniteError as error:
            if not explain:
                raise
            raise IndefiniteError(f"{error}: {self._advice()}") from None
        return ShiftedFactor(factor, self.tree_.permutation)

    def needed_shift(self) -> float:
        """The least shift that makes K~ positive semidefinite, to about 1 %.

        Minus the least eigenvalue, or 0 if that is positive; nan if Lanczos' iteration did not
        converge. O(n (r + leaf_size)) an iteration.
        """
        try:
            smallest = eigsh(self, k=1, which="SA", tol=1e-2, return_eigenvectors=False)[0]
        except (ArpackNoConvergence, TypeError):  # TypeError: eigsh takes no 1 x 1 matrix
            return np.nan
        return max(0.0, -float(smallest))

    def _advice(self) -> str:
        shift = self.needed_shift()
        if np.isnan(shift):
            return "raise the shift, or compress more accurately"
        return (
            f"the least eigenvalue of K~ is about {-shift:.3g}; a shift of "
            f"{_SUGGESTED_SHIFT * shift:.3g} is enough"
        )

    def kernel_matrix(self, X: Any, *, trace: Trace | None = None) -> "HSSKernel":
        """The matrix as a `KernelApproximation`, which kernel ridge estimators take.

        X and trace are not used, because `fit` has computed the matrix.
        """
        check_is_fitted(self)
        return HSSKernel(self)

    def relative_error(self, n_rows: int = 200, random_state: Any = None) -> float:
        """||K - K~||_F / ||K||_F on sampled rows. O(n_rows n (d + r + leaf_size)).

        More rows estimate the error of all rows better; the default is set by hand.
        """
        positions = _inverse(self.tree_.permutation)
        kernel = self.ordered_kernel_.astype(np.float64)
        rows = sampled_rows(self.shape[0], n_rows, check_random_state(random_state))
        return kernel_error(lambda batch: kernel.block(positions[batch])[:, positions], self, rows)


class HSSKernel(KernelApproximation):
    """A fitted `HSSMatrix` as a kernel approximation: float64 products, regularised solves."""

    def __init__(self, matrix: HSSMatrix) -> None:
        super().__init__(matrix.shape[0], matrix.kernel_entries_)
        self.matrix = matrix

    @property
    def nbytes_(self) -> int:
        return self.matrix.nbytes_

    @property
    def n_parameters_(self) -> int:
        return self.matrix.n_parameters_

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.matrix.matmat(V).astype(np.float64, copy=False)

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self.matrix.rows(indices)

    def cross(self, X: Any) -> np.ndarray:
        return self.matrix.cross(X)

    def machine(self, coef: np.ndarray) -> TreeExpansion:
        return self.matrix.machine(coef)

    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(K~ + alpha I)^-1 Y by float64 ULV factors, O(n r^2).

        Raises
        ------
        numpy.linalg.LinAlgError
            A ValueError: K~ + alpha I is not positive definite. Replacing the negative eigenvalues
            would need a dense eigendecomposition; the message names a sufficient alpha.
        """
        return self.matrix.factorise(alpha, np.float64).solve(Y)

    def preconditioner(self, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
        """(K~ + s I)^-1 with s = alpha, or about the least s that makes K~ + s I definite."""
        try:
            factor = self.matrix.factorise(alpha, np.float64, explain=False)
        except IndefiniteError:
            shift = alpha + _SUGGESTED_SHIFT * self.matrix.needed_shift()
            factor = self.matrix.factorise(shift, np.float64)
        return factor.solve


def _inverse(permutation: np.ndarray) -> np.ndarray:
    """The position of each original row in the permuted order."""
    inverse = np.empty(len(permutation), np.int32)
    inverse[permutation] = np.arange(len(permutation), dtype=np.int32)
    return inverse
