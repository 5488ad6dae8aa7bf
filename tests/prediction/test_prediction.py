"""Evaluated machines against their formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import matrix

from kbench.kernels import KernelMatrix, make_kernel
from kbench.prediction import (
    BayesianCommittee,
    CommitteeMember,
    KernelExpansion,
    LocalMachines,
    group_rows,
    prediction_dtype,
)


def gaussian(A, B, gamma=0.5):
    return np.exp(-gamma * ((A[:, None] - B) ** 2).sum(axis=2))


def data(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_expansion_is_the_sum_over_its_centres(dtype, error, sparse):
    X, new = data(3000), data(700, seed=1)
    indices = np.arange(0, 3000, 2)
    coef = np.random.default_rng(2).normal(size=(1500, 2))
    machine = KernelExpansion(matrix(sp.csr_array(X) if sparse else X), indices, coef, dtype)
    expected = gaussian(new, X[indices]) @ coef
    values = machine(sp.csr_array(new) if sparse else new)
    np.testing.assert_allclose(values, expected, atol=error * np.abs(coef).sum())


def test_expansion_of_no_centres_is_zero():
    empty = KernelExpansion(matrix(data(5)), np.empty(0, int), np.empty((0, 2)), np.float64)
    np.testing.assert_array_equal(empty(data(4)), np.zeros((4, 2)))


def test_large_coefficients_and_few_centres_are_evaluated_in_float64():
    kernel = matrix(data(2000), np.float32)
    assert prediction_dtype(kernel, np.ones((2000, 1))) == np.float32
    assert prediction_dtype(kernel, np.full((2000, 1), 1e4)) == np.float64
    assert prediction_dtype(kernel, np.ones((100, 1))) == np.float64


def _few_levels(X):
    return np.clip(np.rint(X * 8.0 + 20.0), 0.0, 40.0) / 40.0


@pytest.mark.parametrize(
    ("name", "rows", "gamma"),
    [
        ("rbf", lambda X: X, 6.0),  # features
        ("rbf", _few_levels, 300.0),  # bytes, where the processor multiplies them
        ("rbf", lambda X: 1.0 * (X > 0.0), 14.0),  # bits
        ("rbf", lambda X: sp.csr_array(np.where(X > 1.5, X, 0.0)), 20.0),  # sparse rows
        ("laplacian", lambda X: X, 10.0),
        ("laplacian", lambda X: sp.csr_array(np.where(X > 1.5, X, 0.0)), 20.0),
        ("matern12", lambda X: X, 40.0),
    ],
)
def test_rows_far_from_all_centres_are_evaluated_in_float64(name, rows, gamma):
    """Kernel values below 2^-100 vanish in float32; float64 still tells the sign of f."""
    rng = np.random.default_rng(0)
    X, new = rows(rng.normal(size=(600, 40))), rows(rng.normal(size=(50, 40)))
    if sp.issparse(X):  # so wide that it is not prepared as dense rows
        wide = [sp.csr_array((Z.shape[0], 4000)) for Z in (X, new)]
        X, new = (sp.csr_array(sp.hstack(pair)) for pair in zip((X, new), wide, strict=True))
    coef = rng.normal(size=(600, 1))
    kernel = KernelMatrix(make_kernel(name, X, gamma=gamma), X, np.float32)
    machine = KernelExpansion(kernel, np.arange(600), coef, np.dtype(np.float32))
    A, B = ((Z.toarray() if sp.issparse(Z) else Z) for Z in (new, X))
    differences = A[:, None, :40] - B[:, :40]
    if name == "laplacian":
        distances = np.abs(differences).sum(axis=2)
    else:
        distances = (differences**2).sum(axis=2) ** (1.0 if name == "rbf" else 0.5)
    exact = np.exp(-gamma * distances)
    largest = exact.max(axis=1)
    assert np.any((largest > 1e-260) & (largest < 2.0**-110))
    np.testing.assert_array_less(
        np.abs(machine(new)[:, 0] - exact @ coef[:, 0]),
        2e-3 * (exact @ np.abs(coef[:, 0])) + 2.0**-890,
    )


def test_values_beyond_float64_leave_the_class_to_the_intercept():
    X = data(600)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=1e6), X, np.float32)
    machine = KernelExpansion(kernel, np.arange(600), np.ones((600, 1)), np.dtype(np.float32))
    values = machine(np.full((3, 3), 50.0))
    assert np.all((values > 0.0) & (values < 2.0**-880))


def test_groups_partition_the_rows_in_order():
    labels = np.array([3, 1, 3, 0, 1, 3])
    groups = dict(group_rows(labels))
    assert {c: rows.tolist() for c, rows in groups.items()} == {0: [3], 1: [1, 4], 3: [0, 2, 5]}


def test_local_machines_evaluate_only_the_rows_of_their_cluster():
    X = data(40)
    machines = [lambda X, c=c: np.full((len(X), 1), float(c)) for c in range(4)]
    labels = np.arange(40) % 4
    values = LocalMachines(lambda X: labels, machines, 1, 0.0)(X)
    np.testing.assert_array_equal(values[:, 0], labels)


def test_committee_weights_members_by_inverse_variance():
    X, new = data(60), data(20, seed=1)
    labels = np.arange(60) % 3
    coef = np.random.default_rng(2).normal(size=(60, 2))
    members, mean, precision = [], 0.0, -2.0
    for c in range(3):
        rows = np.flatnonzero(labels == c)
        noise = np.linspace(0.1, 1.0, len(rows))
        members.append(CommitteeMember(matrix(X).take(rows), np.arange(20), coef[rows], noise))
        k = gaussian(new, X[rows])
        inverse = np.linalg.inv(gaussian(X[rows], X[rows]) + np.diag(noise))
        variance = 1 - np.einsum("ij,jk,ik->i", k, inverse, k)
        mean = mean + (k @ coef[rows]) / variance[:, None]
        precision = precision + 1 / variance
    values = BayesianCommittee(members, 2)(new)
    np.testing.assert_allclose(values, mean / precision[:, None], rtol=1e-9, atol=1e-12)


def test_committee_of_one_is_its_member():
    X, new = data(30), data(10, seed=1)
    coef = np.ones((30, 1))
    member = CommitteeMember(matrix(X), np.arange(30), coef, np.full(30, 0.1))
    np.testing.assert_allclose(BayesianCommittee([member], 1)(new), gaussian(new, X) @ coef)


def test_costs_are_counted_in_products_of_rows():
    X, d = data(60), 3
    kernel = matrix(X, np.float32)
    assert X.shape[1] == d
    one = KernelExpansion(kernel, np.arange(20), np.ones((20, 2)), np.float64)
    two = KernelExpansion(kernel, np.arange(40), np.ones((40, 2)), np.float64)
    assert one.flops(d) == 20 * (1 + 12 / d)
    local = LocalMachines(lambda X: np.zeros(len(X)), [one, two], 2, 5.0)
    assert local.flops(d) == 5 + 30 * (1 + 12 / d)
