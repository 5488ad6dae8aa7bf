"""The export to MLflow: every row once, numbers as metrics, and one line without the package."""

import datetime
import sys

import pytest

from kbench.errors import UnavailableError
from kbench.report.mlflow_export import EXPERIMENT, export_rows
from kbench.run.results.rows import schema

EMPTY = dict.fromkeys(schema().names)
ROW = EMPTY | {
    "key": "a1",
    "environment": "e1",
    "threads": 1,
    "status": "ok",
    "method": "svc",
    "dataset": "digits",
    "seed": 3,
    "params": '{"C": 10.0, "kernel": "rbf", "gamma": null}',
    "accuracy": 0.75,
    "objective": float("nan"),
    "fit_wall_s": 1.5,
    "started_at": datetime.datetime(2026, 11, 22, tzinfo=datetime.UTC),
}
FAILED = ROW | {
    "key": "b2",
    "status": "timeout",
    "accuracy": None,
    "fit_wall_s": None,
    "message": "stopped",
}


@pytest.mark.filterwarnings("ignore")
def test_every_row_becomes_one_run_however_often_it_is_exported(tmp_path, monkeypatch):
    tracking = pytest.importorskip("mlflow.tracking", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = str(tmp_path / "store")
    assert export_rows([ROW], store) == (1, 0)
    assert export_rows([ROW, FAILED], store) == (1, 1)
    client = tracking.MlflowClient(tracking_uri=store)
    experiment = client.get_experiment_by_name(EXPERIMENT).experiment_id
    runs = {run.data.tags["status"]: run for run in client.search_runs([experiment])}
    assert runs["ok"].data.metrics == {"accuracy": 0.75, "fit_wall_s": 1.5, "threads": 1.0}
    assert runs["ok"].data.params == {"C": "10.0", "kernel": "rbf", "gamma": "null", "seed": "3"}
    assert runs["ok"].info.status == "FINISHED"
    assert runs["timeout"].info.status == "FAILED"
    assert runs["timeout"].data.tags["message"] == "stopped"


def test_without_the_package_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow.entities", None)
    with pytest.raises(UnavailableError, match=r"^format=mlflow needs MLflow: pip install"):
        export_rows([ROW], "store")
