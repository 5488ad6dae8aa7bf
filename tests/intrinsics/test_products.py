"""All products of NumPy arrays in the packages of the engine are `matmul`'s."""

import ast
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import kbench
from kbench.intrinsics.products import matmul

PACKAGES = (
    "kernels",
    "clustering",
    "prediction",
    "solvers",
    "approximation",
    "width_search",
    "metric",
    "methods",
)
ROOT = Path(kbench.__file__).parent
FILES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))


def bare_products(tree):
    """Lines of products outside compiled functions, which NumPy does not compute."""
    compiled = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and (
            function.name == "naive"  # the formula of a kernel, which tests alone evaluate
            or any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
        )
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if id(node) in compiled:
            continue
        operator = getattr(node, "op", None)
        named = isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.matmul", "np.dot")
        if isinstance(operator, ast.MatMult) or named:
            yield node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_product_is_computed_elsewhere(file):
    assert not list(bare_products(ast.parse(file.read_text())))


def test_the_search_finds_bare_products():
    code = "def f(A, B):\n    return A @ B\n\n@njit\ndef g(A, B):\n    return A @ B\nnp.dot(x, y)\n"
    assert sorted(bare_products(ast.parse(code))) == [2, 7]


def test_flags_of_a_product_are_ignored():
    A = np.array([[np.inf, 1.0]], np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(matmul(A, np.array([[0.0], [1.0]], np.float32))).all()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_it_is_the_product(container):
    rng = np.random.default_rng(0)
    A, B = rng.integers(-3, 4, (5, 3)).astype(np.float32), rng.integers(-3, 4, (3, 2))
    assert np.array_equal(matmul(container(A), B), A @ B)
    out = np.empty((5, 2))
    assert matmul(A, B, out=out) is out
    assert np.array_equal(out, A @ B)
