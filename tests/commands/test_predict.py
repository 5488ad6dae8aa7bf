"""Kept models and `kbench predict`, as a user meets them."""

import functools

import harness
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from kbench.commands import predicting
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import KbenchError
from kbench.prediction import load_model

kbench = functools.partial(harness.run_here, check=0)
COLOURS = ["red", "green", "blue"]


def rows(here):
    return pd.read_parquet(here / "results")


def table(n, seed=0):
    """A number, two columns of categories, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    a, colour, kind = rng.normal(size=n), rng.choice(COLOURS, n), rng.choice(["x", "y"], n)
    label = np.where((colour == "red") != (a > 0.3), "yes", "no")
    return pd.DataFrame({"a": a.round(4), "colour": colour, "kind": kind, "label": label})


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A folder with a kept model of digits."""
    here = tmp_path_factory.mktemp("digits")
    words = ["method=kernel_svc", "method.break_ties=true", "dataset=digits"]
    kbench(here, *words, "keep_model=true")
    return here


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder with a kept model of a table with categories, scaled and calibrated."""
    here = tmp_path_factory.mktemp("mixed")
    table(300).to_csv(here / "train.csv", index=False)
    words = ["dataset=file", "dataset.path=train.csv", "dataset.task=binary"]
    words += ["dataset.source.format=csv", "dataset.source.columns.target=label"]
    words += ["dataset.source.columns.categorical=[colour,kind]", "dataset.scale=standard"]
    kbench(here, "method=kernel_svc", "method.calibration=sigmoid", *words, "keep_model=true")
    return here


@pytest.fixture
def predict(monkeypatch, capsys):
    """`kbench predict` in this process; what it prints."""
    monkeypatch.delenv("KBENCH_DATA", raising=False)

    def run(here, *words):
        monkeypatch.chdir(here)
        assert predicting.main(words) == 0
        return capsys.readouterr().out

    return run


def key(here):
    (name,) = (path.stem for path in (here / "results" / "_models").iterdir())
    return name


def test_a_model_is_kept_once_and_made_again_when_it_is_gone(tmp_path):
    words = ["method=dummy", "dataset=iris"]
    pytest.importorskip("skops")
    kbench(tmp_path, *words)
    assert rows(tmp_path)["model"].isna().all()
    assert not (tmp_path / "results" / "_models").exists()
    assert "1 ok" in kbench(tmp_path, *words, "keep_model=true").stdout
    first, row = rows(tmp_path).sort_values("attempt").itertuples()
    assert first.key == row.key
    assert row.model == f"_models/{row.key}.npz"
    stored = load_model(tmp_path / "results" / row.model)
    assert stored.about["command"] == row.command
    assert row.command.startswith("kbench method=dummy dataset=iris ")
    assert "nothing to do" in kbench(tmp_path, *words, "keep_model=true").stdout
    (tmp_path / "results" / row.model).unlink()
    assert "1 ok" in kbench(tmp_path, *words, "keep_model=true").stdout
    assert (tmp_path / "results" / row.model).is_file()
    assert sorted(rows(tmp_path)["attempt"]) == [1, 2, 3]


def test_a_model_that_the_format_does_not_hold_costs_no_measurement(config_file, tmp_path):
    config_file("method/odd.yaml", "name: odd\nestimator: odd.Odd\n")
    (tmp_path / "odd.py").write_text(
        "from sklearn.naive_bayes import GaussianNB\nclass Odd(GaussianNB): pass\n"
    )
    words = ["method=odd", "dataset=iris", "keep_model=true"]
    for expected in ("1 ok", "nothing to do"):
        done = harness.kbench(tmp_path, *words, env={"PYTHONPATH": str(tmp_path)})
        assert expected in done.stdout, done.stderr
    (row,) = rows(tmp_path).itertuples()
    assert row.message.startswith("the model was not kept: model.estimator is of class odd.Odd")
    assert row.accuracy > 0.9


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_predictions_and_scores_are_those_of_the_run(digits, predict, tmp_path, suffix):
    out = tmp_path / f"p{suffix}"
    said = predict(digits, f"model={key(digits)[:6]}", f"out={out}", "dataset=digits", "proba=true")
    (row,) = rows(digits).itertuples()
    for name in ("accuracy", "balanced_accuracy", "f1", "roc_auc", "average_precision"):
        assert f"{name:18} {getattr(row, name):.6g}\n" in said
    if suffix == ".npy":
        found = np.load(out)
    else:
        frame = pd.read_csv(out) if suffix == ".csv" else pd.read_parquet(out)
        assert list(frame.columns) == ["prediction", *(f"decision_{k}" for k in range(10))]
        found = frame.to_numpy()
    np.testing.assert_array_equal(found[:, 0], found[:, 1:].argmax(axis=1))


def test_a_model_of_bundled_rows_takes_a_table_of_the_user(digits, predict, tmp_path):
    """Bundled rows have no format, so that the suffix of the new file is what says it is CSV."""
    X, y = load_digits(return_X_y=True)
    new = pd.DataFrame(X[:50]).add_prefix("pixel_").assign(label=y[:50])
    new.to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "out.csv"
    path = f"dataset.path={tmp_path / 'new.csv'}"
    predict(digits, f"model={key(digits)[:6]}", path, f"out={out}")
    assert (pd.read_csv(out)["prediction"] == y[:50]).mean() > 0.9


def test_a_table_is_encoded_as_the_training_file_was(mixed, predict, tmp_path):
    given = table(60, seed=1)
    given.to_csv(tmp_path / "labelled.csv", index=False)
    # Other order, fewer categories than the training file had, no target.
    some = given[given["colour"] != "blue"].drop(columns="label")[["kind", "colour", "a"]]
    some.to_csv(tmp_path / "bare.csv", index=False)
    words = [f"model={key(mixed)[:8]}", "proba=true"]
    outs = [tmp_path / "labelled.out.csv", tmp_path / "bare.out.csv"]
    said = predict(mixed, *words, f"out={outs[0]}", f"dataset.path={tmp_path / 'labelled.csv'}")
    assert "roc_auc" in said
    trained = "the model was trained on rows of this file"
    assert trained not in said
    assert trained in predict(mixed, *words, f"out={outs[1]}", "dataset.path=train.csv")
    said = predict(mixed, *words, f"out={outs[1]}", f"dataset.path={tmp_path / 'bare.csv'}")
    assert "no scores" in said
    full, part = map(pd.read_csv, outs)
    assert list(full.columns) == ["prediction", "probability_no", "probability_yes"]
    assert (full["prediction"] == given["label"]).mean() > 0.9
    kept = (given["colour"] != "blue").to_numpy()
    pd.testing.assert_frame_equal(full[kept].reset_index(drop=True), part)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_blocks_do_not_change_what_is_predicted(tmp_path, predict, storage):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).round(3)
    lines = [f"{2 + (x[0] > 0)} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for x in X]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    data = ["dataset=file", "dataset.path=rows.txt", "dataset.task=binary"]
    kbench(tmp_path, "method=kernel_svc", *data, f"dataset.storage={storage}", "keep_model=true")
    model = f"model={key(tmp_path)}"
    whole = predict(tmp_path, model, "out=whole.csv", "dataset.path=rows.txt", "proba=true")
    for out in ("parts.csv", "parts.parquet"):
        with changed_piece_sizes(block=1000):
            blocks = predict(tmp_path, model, f"out={out}", "dataset.path=rows.txt", "proba=true")
        assert blocks.replace(out, "whole.csv") == whole
    frames = [pd.read_csv(tmp_path / name) for name in ("whole.csv", "parts.csv")]
    frames.append(pd.read_parquet(tmp_path / "parts.parquet"))
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0], rtol=1e-6)
    assert set(frames[0]["prediction"]) == {2, 3}  # the labels of the file, not -1 and +1


def test_regression_is_told_in_the_unit_of_the_file(tmp_path, predict):
    pytest.importorskip("skops")
    words = ["method=ridge", "dataset=diabetes", "dataset.target.scale=standard"]
    kbench(tmp_path, *words, "keep_model=true")
    said = predict(tmp_path, f"model={key(tmp_path)}", "out=p.npy", "dataset=diabetes")
    (row,) = rows(tmp_path).itertuples()
    assert f"rmse               {row.rmse:.6g}" in said  # of the scaled target, as in the row
    predicted = np.load(tmp_path / "p.npy")
    assert 50 < predicted.mean() < 250


def test_a_failure_leaves_the_file_that_was_there(digits, predict, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("precious")
    (tmp_path / "wide.txt").write_text("1 65:1\n")
    with pytest.raises(KbenchError, match="64"):
        predict(digits, f"model={key(digits)}", f"out={out}", f"dataset.path={tmp_path}/wide.txt")
    assert out.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["out=p.csv"], "model= is missing"),
        (["model=0000", "out=p.csv"], "keep_model=true"),
        (["model={key}", "out=p.csv"], "dataset.path=ROWS"),
        (["model={key}", "out=p.txt", "dataset=digits"], ".csv, .parquet, .npy"),
        (["model={key}", "out=p.csv", "dataset=breast_cancer"], "the model's is multiclass"),
        (["model={key}", "out=p.csv", "dataset.path=none.txt"], "none.txt"),
        (["model={key}", "out=p.csv", "dataset=iris"], "4 features"),
        (["model={key}", "out=p.csv", "dataset=digts"], "nearest: digits"),
        (["model={key}", "out=p.csv", "dataset=digits", "dataset=iris"], "dataset is given twice"),
        (["model={key}", "out=p.csv", "dataset.path=a.csv,b.csv"], "predict reads one file"),
        (["model={key}", "out=p.csv", "dataset.path=a.csv", "dataset.test_path=b"], "the training"),
        (["model={key}", "out=p.csv", "dataset=digits", "prob=true"], "nearest: proba"),
        (["model={key}", "out=p.csv", "dataset=digits", "proba=yes"], "true, false"),
        (["model={here}", "out=p.csv", "dataset=digits"], "no model of kbench"),
    ],
)
def test_a_mistake_is_one_line(digits, predict, tmp_path, words, named):
    (tmp_path / "foreign.npz").write_bytes(b"PK nothing")
    filled = [w.format(key=key(digits), here=tmp_path / "foreign.npz") for w in words]
    with pytest.raises(KbenchError) as raised:
        predict(digits, *filled)
    assert named in " ".join(str(raised.value).split())
    assert not (digits / "p.csv").exists()


@pytest.mark.parametrize(
    ("rows_", "named"),
    [
        ("a,colour,kind\n1,purple,x\n", "'purple', which no training row has"),
        ("a,colour\n1,red\n", "'kind'"),
        ("a,colour,kind,more\n1,red,x,2\n", "'more'"),
        ("a,colour,kind\nred,1,x\n", "should be a number"),
        ("a,colour,kind\n,red,x\n", r"trained with dataset\.missing=mean, median or ind"),
        ("a\n1\n2\n", "1 field .*, the training file had the columns a, colour, kind"),
    ],
)
def test_a_table_that_does_not_fit_the_model_is_one_line(mixed, predict, tmp_path, rows_, named):
    (tmp_path / "new.csv").write_text(rows_)
    words = [f"model={key(mixed)}", f"out={tmp_path / 'p.csv'}"]
    with pytest.raises(KbenchError, match=named):
        predict(mixed, *words, f"dataset.path={tmp_path / 'new.csv'}")
    assert not (tmp_path / "p.csv").exists()


def test_a_table_as_people_have_it_is_said_kept_and_predicted(tmp_path, predict):
    """A shuffled index, gaps, texts and a target with a mean: by one command, then by predict."""
    frame = table(200).sample(frac=1, random_state=0).drop(columns="label")
    frame.loc[frame.index % 9 == 0, "a"] = np.nan
    frame["year"] = 2000 + frame["a"].fillna(0) + (frame["colour"] == "red")
    frame.to_csv(tmp_path / "people.csv")
    words = ["dataset.source.columns.categorical=auto", "dataset.missing=median"]
    done = kbench(tmp_path, "method=krr", "dataset.path=people.csv", *words, "keep_model=true")
    (row,) = rows(tmp_path).itertuples()
    for said in ("index of the rows", "'colour' holds texts", "median of the training", "'year'"):
        assert said in row.message
        assert said in done.stderr
    assert row.rmse < 0.9 * frame["year"].std()
    path = f"dataset.path={tmp_path / 'people.csv'}"
    out = tmp_path / "p.csv"
    printed = predict(tmp_path, f"model={key(tmp_path)}", f"out={out}", path)
    predicted = pd.read_csv(out)["prediction"]
    assert len(predicted) == 200
    error = np.sqrt(np.mean((predicted.to_numpy() - frame["year"].to_numpy()) ** 2))
    assert error < 0.9 * frame["year"].std()
    assert f"rmse               {error:.6g}"[:24] in printed


@pytest.mark.parametrize("out", ["new.csv", "./new.csv", "link.csv"])
def test_a_file_that_is_read_is_not_written_over(mixed, predict, out):
    table(20, seed=1).to_csv(mixed / "new.csv", index=False)
    (mixed / "link.csv").unlink(missing_ok=True)
    (mixed / "link.csv").symlink_to("new.csv")
    before = (mixed / "new.csv").read_bytes()
    with pytest.raises(KbenchError, match="is a file that this command reads"):
        predict(mixed, f"model={key(mixed)}", "dataset.path=new.csv", f"out={out}")
    assert (mixed / "new.csv").read_bytes() == before


def test_rows_with_a_target_are_scored_whatever_the_others_have(mixed, predict):
    new = table(60, seed=1)
    one_class = new[new.label == "no"]
    words = [f"model={key(mixed)}", "dataset.path=new.csv", "out=out.csv"]
    one_class.to_csv(mixed / "new.csv", index=False)
    assert "accuracy" in predict(mixed, *words)
    new.loc[3:9, "label"] = ""
    new.loc[10, "label"] = "perhaps"
    new.to_csv(mixed / "new.csv", index=False)
    said = predict(mixed, *words)
    assert "scores of 52 rows; the others have no target that the model knows" in said
    found = pd.read_csv(mixed / "out.csv")["prediction"]
    known = new.label.isin(["yes", "no"])
    assert f"{(found[known] == new.label[known]).mean():.6g}" in said
    assert len(found) == 60


@pytest.mark.parametrize("word", ["missing=mean", "source.columns.target=a", "scale=none"])
def test_keys_of_the_training_are_refused(mixed, predict, word):
    table(20).to_csv(mixed / "new.csv", index=False)
    words = [f"model={key(mixed)}", "dataset.path=new.csv", "out=out.csv"]
    with pytest.raises(KbenchError, match="belongs to the training"):
        predict(mixed, *words, f"dataset.{word}")
