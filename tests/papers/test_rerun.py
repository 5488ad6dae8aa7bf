"""Committed rows, run again from their commands, have the results that they state."""

import os
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

from kbench.config import composer
from kbench.run.plan import make_plan
from kbench.run.runner import obtain_in
from kbench.run.sandbox import Sandbox
from kbench.run.worker import Kept, Live
from kbench.run.worker import run as do_run

ROWS = Path(__file__).parents[2] / "results" / "_reference" / "reference.parquet"
# Another BLAS rounds in another way: one and a half rows of a test set, and a thousandth.
TEST_ROWS = 1.5
RELATIVE = 1e-3

needs_data = pytest.mark.skipif(
    "KBENCH_DATA" not in os.environ, reason="needs real data: set KBENCH_DATA"
)
older_kernel_error = pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="kernel_error is of other rows since c4b49fa, under the same key: .1387 was rks, now "
    ".1376; .1457 was fastfood, now .1437. RMSE agrees to 1e-4",
)


def wine(method, seed, experiment="meka_table8", marks=()):
    marks = [needs_data, *marks]
    return pytest.param(method, "wine", seed, experiment, marks=marks, id=f"{method}-{experiment}")


# Rows of digits whose keys have changed, because their methods' defaults have, state what their
# command no longer runs: bagging_svc, bka_svm, dcpred, dcpred_trained, dcsvm, dcsvm_early,
# doubly_sgd, falkon, hss_admm, k_sdca, kernel_svc, krr, meka_galerkin, nystrom, r_pegasos. So do
# those of wine without an experiment, but for rks and fastfood.
@pytest.mark.parametrize(
    ("method", "dataset", "seed", "experiment"),
    [
        *(
            (method, "digits", 0, None)
            for method in ("svc", "linear_svc", "knn", "random_forest", "norma", "rks_svm")
        ),
        wine("meka", 0),
        wine("meka_psd", 1),
        wine("nystrom", 2),
        wine("rks", 1),
        wine("rks", 2, None, [older_kernel_error]),
        wine("fastfood", 4, None, [older_kernel_error]),
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
        again, _ = do_run(plan.task(run), Live(lambda message: None), Kept())
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
