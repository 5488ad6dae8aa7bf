"""Presets of the HSS compression: default values of the parameters of `HSSMatrix`.

`paper_table4` and `paper_table5` are the settings of Tables 4 and 5 of Cipolla and Gondzio,
"Training very large scale nonlinear SVMs using Alternating Direction Method of Multipliers coupled
with the Hierarchically Semi-Separable kernel approximations" (EURO J. Comput. Optim. 10, 2022).
They sample near columns only, without a sketch. The other presets are ours: they add far columns
and a sketch, and bound the Frobenius norm of the residual. On ijcnn1 and cod-rna the relative error
of the matrix is about 1e-2 with `fast` and below 1e-3 with `accurate` (`scripts/bench_hss.py
compress`). `precise` is for ridges far below the largest eigenvalue.
"""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "paper_table4": {
        "leaf_size": 512,
        "n_neighbours": 64,
        "n_trees": 6,
        "rel_tol": 1.0,
        "abs_tol": 0.1,
        "trace_tol": 0.0,
        "max_rank": 200,
        "max_near": "none",
        "n_far": 0,
        "sketch": "none",
    },
    "paper_table5": {
        "leaf_size": 512,
        "n_neighbours": 512,
        "n_trees": 3,
        "rel_tol": 0.5,
        "abs_tol": 0.05,
        "trace_tol": 0.0,
        "max_rank": 2000,
        "max_near": "none",
        "n_far": 0,
        "sketch": "none",
    },
    "fast": {
        "leaf_size": 256,
        "n_neighbours": 16,
        "n_trees": 3,
        "rel_tol": 0.0,
        "abs_tol": 0.0,
        "trace_tol": 1e-3,
        "max_rank": 200,
        "max_near": 500,
        "n_far": 1500,
        "sketch": 600,
    },
    "accurate": {
        "leaf_size": 256,
        "n_neighbours": 16,
        "n_trees": 3,
        "rel_tol": 0.0,
        "abs_tol": 0.0,
        "trace_tol": 1e-4,
        "max_rank": 800,
        "max_near": 500,
        "n_far": 3000,
        "sketch": 1500,
    },
    "precise": {
        "leaf_size": 256,
        "n_neighbours": 16,
        "n_trees": 3,
        "rel_tol": 0.0,
        "abs_tol": 0.0,
        "trace_tol": 1e-6,
        "max_rank": 2000,
        "max_near": 1000,
        "n_far": 8000,
        "sketch": 4000,
    },
}
