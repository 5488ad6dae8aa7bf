"""HSS matrices: identities between assembly, product, rows, factors, and the exact kernel."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg
from sklearn.base import clone
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from kbench.approximation import HSSMatrix
from kbench.approximation.hss.compression import _add_scaled, _fold
from kbench.approximation.hss.interpolative import interpolate
from kbench.clustering import nearest_neighbours
from kbench.presets import HSS
from kbench.trace import Trace

EVERY_COLUMN = {
    "preset": "accurate",
    "trace_tol": 1e-12,
    "max_rank": 10**6,
    "max_near": 10**6,
    "n_far": 10**6,
    "sketch": 10**6,
    "dtype": "float64",
}


def points(n=700, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def fit(X, **options):
    return HSSMatrix(**{"gamma": 0.5, "leaf_size": 40, "random_state": 0, **options}).fit(X)


@pytest.mark.parametrize("preset", ["paper_table4", "paper_table5", "fast", "accurate", "precise"])
@pytest.mark.parametrize("sparse", [False, True])
def test_assembled_matrix_product_rows_and_factors_agree(preset, sparse):
    X = points()
    matrix = fit(sp.csr_array(X) if sparse else X, preset=preset, dtype="float64")
    dense = matrix.toarray()
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    V = points(700, 4, seed=1)
    np.testing.assert_allclose(matrix @ V, dense @ V, atol=1e-12 * 700)
    np.testing.assert_allclose(matrix @ V[:, 0], dense @ V[:, 0], atol=1e-12 * 700)
    np.testing.assert_allclose(matrix.rows(np.array([0, 5, 699])), dense[[0, 5, 699]], atol=1e-12)
    for shift in (50.0, 1000.0):
        factor = matrix.factorise(shift)
        shifted = dense + shift * np.eye(700)
        np.testing.assert_allclose(shifted @ factor.solve(V), V, atol=1e-10)
        np.testing.assert_allclose(factor @ V[:, 0], factor.solve(V)[:, 0], atol=1e-12)
        assert factor.logdet == pytest.approx(np.linalg.slogdet(shifted)[1], rel=1e-12)
    assert matrix.nbytes_ < dense.nbytes
    nodes, order = matrix.nodes_, matrix.tree_.permutation
    integers = [order, *(node.skeleton for node in nodes)]
    integers += [node.basis.order for node in nodes if node.basis is not None]
    assert matrix.nbytes_ == 8 * matrix.n_parameters_ + sum(each.nbytes for each in integers)


@pytest.mark.parametrize("tree", ["2means", "kd", "pca", "cobble", "natural"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_exact_if_every_column_is_sampled(kernel, tree):
    X = points(301)
    matrix = fit(X, tree=tree, kernel=kernel, **EVERY_COLUMN)
    exact = {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[kernel](X, gamma=0.5)
    error = np.linalg.norm(matrix.toarray() - exact) / np.linalg.norm(exact)
    # Pivots of the Gram matrix are accurate to the square root of the rounding of float64.
    assert error < 1e-6
    assert matrix.relative_error(301) == pytest.approx(error, rel=0.01)


def test_presets_are_as_accurate_as_documented():
    X = points(1500, 4)
    errors = {
        preset: [
            fit(X, preset=preset, leaf_size=128, random_state=seed).relative_error(100, 0)
            for seed in range(2)
        ]
        for preset in ("fast", "accurate")
    }
    assert np.median(errors["fast"]) < 1e-2
    assert np.median(errors["accurate"]) < 1e-3


@pytest.mark.parametrize("gamma", [0.02, 2.0])
def test_folded_sketches_are_used_at_low_ranks_only_and_are_as_accurate(gamma):
    X = points(2500)

    def compressed(sketch, seed):
        return fit(X, preset="fast", gamma=gamma, leaf_size=128, sketch=sketch, random_state=seed)

    def error(sketch):
        return np.median([compressed(sketch, seed).relative_error(100, 0) for seed in range(3)])

    assert (6 * compressed(600, 0).ranks_[0][2] > 600 / 4) == (gamma == 2.0)
    assert error(600) < 1.5 * error(10**6)


def test_a_folded_sketch_is_the_sketch_of_fewer_columns():
    values, signs = points(40, 1000), np.sign(points(1000, 1, seed=1))[:, 0]
    wide, narrow = np.zeros((40, 120)), np.zeros((40, 30))
    for sketch in (wide, narrow):
        for first in range(0, 1000, sketch.shape[1]):
            part = slice(first, first + sketch.shape[1])
            _add_scaled(values[:, part], signs[part], sketch)
    np.testing.assert_allclose(_fold(wide, 30), narrow, atol=1e-12)
    by_hand = [values[:, j::30] @ signs[j::30] for j in range(30)]
    np.testing.assert_allclose(narrow, np.transpose(by_hand), atol=1e-12)
    # Columns beyond a multiple of the fewer ones begin again.
    thrice = wide[:, :20] + wide[:, 50:70] + wide[:, 100:]
    np.testing.assert_allclose(_fold(wide, 50)[:, :20], thrice)


def test_the_first_level_is_dropped_at_a_relative_tolerance_of_one():
    matrix = fit(points(), preset="paper_table4", balanced=True)
    assert matrix.ranks_[0] == (0, 0.0, 0)
    assert matrix.ranks_[1][2] > 0


@settings(max_examples=25)
@given(
    n=st.integers(1, 150),
    leaf_size=st.integers(2, 40),
    n_distinct=st.integers(1, 150),
    max_rank=st.integers(1, 60),
    gamma=st.sampled_from([1e-6, 0.1, 1.0, 1e4]),
)
def test_any_size_rank_and_number_of_copies(n, leaf_size, n_distinct, max_rank, gamma):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_distinct, 3))[rng.randint(n_distinct, size=n)]
    matrix = fit(X, leaf_size=leaf_size, gamma=gamma, max_rank=max_rank, dtype="float64")
    dense = matrix.toarray()
    v = rng.standard_normal((n, 2))
    np.testing.assert_allclose(matrix @ v, dense @ v, atol=1e-10 * n)
    shift = 1.0 - 1.1 * min(np.linalg.eigvalsh(dense)[0], 0.0)
    solution = matrix.factorise(shift).solve(v)
    np.testing.assert_allclose(dense @ solution + shift * solution, v, atol=1e-9)


def test_matrix_and_factors_can_be_stored():
    matrix = fit(points())
    factor = matrix.factorise(10.0)
    v = points(700, 2, seed=1)
    stored, stored_factor = pickle.loads(pickle.dumps((matrix, factor)))
    np.testing.assert_array_equal(stored @ v, matrix @ v)
    np.testing.assert_array_equal(stored_factor.solve(v), factor.solve(v))


def test_scipy_solvers_accept_it_as_a_linear_operator():
    matrix = fit(points(), preset="accurate", dtype="float64")
    preconditioner = matrix.factorise(1.1)
    shifted = aslinearoperator(matrix) + LinearOperator((700, 700), matvec=lambda v: v, dtype=float)
    b = points()[:, 0]
    steps = []
    x, info = cg(shifted, b, M=preconditioner, rtol=1e-10, callback=steps.append)
    assert info == 0
    assert len(steps) < 12
    np.testing.assert_allclose(matrix @ x + x, b, atol=1e-8)


def test_machines_approximate_the_expansion_at_new_rows():
    X, new = points(2000), points(500, seed=1)
    matrix = fit(X, preset="accurate", dtype="float64")
    coef = points(2000, 2, seed=2)
    exact = rbf_kernel(new, X, gamma=0.5) @ coef
    machine = matrix.machine(coef)
    error = np.linalg.norm(machine(new) - exact) / np.linalg.norm(exact)
    assert error < 1e-2
    # On the training rows it is the product, but for the exact values of each leaf.
    products = matrix @ coef
    assert np.linalg.norm(machine(X) - products) < 1e-2 * np.linalg.norm(products)
    assert machine.n_centres < 0.5 * len(X) * len(matrix.tree_.leaves)


def test_the_kernel_with_new_rows_is_the_machine_of_unit_coefficients():
    X, new = points(800), points(60, seed=1)
    matrix = fit(X, preset="accurate", dtype="float64")
    cross = matrix.cross(new)
    np.testing.assert_allclose(cross, matrix.machine(np.eye(800))(new), atol=1e-12)
    exact = rbf_kernel(new, X, gamma=0.5)
    assert np.linalg.norm(cross - exact) < 1e-2 * np.linalg.norm(exact)
    # The points of the leaf that a row falls into are not approximated.
    tree, leaves = matrix.tree_, matrix.tree_.assign(new)
    for i, leaf in enumerate(leaves):
        own = tree.permutation[tree.start[leaf] : tree.stop[leaf]]
        np.testing.assert_allclose(cross[i, own], exact[i, own], atol=1e-12)
    np.testing.assert_allclose(matrix.cross(sp.csr_array(new)), cross, atol=1e-12)


def test_a_matrix_like_another_computes_only_what_its_parameters_change():
    X = points()
    first = fit(X)

    def phases(**parameters):
        trace = Trace()
        again = clone(first).set_params(**parameters).fit(X, like=first, trace=trace)
        cold = fit(X, **parameters)
        error = np.linalg.norm(again.toarray() - cold.toarray()) / np.linalg.norm(cold.toarray())
        assert error < 0.02
        return again, set(trace.timings)

    again, computed = phases()
    assert again.nodes_ is first.nodes_
    assert not computed
    for parameters in ({"gamma": 2.0}, {"preset": "accurate"}, {"max_rank": 100}):
        again, computed = phases(**parameters)
        assert again.tree_ is first.tree_
        assert again._near is first._near
        assert again.nodes_ is not first.nodes_
    for parameters in ({"leaf_size": 50}, {"random_state": 1}, {"tree": "kd"}):
        assert phases(**parameters)[0].tree_ is not first.tree_


def test_neighbours_of_another_search_are_used():
    X = points()
    first = fit(X)
    table = nearest_neighbours(X, 16, np.random.RandomState(3))
    given_table = clone(first).fit(X, neighbours=table)
    np.testing.assert_array_equal(given_table.neighbours_, table)
    with pytest.raises(ValueError, match="like is of 700 rows, but X has 699"):
        HSSMatrix().fit(X[1:], like=first)
    with pytest.raises(ValueError, match="like and neighbours both"):
        HSSMatrix().fit(X, like=first, neighbours=table)


def test_a_typed_value_wins_over_its_preset_and_limits_can_be_lifted():
    X = points(800)
    by_preset = fit(X, preset="fast", leaf_size=64)
    for parameters, fewer in (({"sketch": 5}, True), ({"max_rank": 3}, True), ({}, False)):
        typed = fit(X, preset="fast", leaf_size=64, **parameters)
        assert (typed.n_parameters_ < by_preset.n_parameters_) == fewer
    # Without a sketch and a limit on near columns, the sampled columns themselves decide.
    table4 = {"preset": "paper_table4", "leaf_size": 64}
    settings = HSS["paper_table4"] | {"leaf_size": 64}
    with pytest.warns(UserWarning, match="n_trees=6 has no effect"):
        spelt_out = fit(X, preset="fast", **settings)
    np.testing.assert_array_equal(spelt_out.toarray(), fit(X, **table4).toarray())
    assert (fit(X, sketch=5, **table4).toarray() != spelt_out.toarray()).any()


def test_nodes_without_neighbours_outside_get_columns_from_everywhere():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 3))
    X = np.repeat(centres, 50, axis=0) + 1e-3 * rng.normal(size=(400, 3))
    settings = {"rel_tol": 1e-3, "abs_tol": 1e-6, "n_neighbours": 2, "leaf_size": 64}
    matrix = fit(X, preset="paper_table5", **settings)
    assert matrix.neighbours_.shape[1] == 2
    assert matrix.relative_error(random_state=0) < 0.05
    # Blocks between clusters have rank 1 up to the tolerance.
    assert max(largest for _, _, largest in matrix.ranks_) < 16
    copies = fit(np.repeat(centres, 50, axis=0), preset="paper_table4", leaf_size=64)
    assert copies.ranks_[-1][0] >= 1


def test_wide_sparse_rows():
    rng = np.random.default_rng(0)
    X = sp.random_array((400, 47236), density=1e-3, format="csr", rng=rng)
    X.data[:] = 0.15
    matrix = fit(X, gamma=0.5, preset="accurate", leaf_size=100, dtype="float64")
    exact = rbf_kernel(X, gamma=0.5)
    assert np.linalg.norm(matrix.toarray() - exact) / np.linalg.norm(exact) < 1e-2
    assert matrix.machine(np.ones((400, 1)))(X[:10]).shape == (10, 1)


def test_memory_limits_name_the_parameters_to_lower():
    X = points()
    with pytest.raises(ValueError, match=r"memory_mb=0.01, but the leaves .* MiB: lower leaf_size"):
        fit(X, memory_mb=0.01)
    matrix = fit(X)
    leaves = sum(matrix.nodes_[i].block.nbytes for i in matrix.tree_.leaves)
    with pytest.raises(ValueError, match=r"takes more than .* MiB: lower max_rank or leaf_size"):
        fit(X, memory_mb=leaves / 2**20)


def test_fewer_rows_than_a_leaf_are_exact():
    X = points(30)
    matrix = fit(X, leaf_size=256, dtype="float64")
    assert matrix.ranks_ == []
    np.testing.assert_allclose(matrix.toarray(), rbf_kernel(X, gamma=0.5), atol=1e-12)


def test_the_error_for_a_small_shift_names_a_sufficient_one():
    matrix = fit(points(), preset="paper_table4", dtype="float64")
    least = np.linalg.eigvalsh(matrix.toarray())[0]
    assert least < -0.1
    with pytest.raises(ValueError, match="not positive definite: the least eigenvalue") as error:
        matrix.factorise(-0.5 * least)
    enough = float(str(error.value).split("a shift of ")[1].split()[0])
    assert -least < enough < -1.2 * least
    matrix.factorise(enough)


def test_interpolation_is_the_pivoted_qr_decomposition():
    from scipy.linalg import qr

    rng = np.random.default_rng(0)
    S = rng.normal(size=(60, 12)) @ rng.normal(size=(12, 200)) * np.geomspace(1, 1e-3, 60)[:, None]
    basis = interpolate(S @ S.T, rel_tol=1e-2)
    R, pivots = qr(S.T, mode="r", pivoting=True)
    rank = np.count_nonzero(np.abs(np.diag(R)) > 1e-2 * abs(R[0, 0]))
    assert basis.rank == rank
    np.testing.assert_array_equal(basis.kept, pivots[:rank])
    whole = interpolate(S @ S.T, rel_tol=1e-6)
    np.testing.assert_allclose(whole.coef @ S[whole.kept], S[whole.others], atol=1e-5)
    assert interpolate(S @ S.T, rel_tol=1.0).rank == 0
    assert interpolate(S @ S.T, max_rank=3).rank == 3
    assert interpolate(np.zeros((4, 4))).coef.shape == (4, 0)


@pytest.mark.parametrize("tol", [0.5, 0.1, 1e-3])
def test_trace_tol_bounds_the_residual(tol):
    S = points(50, 80) * np.geomspace(1, 1e-4, 80)
    basis = interpolate(S @ S.T, trace_tol=tol)
    # The best combinations of the kept rows: what the Gram matrix's Schur complement measures.
    K, rest = S[basis.kept], S[basis.others]
    left = rest - rest @ np.linalg.pinv(K) @ K
    assert np.linalg.norm(left) <= tol * np.linalg.norm(S) * (1 + 1e-6)
    fewer = interpolate(S @ S.T, max_rank=basis.rank - 1)
    K, rest = S[fewer.kept], S[fewer.others]
    left = rest - rest @ np.linalg.pinv(K) @ K
    assert np.linalg.norm(left) > tol * np.linalg.norm(S) * (1 - 1e-6)
