"""Dask collections as X and y of every estimator that learns from rows in chunks."""

import numpy as np
import pandas as pd
import pytest
from all_machines import build, machines
from chunk_rows import N, chunked, rows_of
from sklearn.base import clone, is_classifier

from kbench.approximation import RandomFourierFeatures
from kbench.errors import DataError
from kbench.methods import DCSVC, DoublySGDClassifier, LinearizedSVC

array = pytest.importorskip("dask.array")
dataframe = pytest.importorskip("dask.dataframe")

# A fit of these classes with `build`'s sizes takes milliseconds.
LEARNING = [machine for machine in machines() if getattr(build(machine), "accepts_chunks", False)]


def as_array(X, y):
    return array.from_array(X, (250, X.shape[1])), array.from_array(y, 250)


def as_table(X, y):
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = dataframe.from_pandas(pd.DataFrame({**columns, "y": y}), npartitions=3)
    return table[list(columns)], table["y"]


def test_every_family_is_among_them():
    names = {machine.cls.__name__ for machine in LEARNING}
    assert names >= {
        "ApproximateRidge",
        "ApproximateRidgeClassifier",
        "DCKernelRidge",
        "DCKernelRidgeClassifier",
        "DCPredTrainedClassifier",
        "DCPredTrainedRegressor",
        "DoublySGDClassifier",
        "DoublySGDRegressor",
        "LinearizedSVC",
        "PegasosClassifier",
        "SDCAClassifier",
    }


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* is more than n_samples:UserWarning")
@pytest.mark.parametrize("machine", LEARNING, ids=str)
def test_a_dask_collection_is_the_rows_that_it_holds(machine):
    """The same model, values and score as of `ChunkedRows` of the same rows."""
    model = build(machine)
    X, y = rows_of(targets="three" if is_classifier(model) else "real")
    twin = build(machine).fit(chunked(X, y))
    make = as_table if str(machine) < "DCPred" else as_array
    rows, targets = make(X, y)
    model.fit(rows, targets)
    np.testing.assert_array_equal(model.predict(rows), twin.predict(X))
    if hasattr(model, "decision_function"):
        np.testing.assert_array_equal(model.decision_function(rows), twin.decision_function(X))
    assert model.score(rows, targets) == pytest.approx(twin.score(X, y), abs=1e-12)


def test_early_prediction_learns_from_dask_collections():
    X, y = rows_of(targets="two")
    model = DCSVC(3, gamma=0.3, random_state=0).fit(*as_array(X, y))
    twin = DCSVC(3, gamma=0.3, random_state=0).fit(chunked(X, y))
    values = model.decision_function(as_array(X, y)[0])
    np.testing.assert_array_equal(values, twin.decision_function(X))
    assert model.score(*as_table(X, y)) == twin.score(X, y)


def test_columns_of_float64_and_integers_are_learned_as_float64():
    X, y = rows_of(targets="two")
    X = np.round(4 * X.astype(np.float64))
    model = LinearizedSVC(RandomFourierFeatures(20, gamma=0.1), random_state=0)
    twin = clone(model).fit(chunked(X, y))
    for rows in (X, X.astype(int)):
        model.fit(*as_table(rows, y))
        np.testing.assert_array_equal(model.coef_, twin.coef_)


def test_what_does_not_match_is_refused():
    X, y = rows_of(targets="two")
    rows, targets = as_array(X, y)
    model = DoublySGDClassifier(block_size=32, random_state=0)
    with pytest.raises(ValueError, match=r"y should be one, too, .* it is ndarray"):
        model.fit(rows, y)
    with pytest.raises(ValueError, match="Dask collections take no sample_weight"):
        model.fit(rows, targets, np.ones(N))
    with pytest.raises(DataError, match="rows to learn from have no targets"):
        model.fit(rows)
    model.fit(rows, targets)
    with pytest.raises(DataError, match="rows to score have no targets"):
        model.score(rows)
    X[250, 2] = np.nan
    with pytest.raises(DataError, match="partition 2: row 1 of the chunk has nan in column 3"):
        model.predict(as_array(X, y)[0])
