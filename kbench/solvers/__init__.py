"""Optimisation algorithms; they know no estimator.

A solver gets a kernel matrix or rows, targets and tolerances, and returns coefficients. Estimators
are in `kbench.methods`, the evaluation of solutions is in `kbench.prediction`.

Modules are imported when a name is first used: each has compiled functions, and a fit should load
only those of its solver.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbench.solvers.admm.racqp import RACQPResult, solve_racqp
    from kbench.solvers.admm.svm_admm import ADMMResult, balance, intercepts, solve_admm
    from kbench.solvers.box_dual.solve import (
        BoxDualResult,
        RegressionDualResult,
        solve_box_dual,
        solve_regression_dual,
    )
    from kbench.solvers.incremental.sparse_primal import SparsePrimalResult, solve_sparse_primal
    from kbench.solvers.linear.linear_dual import LinearDualResult, RowBlocks, solve_linear_dual
    from kbench.solvers.ridge.cg import CGResult, solve_cg
    from kbench.solvers.ridge.kernel_ridge import solve_kernel_ridge

__all__ = [
    "ADMMResult",
    "BoxDualResult",
    "CGResult",
    "LinearDualResult",
    "RACQPResult",
    "RegressionDualResult",
    "RowBlocks",
    "SparsePrimalResult",
    "balance",
    "intercepts",
    "solve_admm",
    "solve_box_dual",
    "solve_cg",
    "solve_kernel_ridge",
    "solve_linear_dual",
    "solve_racqp",
    "solve_regression_dual",
    "solve_sparse_primal",
]

_MODULES = {
    "admm.svm_admm": ("ADMMResult", "balance", "intercepts", "solve_admm"),
    "box_dual.solve": (
        "BoxDualResult",
        "RegressionDualResult",
        "solve_box_dual",
        "solve_regression_dual",
    ),
    "ridge.cg": ("CGResult", "solve_cg"),
    "ridge.kernel_ridge": ("solve_kernel_ridge",),
    "linear.linear_dual": ("LinearDualResult", "RowBlocks", "solve_linear_dual"),
    "admm.racqp": ("RACQPResult", "solve_racqp"),
    "incremental.sparse_primal": ("SparsePrimalResult", "solve_sparse_primal"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
