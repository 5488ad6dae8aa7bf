"""Committed rows, run again from their commands, have the results that they state."""

import os
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.run.execution.preparing import obtain_in
from kbench.run.execution.sandbox import Sandbox
from kbench.run.execution.worker import Live, SharedState
from kbench.run.execution.worker import run as do_run
from kbench.run.planning.plan import make_plan

ROWS = Path(__file__).parents[2] / "results" / "_reference" / "reference.parquet"
# Another BLAS rounds in another way: one and a half rows of a test set, and a thousandth.
TEST_ROWS = 1.5
RELATIVE = 1e-3

needs_data = pytest.mark.skipif(
    "KBENCH_DATA" not in os.environ, reason="needs real data: set KBENCH_DATA"
)
# Methods of the comparison that fit in a second.
DIGITS = ["aesvm", "bagging_svc", "bka_svm", "cascade_svm", "dcpred", "dcpred_trained"]
DIGITS += ["dcsvm_early", "doubly_sgd", "falkon", "fastfood_svm", "hss_admm", "k_sdca"]
DIGITS += ["kernel_svc", "knn", "krr", "lasvm", "linear_svc", "llsvm", "ltpu", "meka"]
DIGITS += ["meka_galerkin", "nystrom", "norma", "r_pegasos", "random_forest", "rks_svm", "spsvm"]
DIGITS += ["subsample_svc", "svc"]
WINE = [("meka", 0), ("meka_psd", 1), ("nystrom", 2), ("rks", 1), ("fastfood", 2)]


@pytest.mark.parametrize(
    ("method", "dataset", "seed", "experiment"),
    [
        *((method, "digits", 0, "reference") for method in DIGITS),
        *(
            pytest.param(method, "wine", seed, "meka_table8", marks=needs_data, id=f"{method}-wine")
            for method, seed in WINE
        ),
    ],
)
def test_a_row_run_again_has_its_results(method, dataset, seed, experiment, tmp_path):
    row = row_of(method, dataset, seed, experiment)
    words = [*shlex.split(row["command"])[1:], f"datasets_dir={tmp_path}"]
    with composer() as hydra:
        plan = make_plan(hydra, words, obtain=obtain_in(Sandbox()))
    (run,) = plan.runs
    assert run.key == row["key"]
    with threadpool_limits(run.threads):
        again, _ = do_run(plan.task(run), Live(lambda message: None), SharedState())
    stated = {
        name: row[name] for name in ("accuracy", "rmse", "kernel_error") if row[name] is not None
    }
    assert stated
    for name, value in stated.items():
        allowed = TEST_ROWS / row["n_test"] if name == "accuracy" else RELATIVE * value
        assert again[name] == pytest.approx(value, rel=0, abs=allowed), name


def row_of(method, dataset, seed, experiment):
    """The first row, by its key, that has these names, a seed and one thread."""
    names = {"method": method, "dataset": dataset, "seed": seed, "status": "ok", "threads": 1}
    rows = pq.read_table(ROWS, filters=[(k, "=", v) for k, v in names.items()]).to_pylist()
    rows = [row for row in rows if row["experiment"] == experiment]
    return min(rows, key=lambda row: row["key"])
