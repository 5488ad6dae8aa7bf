"""Rows as runs of an MLflow experiment; needs `pip install 'kbench[mlflow]'`."""

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from kbench.errors import ConfigError, UnavailableError
from kbench.run.results.rows import schema

# The experiment that holds the runs, and the tag that identifies the row of a run.
EXPERIMENT = "kbench"
ROW_TAG = "kbench.row"
# Largest number of characters of a parameter's value that every MLflow server accepts.
_MAX_PARAMETER_CHARS = 500
# Columns of text that become tags.
_TAG_COLUMNS = (
    *("method", "dataset", "variant", "task", "status", "message", "preset", "tuned"),
    *("environment", "kbench_version", "commit", "data_sha256", "command"),
)
# Numeric columns that are not measured.
_NOT_METRICS = {"schema_version", "seed", "attempt"}


def export_rows(rows: Iterable[Mapping[str, Any]], store: str) -> tuple[int, int]:
    """Write each row as one finished run of the experiment `kbench`.

    rows : iterable of mappings
        Rows of `kbench.report.comparisons.reading.records`. Failed rows become failed runs.
    store : MLflow's tracking URI, such as ``sqlite:///mlflow.db`` or ``http://host:5000``; a folder
        without a scheme is a store of files.

    Returns int, int. Numbers of runs written, and of rows that the store had already.

    Raises UnavailableError: mlflow is not installed.
    Raises ConfigError: the store refuses the first request.
    """
    try:
        from mlflow.entities import Metric, Param, RunStatus, RunTag
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise UnavailableError(
            "format=mlflow needs MLflow: pip install 'kbench[mlflow]'"
        ) from error
    if "://" not in store:
        # Since version 3 MLflow refuses stores of files unless this variable allows them.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    # These loggers report how MLflow creates the tables of a new store.
    for name in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        client = MlflowClient(tracking_uri=store)
        existing = client.get_experiment_by_name(EXPERIMENT)
        experiment = existing.experiment_id if existing else client.create_experiment(EXPERIMENT)
        stored_identities = _row_identities(client, experiment)
    except MlflowException as error:
        raise ConfigError(f"out={store}: {str(error).splitlines()[0]}") from error
    kinds = {field.name: str(field.type) for field in schema() if field.name not in _NOT_METRICS}
    metrics = [name for name, kind in kinds.items() if kind in ("double", "int64")]
    written = skipped = 0
    for row in rows:
        begin_ms = int(row["started_at"].timestamp() * 1000)
        identity = f"{row['key']} {row['environment']} {row['threads']} {begin_ms}"
        if identity in stored_identities:
            skipped += 1
            continue
        tags = {ROW_TAG: identity}
        tags |= {name: str(row[name]) for name in _TAG_COLUMNS if row[name] is not None}
        name = f"{row['method']} {row['dataset']} seed {row['seed']}"
        run = client.create_run(experiment, start_time=begin_ms, run_name=name)
        # MLflow allows no colon in names on Windows.
        added = {name.replace(":", "/"): v for name, v in (row["scores"] or {}).items()}
        values = added | {column: row[column] for column in metrics}
        client.log_batch(
            run.info.run_id,
            [
                Metric(column, float(value), begin_ms, 0)
                for column, value in values.items()
                if value is not None and math.isfinite(value)
            ],
            [Param(key, text) for key, text in _parameters(row).items()],
            [RunTag(key, text) for key, text in tags.items()],
        )
        # A run that ended early lacks some of these columns.
        seconds = sum(values.get(column) or 0.0 for column in ("load_s", "warmup_s", "fit_wall_s"))
        status = RunStatus.FINISHED if row["status"] == "ok" else RunStatus.FAILED
        client.set_terminated(
            run.info.run_id, RunStatus.to_string(status), begin_ms + round(1000 * seconds)
        )
        written += 1
    return written, skipped


def _row_identities(client: Any, experiment: str) -> set[str]:
    """Identities of the rows whose runs the store has; a request returns 1,000 (set by hand)."""
    rows: set[str] = set()
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        rows.update(run.data.tags.get(ROW_TAG, "") for run in page)
        token = page.token
        if not token:
            return rows


def _parameters(row: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of the method and the seed as short texts, which MLflow stores."""
    parameters = json.loads(row["params"]) if row["params"] else {}
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in parameters.items()
    }
    texts["seed"] = str(row["seed"])
    return {key: text[:_MAX_PARAMETER_CHARS] for key, text in texts.items()}
