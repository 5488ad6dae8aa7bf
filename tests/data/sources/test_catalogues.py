"""Tables of scikit-learn's fetchers and of OpenML: from its cache, fetched, without a network."""

from urllib.error import URLError

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.utils import Bunch
from support import left_over, merge, named, shipped, user_file

from kbench.cli import main
from kbench.data import check_config, locate, open_prepared, prepare
from kbench.errors import ConfigError, DataNotFoundError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder where scikit-learn looks for what a user has fetched before."""
    folder = tmp_path / "scikit_learn_data"
    folder.mkdir()
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(folder))
    return folder


@pytest.fixture
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise URLError("Name or service not known")

    monkeypatch.setattr("sklearn.datasets._base.urlretrieve", refuse)
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", refuse)
    # It tries again after a second, three times.
    monkeypatch.setattr("sklearn.datasets._openml.time.sleep", lambda _: None)


def test_california_housing_comes_from_scikit_learns_cache(folders, cache, offline):
    rng = np.random.default_rng(0)
    rows = rng.uniform(1, 5, size=(20640, 9)).round(2)
    joblib.dump(rows, cache / "cal_housing_py3.pkz")
    config = shipped("california_housing", scale="none", target={"scale": "none"})
    found = open_prepared(prepare(config, folders))
    X, y = sklearn.datasets.fetch_california_housing(return_X_y=True, data_home=cache)
    order = np.random.RandomState(0).permutation(20640)
    np.testing.assert_array_equal(found.X_train, X[order[:16512]].astype(np.float32))
    np.testing.assert_array_equal(found.y_test, y[order[16512:]])
    assert (folders.own / "california_housing.parquet").is_file()
    assert left_over(folders.own) == []
    (cache / "cal_housing_py3.pkz").unlink()
    assert prepare(config, folders) == prepare(config, folders)  # the table is all that is needed


def test_a_fetcher_is_asked_where_no_cache_has_the_set(folders, cache, monkeypatch):
    asked = []

    def fetch(*, data_home, as_frame, download_if_missing=True, **kwargs):
        asked.append((data_home, download_if_missing))
        if not download_if_missing:
            raise OSError("Data not found")
        names = [f"Q{j}" for j in range(54)]
        rng = np.random.default_rng(0)
        frame = pd.DataFrame(rng.integers(0, 9, (70, 54)).astype(float), columns=names)
        frame["Cover_Type"] = np.arange(70, dtype=np.int32) % 7 + 1
        return Bunch(frame=frame, feature_names=names, target_names=["Cover_Type"])

    monkeypatch.setattr("sklearn.datasets.fetch_covtype", fetch)
    config = shipped("covtype_sklearn", facts={"n": 70})
    found = open_prepared(prepare(config, folders))
    assert asked == [(cache, False), (folders.own / "_scikit_learn", True)]
    assert (found.n_train, found.n_test, found.n_features) == (56, 14, 54)
    assert np.sum(found.y_train == 1) + np.sum(found.y_test == 1) == 10
    kinds = merge(config, {"variant": "kinds"})
    assert open_prepared(prepare(kinds, folders)).n_classes == 7
    assert len(asked) == 2


def test_an_openml_table_with_categories(folders, cache, monkeypatch):
    def fetch(*, data_id, data_home, as_frame, **kwargs):
        assert data_id == 61
        frame = pd.DataFrame(
            {
                "class": pd.Categorical(["1", "0", "1", "0"]),
                "a": [0.5, 1, 2, 3],
                "b": pd.Categorical(["u", "v", "u", "w"]),
            }
        )
        return Bunch(frame=frame, feature_names=["a", "b"], target_names=["class"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    config = named(split={"kind": "first", "n_train": 3})
    files = {"all": {"names": ["toy.parquet"], "url": "openml:61"}}
    config["source"] = {"kind": "files", "format": "parquet", "files": files}
    found = open_prepared(prepare(config, folders))
    np.testing.assert_array_equal(found.X_train, [[0.5, 1, 0, 0], [1, 0, 1, 0], [2, 1, 0, 0]])
    np.testing.assert_array_equal(found.X_test, [[3, 0, 0, 1]])
    np.testing.assert_array_equal(np.append(found.y_train, found.y_test), [1, -1, 1, -1])


@pytest.mark.parametrize("name", ["california_housing", "covtype_sklearn", "mnist_openml"])
def test_without_a_network_one_line_says_what_is_missing(folders, cache, offline, name):
    config = shipped(name)
    url = config["source"]["files"]["all"]["url"]
    with pytest.raises(DataNotFoundError) as error:
        prepare(config, folders)
    said = str(error.value)
    assert "\n" not in said
    assert said.startswith(f"{name}.parquet is not there, fetching {url} failed: ")
    assert f"into {folders.own} or {folders.read_only[0]}" in said
    assert left_over(folders.own) == []
    assert not any(path.suffix == ".parquet" for path in folders.own.iterdir())
    with pytest.raises(DataNotFoundError, match=rf"is not there, it comes from {url}"):
        prepare(config, folders, download=False)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sklearn:covtyp", r"sklearn:covtyp: kbench knows no fetcher .* \(nearest: covtype"),
        ("openml:mnist", r"openml:mnist: should be openml:NUMBER"),
    ],
)
def test_names_that_do_not_exist(folders, cache, url, message):
    config = shipped("california_housing")
    config["source"]["files"]["all"]["url"] = url
    with pytest.raises(ConfigError, match=message):
        prepare(config, folders)


def test_a_table_at_hand_needs_no_fetcher(folders):
    config = shipped("california_housing", facts={"n": 3})
    frame = pd.DataFrame(np.arange(27.0).reshape(3, 9) / 9, columns=[*"abcdefgh", "MedHouseVal"])
    frame.to_parquet(folders.read_only[0] / "california_housing.parquet")
    assert locate(check_config(config), folders)[0].path is not None
    data = open_prepared(prepare(config, folders, download=False))
    assert data.n_train + data.n_test == 3


def test_a_path_may_be_a_number_on_openml(folders, cache, monkeypatch):
    asked = []

    def fetch_openml(*, data_id, **kwargs):
        asked.append(data_id)
        frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "class": pd.Categorical(list("uvuv"))})
        return Bunch(frame=frame, target_names=["class"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    config = user_file("openml:61")
    with pytest.raises(DataNotFoundError, match=r"openml_61\.parquet is not there"):
        prepare(config, folders, download=False)
    data = open_prepared(prepare(config | {"task": None}, folders))
    assert (data.name, data.task, data.n_train + data.n_test) == ("openml_61", "binary", 4)
    assert prepare(config, folders, download=False)
    assert asked == [61]
    assert (folders.own / "openml_61.parquet").is_file()


def test_a_run_on_a_number_on_openml_finds_table_and_task(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": np.arange(60.0), "class": pd.Categorical(list("uvw") * 20)})
    (tmp_path / "datasets").mkdir()
    frame.to_parquet(tmp_path / "datasets" / "openml_61.parquet")
    for word in ("dataset=openml:61", "dataset.path=openml:61"):
        assert main(["plan", "method=svc", word]) == 0
        assert "openml_61" in capfd.readouterr().out
    assert main(["plan", "-m", "method=svc", "dataset=openml:61,iris"]) == 2
    assert "stands alone, as in dataset=openml:61" in capfd.readouterr().err
    assert main(["plan", "method=svc", "dataset=openml:62", "download=false"]) != 0
    assert "openml_62.parquet is not there" in capfd.readouterr().err
