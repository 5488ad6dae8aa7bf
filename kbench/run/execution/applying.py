"""Apply a stored model to rows, block by block, and write a file of predictions."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kbench.data import Preparation
from kbench.errors import ConfigError, KbenchError
from kbench.files import output_file
from kbench.run.results import metrics
from kbench.run.results.added_scores import Predictions, quantile_columns

Columns = dict[str, np.ndarray]  # "prediction" or name of a score -> values : (b,)


def require_format(out: Path) -> None:
    """Refuse a file whose suffix names no format of predictions."""
    if out.suffix not in _WRITERS:
        raise ConfigError(f"out is {out}, should end in {', '.join(_WRITERS)}")


def apply_model(
    estimator: Any, preparation: Preparation, rows: Any, out: Path, *, proba: bool
) -> tuple[dict[str, float | None], int]:
    """Predict rows and write a file; return scores and number of the rows with a known target.

    estimator : A fitted estimator. rows : Raw rows from `kbench.data.read_rows`.
    out : A .csv, .parquet or .npy file, which is written atomically.
    proba : Whether to write probabilities, or else decision values, beside the predictions. Ranking
        metrics are among the scores only with `proba`, or for outlier detectors.

    Takes memory for a block of features, and for the predictions of all rows if some have targets.

    Raises ConfigError: `proba` without scores of classes; text labels in a .npy file.
    Raises DataError: the rows have another number of features than the model.
    """
    is_outlier_task = preparation.target.task == "outlier"
    names = _score_names(estimator, preparation) if proba and not is_outlier_task else []
    names += ["decision"] * is_outlier_task
    mask = preparation.target.known(rows.y) & rows.has_targets
    labelled = bool(mask.any())
    blocks: list[Columns] = []
    with output_file(out) as file, _WRITERS[out.suffix](file, rows.n) as write:
        for X in preparation.features(rows):
            predicted = np.asarray(estimator.predict(X))
            columns = {"prediction": predicted}
            if names:
                columns |= dict(zip(names, _scores(estimator, X).T, strict=True))
            write(columns | {"prediction": preparation.target.decode(predicted)})
            if labelled:
                blocks.append(columns)
    if not labelled:
        return {}, 0
    joined = {name: np.concatenate([block[name] for block in blocks])[mask] for name in blocks[0]}
    return _metrics(estimator, preparation, rows.y[mask], joined), int(mask.sum())


def _metrics(
    estimator: Any, preparation: Preparation, labels: np.ndarray, columns: Columns
) -> dict[str, float | None]:
    """Column -> metric of the predictions."""
    y = preparation.target.encode(labels)
    predicted = columns.pop("prediction")
    in_unit = preparation.target.scored
    task = preparation.target.task
    scored = Predictions(task, estimator, None, in_unit(y), in_unit(predicted))
    values: dict[str, float | None] = {**metrics.score(task, scored.y, scored.labels)}
    values |= quantile_columns(scored)
    if task == "outlier":
        values |= metrics.ranking_scores(y, -columns["decision"], np.array([1, -1]))
    elif columns:
        scores = np.column_stack(list(columns.values()))
        scores = scores[:, 0] if scores.shape[1] == 1 else scores
        values |= metrics.ranking_scores(y, scores, np.asarray(estimator.classes_))
    return values


def _score_names(estimator: Any, preparation: Preparation) -> list[str]:
    """Names of score columns: probability_<label>, decision_<label>, or only `decision`."""
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise ConfigError(
            f"proba=true, but {type(estimator).__name__} has neither probabilities nor decision "
            "values; method.calibration=sigmoid gives a classifier probabilities"
        )
    labels = preparation.target.decode(np.asarray(estimator.classes_)).tolist()
    if hasattr(estimator, "predict_proba"):
        return [f"probability_{label}" for label in labels]
    return ["decision"] if len(labels) == 2 else [f"decision_{label}" for label in labels]


def _scores(estimator: Any, X: Any) -> np.ndarray:
    """Probabilities, or else decision values, of rows X : (b, d).

    Returns float64 (b, number of score columns).
    """
    has_proba = hasattr(estimator, "predict_proba")
    values = (estimator.predict_proba if has_proba else estimator.decision_function)(X)
    return np.asarray(values, np.float64).reshape(X.shape[0], -1)


@contextmanager
def _csv(file: BinaryIO, n: int) -> Any:
    def write(columns: Columns) -> None:
        import pandas as pd

        header = file.tell() == 0
        text = pd.DataFrame(columns).to_csv(index=False, header=header, lineterminator="\n")
        file.write(text.encode())

    yield write


@contextmanager
def _parquet(file: BinaryIO, n: int) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(columns: Columns) -> None:
        nonlocal writer
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(file, table.schema, compression="zstd")
        writer.write_table(table)

    yield write
    if writer is not None:
        writer.close()


@contextmanager
def _npy(file: BinaryIO, n: int) -> Any:
    """Writer of (n,) predictions, or of float64 (n, 1 + scores) with predictions in column 0."""

    def write(columns: Columns) -> None:
        if columns["prediction"].dtype.kind not in "iuf":
            raise ConfigError("out=*.npy holds numbers, but the labels are texts: .csv or .parquet")
        block = (
            np.column_stack([values.astype(np.float64) for values in columns.values()])
            if len(columns) > 1
            else columns["prediction"]
        )
        if file.tell() == 0:
            header = {"descr": np.lib.format.dtype_to_descr(block.dtype), "fortran_order": False}
            shape = (n, *block.shape[1:])
            np.lib.format.write_array_header_1_0(file, header | {"shape": shape})
        file.write(np.ascontiguousarray(block).data)

    yield write
    if file.tell() == 0 and n == 0:
        raise KbenchError("there are no rows to predict")


# Suffix -> context manager of (file, number of rows); its value is a function that writes a block.
_WRITERS: dict[str, Any] = {".csv": _csv, ".parquet": _parquet, ".npy": _npy}
