"""A kernel matrix in hierarchically semi-separable (HSS) form.

Points are ordered by a binary cluster tree. What is on the diagonal of a leaf is kept; the block
between two siblings is U B V', where B holds kernel values between few of their points, the
skeletons, and the bases U, V of a node are made of those of its children. Everything is O(n r)
for ranks r. See `compression` for how bases are found and `ulv` for systems of equations.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from kbench.approximation.hss.compression import MemoryLimitError, Tolerances, compress
from kbench.approximation.hss.presets import PRESETS
from kbench.approximation.hss.ulv import IndefiniteError, ULVFactor
from kbench.approximation.operator import kernel_error, sampled_rows
from kbench.clustering.cluster_tree import ClusterTree, cluster_tree
from kbench.clustering.neighbours import nearest_neighbours
from kbench.kernels import KernelMatrix, make_kernel
from kbench.prediction import KernelExpansion, LocalMachines, prediction_dtype
from kbench.trace import Trace


class HSSMatrix(BaseEstimator):
    """HSS approximation of the kernel matrix of the rows it is fitted to.

    Once fitted it is a symmetric (n, n) linear operator, rows and columns in the order of the data:
    `matrix @ V`, the solvers of `scipy.sparse.linalg`, and `aslinearoperator(matrix)` take it.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
        1 / (2 h^2) for the bandwidth h of the HSS papers.
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    preset : {"paper_table4", "paper_table5", "fast", "accurate", "precise"}, default="fast"
        What the parameters below are where they are None (see `presets`).
    tree : {"2means", "kd", "pca", "cobble", "natural"}, default="2means"
        Where nodes are cut (see `kbench.clustering.cluster_tree`).
    balanced : bool, default=False
        Whether 2-means cuts at the median and not halfway between its centres.
    leaf_size : int or None, default=None
        Leaves have fewer points than this.
    n_neighbours : int or None, default=None
        Near points of each point whose columns are sampled. 0: far columns alone.
    n_trees : int or None, default=None
        Random projection trees for these, at most.
    rel_tol, abs_tol : float or None, default=None
        On pivots, divided by the level of a node.
    trace_tol : float or None, default=None
        On the relative Frobenius norm of what a basis leaves out; 0 is none.
    max_rank : int or None, default=None
    max_near, n_far : int or None, default=None
        Near and far columns of a node; near ones are not limited where the preset has no limit.
    sketch : int or None, default=None
        Columns after the sketch; a quarter of them where the rank is far below.
    memory_mb : float or None, default=None
        MiB that the matrix may take.
    dtype : {"float32", "float64"}, default="float32"
        Of the kernel values and of the matrix.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    shape : (n, n)
    tree_ : ClusterTree
    neighbours_ : (n, k) int32 or None
    nodes_ : list of Node
    ranks_ : list of (min, mean, max)
        Of the nodes of levels 1, 2, ...
    n_parameters_ : int
        Numbers in leaves, bases and sibling blocks; 8e-6 times these are the MB of the paper.
    nbytes_ : int
    kernel_entries_ : int
    kernel_ : KernelMatrix
        Of the points in the order of the tree.
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

    shape: tuple[int, int]
    tree_: ClusterTree
    _near: np.ndarray | None  # neighbours, rows and numbers in the order of the tree

    _parameter_constraints: ClassVar[dict] = {
        "kernel": [StrOptions({"rbf", "laplacian", "poly", "linear"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "preset": [StrOptions(set(PRESETS))],
        "tree": [StrOptions({"2means", "kd", "pca", "cobble", "natural"})],
        "balanced": ["boolean"],
        "leaf_size": [Interval(Integral, 2, None, closed="left"), None],
        "n_neighbours": [Interval(Integral, 0, None, closed="left"), None],
        "n_trees": [Interval(Integral, 1, None, closed="left"), None],
        "rel_tol": [Interval(Real, 0, None, closed="left"), None],
        "abs_tol": [Interval(Real, 0, None, closed="left"), None],
        "trace_tol": [Interval(Real, 0, None, closed="left"), None],
        "max_rank": [Interval(Integral, 1, None, closed="left"), None],
        "max_near": [Interval(Integral, 1, None, closed="left"), None],
        "n_far": [Interval(Integral, 0, None, closed="left"), None],
        "sketch": [Interval(Integral, 1, None, closed="left"), None],
        "memory_mb": [Interval(Real, 0, None, closed="neither"), None],
        "dtype": [StrOptions({"float32", "float64"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        *,
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        preset: str = "fast",
        tree: str = "2means",
        balanced: bool = False,
        leaf_size: int | None = None,
        n_neighbours: int | None = None,
        n_trees: int | None = None,
        rel_tol: float | None = None,
        abs_tol: float | None = None,
        trace_tol: float | None = None,
        max_rank: int | None = None,
        max_near: int | None = None,
        n_far: int | None = None,
        sketch: int | None = None,
        memory_mb: float | None = None,
        dtype: str = "float32",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.preset = preset
        self.tree = tree
        self.balanced = balanced
        self.leaf_size = leaf_size
        self.n_neighbours = n_neighbours
        self.n_trees = n_trees
        self.rel_tol = rel_tol
        self.abs_tol = abs_tol
        self.trace_tol = trace_tol
        self.max_rank = max_rank
        self.max_near = max_near
        self.n_far = n_far
        self.sketch = sketch
        self.memory_mb = memory_mb
        self.dtype = dtype
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
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
            Fitted to the same rows, perhaps with another kernel: its tree and neighbours are used.
        neighbours : (n, k) ints, optional
            Near points of each, by row number, from another search.
        trace : Trace, optional
            Told the phases "tree", "neighbours", "compress".

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range; tables for another number of rows; a matrix above `memory_mb`.
        """
        trace = Trace() if trace is None else trace
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        n = X.shape[0]
        for given in (neighbours, None if like is None else like.tree_.permutation):
            if given is not None and len(given) != n:
                raise ValueError(f"a table of {len(given)} points was given for {n} rows")
        rng = check_random_state(self.random_state)
        settings = self._settings()
        max_bytes = np.inf if self.memory_mb is None else self.memory_mb * 2**20
        with trace.phase("tree"):
            if like is None:
                self.tree_ = cluster_tree(
                    X,
                    settings["leaf_size"],
                    rng,
                    rule=self.tree,
                    balanced=self.balanced,
                )
            else:
                self.tree_ = like.tree_
            self._check_leaves(max_bytes)
            permutation = self.tree_.permutation
            function = make_kernel(
                self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0
            )
            ordered = X[permutation]
            self.kernel_ = KernelMatrix(function, ordered, self.dtype)
        k = min(settings["n_neighbours"], n)
        with trace.phase("neighbours"):
            self._near = None if like is None else like._near
            if like is None and neighbours is not None:
                self._near = _inverse(permutation)[neighbours[permutation]]
            elif self._near is None and k and len(self.tree_) > 1:
                # In this order what is near in space is near in memory.
                self._near = nearest_neighbours(ordered, k, rng, max_trees=settings["n_trees"])
        with trace.phase("compress"):
            self.nodes_ = compress(
                self.kernel_,
                self.tree_,
                self._near,
                _tolerances(settings),
                rng,
                max_bytes=max_bytes,
            )
        self.kernel_entries_ = self.kernel_.n_entries
        self.timings_ = dict(trace.timings)
        self.shape = (n, n)
        return self

    def _settings(self) -> dict[str, Any]:
        preset = PRESETS[self.preset]
        given = {name: getattr(self, name) for name in preset}
        return {name: preset[name] if value is None else value for name, value in given.items()}

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

    def factorise(
        self, shift: float, dtype: Any = None, *, explain: bool = True
    ) -> "ShiftedFactor":
        """Factors of K~ + shift I.

        Parameters
        ----------
        shift : float
        dtype : float32 or float64, default that of the matrix
        explain : bool
            Whether the error may cost the search for an eigenvalue.

        Raises
        ------
        numpy.linalg.LinAlgError
            A ValueError: K~ + shift I is not positive definite; the message names a shift that is
            enough.
        """
        check_is_fitted(self)
        try:
            factor = ULVFactor(self.tree_, self.nodes_, shift, dtype or self.dtype)
        except IndefiniteError as error:
            if not explain:
                raise
            raise IndefiniteError(f"{error}: {self._enough()}") from None
        return ShiftedFactor(factor, self.tree_.permutation)

    def needed_shift(self) -> float:
        """What K~ lacks to be positive definite: minus its least eigenvalue, or 0. To about 1 %.

        nan where the eigenvalue was not found. O(n (r + leaf_size)) an iteration of Lanczos.
        """
        try:
            least = eigsh(self, k=1, which="SA", tol=1e-2, return_eigenvectors=False)[0]
        except (ArpackNoConvergence, TypeError):
            return np.nan
        return max(0.0, -float(least))

    def _enough(self) -> str:
        shift = self.needed_shift()
        if np.isnan(shift):
            return "raise the shift, or compress more accurately"
        return (
            f"the least eigenvalue of K~ is about {-shift:.3g}; a shift of {1.1 * shift:.3g} is "
            "enough"
        )

    def matvec(self, x: np.ndarray) -> np.ndarray:
        """K~ x for x : (n,) or (n, 1); the same shape."""
        return self.matmat(np.reshape(x, (-1, 1))).reshape(x.shape)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self.matmat(V) if V.ndim == 2 else self.matvec(V)

    def matmat(self, V: np.ndarray) -> np.ndarray:
        """K~ V for V : (n, m), in the matrix's precision; (n, m). O(n (r + leaf_size) m)."""
        tree, nodes = self.tree_, self.nodes_
        V = np.asarray(V, self.dtype)[tree.permutation]
        moments = self._moments(V)
        out = np.empty(V.shape, V.dtype)
        below = [(len(tree) - 1, np.zeros((0, V.shape[1]), V.dtype))]
        while below:
            i, far = below.pop()
            node = nodes[i]
            values = _from_skeleton(node, far)
            if tree.left[i] < 0:
                rows = slice(tree.start[i], tree.stop[i])
                out[rows] = node.block @ V[rows]
                if values is not None:
                    out[rows] += values
                continue
            left, right = int(tree.left[i]), int(tree.right[i])
            above = node.block @ moments[right], node.block.T @ moments[left]
            if values is not None:
                r = len(above[0])
                above = above[0] + values[:r], above[1] + values[r:]
            below += zip((left, right), above, strict=True)
        original = np.empty_like(out)
        original[tree.permutation] = out
        return original

    rmatvec, rmatmat = matvec, matmat

    def _moments(self, V: np.ndarray) -> list[np.ndarray]:
        """U' V of each node, for V : (n, m) in the order of the tree."""
        tree, moments = self.tree_, list[np.ndarray]()
        for i, node in enumerate(self.nodes_):
            if node.basis is None:
                break
            if tree.left[i] < 0:
                rows = V[tree.start[i] : tree.stop[i]]
            else:
                rows = np.concatenate([moments[tree.left[i]], moments[tree.right[i]]])
            moments.append(rows[node.basis.kept] + node.basis.coef.T @ rows[node.basis.others])
        return moments

    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows of K~; (a, n). O(a n (r + leaf_size))."""
        unit = np.zeros((self.shape[0], len(indices)), self.dtype)
        unit[indices, np.arange(len(indices))] = 1.0
        return self.matmat(unit).T

    def toarray(self) -> np.ndarray:
        """K~ : (n, n), assembled from the bases; for tests and small n."""
        tree, dense = self.tree_, np.zeros(self.shape, self.dtype)
        bases: list[np.ndarray] = []
        for i, node in enumerate(self.nodes_):
            left, right = int(tree.left[i]), int(tree.right[i])
            rows = slice(tree.start[i], tree.stop[i])
            if left < 0:
                dense[rows, rows] = node.block
                below = np.eye(tree.stop[i] - tree.start[i], dtype=self.dtype)
            else:
                U, V = bases[left], bases[right]
                middle = tree.stop[left]
                dense[rows.start : middle, middle : rows.stop] = U @ node.block @ V.T
                dense[middle : rows.stop, rows.start : middle] = V @ node.block.T @ U.T
                below = np.zeros((len(U) + len(V), U.shape[1] + V.shape[1]), self.dtype)
                below[: len(U), : U.shape[1]], below[len(U) :, U.shape[1] :] = U, V
            if node.basis is not None:
                unfolded = np.empty((below.shape[1], node.basis.rank), self.dtype)
                unfolded[node.basis.kept] = np.eye(node.basis.rank)
                unfolded[node.basis.others] = node.basis.coef
                below = below @ unfolded
            bases.append(below)
        original = np.empty_like(dense)
        original[np.ix_(tree.permutation, tree.permutation)] = dense
        return original

    def relative_error(self, n_rows: int = 200, random_state: Any = None) -> float:
        """||K - K~||_F / ||K||_F on sampled rows. O(n_rows n (d + r + leaf_size))."""
        places = _inverse(self.tree_.permutation)
        kernel = self.kernel_.astype(np.float64)
        rows = sampled_rows(self.shape[0], n_rows, check_random_state(random_state))
        return kernel_error(lambda part: kernel.block(places[part])[:, places], self, rows)

    def expansion(self, coef: np.ndarray) -> "TreeExpansion":
        """The function sum_j coef_j k(x, x_j) through the tree, for rows that were not fitted.

        A row is placed into a leaf. The leaf's points stand for themselves, and the skeleton of
        each node that branches off on the way to it for all of the node's points: O(leaf_size +
        r depth) kernel values a row.

        Parameters
        ----------
        coef : (n, m)
            In the order of the data.

        Returns
        -------
        callable
            X : (u, d) -> (u, m) float64
        """
        tree, kernel = self.tree_, self.kernel_
        coef = np.asarray(coef, np.float64)[tree.permutation]
        moments = self._moments(coef)
        dtype = prediction_dtype(kernel, coef)
        machines: dict[int, KernelExpansion] = {}
        below: list[tuple[int, list[int]]] = [(len(tree) - 1, [])]
        while below:
            i, aside = below.pop()
            left, right = int(tree.left[i]), int(tree.right[i])
            if left >= 0:
                below += [(left, [*aside, right]), (right, [*aside, left])]
                continue
            own = np.arange(tree.start[i], tree.stop[i])
            places = np.concatenate([own, *(self.nodes_[j].skeleton for j in aside)])
            values = np.concatenate([coef[own], *(moments[j] for j in aside)])
            machines[i] = KernelExpansion(kernel, places, values, dtype)
        return TreeExpansion(tree, machines, coef.shape[1])


class TreeExpansion(LocalMachines):
    """A function with one expansion for each leaf of a tree.

    Attributes
    ----------
    nbytes : int
        What has to be kept to evaluate it.
    n_centres : int
        Of all leaves together.
    """

    def __init__(
        self, tree: ClusterTree, machines: dict[int, KernelExpansion], n_outputs: int
    ) -> None:
        # A level of the tree is one product.
        depth = float(tree.level[tree.leaves].mean())
        super().__init__(tree.assign, machines, n_outputs, depth)
        self.nbytes = tree.nbytes + sum(machine.nbytes for machine in machines.values())
        self.n_centres = sum(len(machine.coef) for machine in machines.values())


class ShiftedFactor(LinearOperator):
    """(K~ + shift I)^-1, rows and columns in the order of the data.

    Attributes
    ----------
    shift : float
    logdet : float
        log det(K~ + shift I)
    nbytes : int
    """

    def __init__(self, factor: ULVFactor, permutation: np.ndarray) -> None:
        n = len(permutation)
        super().__init__(np.dtype(np.float64), (n, n))
        self._factor, self._permutation = factor, permutation
        self.shift = factor.shift
        self.logdet = factor.logdet
        self.nbytes = factor.nbytes

    def solve(self, B: np.ndarray) -> np.ndarray:
        """(K~ + shift I)^-1 B for B : (n,) or (n, m); the same shape, float64."""
        columns = B if B.ndim == 2 else B[:, None]
        out = np.empty(columns.shape)
        out[self._permutation] = self._factor.solve(columns[self._permutation])
        return out if B.ndim == 2 else out[:, 0]

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        return self.solve(V)

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self.solve(np.ravel(x))

    def _adjoint(self) -> LinearOperator:
        return self

    def _transpose(self) -> LinearOperator:
        return self


def _from_skeleton(node: Any, far: np.ndarray) -> np.ndarray | None:
    """U far : (m, columns) of a node; None for the root."""
    if node.basis is None:
        return None
    values = np.empty((len(node.basis.order), far.shape[1]), far.dtype)
    values[node.basis.kept] = far
    values[node.basis.others] = node.basis.coef @ far
    return values


def _inverse(permutation: np.ndarray) -> np.ndarray:
    inverse = np.empty(len(permutation), np.int32)
    inverse[permutation] = np.arange(len(permutation), dtype=np.int32)
    return inverse


def _tolerances(settings: dict[str, Any]) -> Tolerances:
    return Tolerances(**{name: settings[name] for name in Tolerances.__dataclass_fields__})
