"""A user's own file: its format by the suffix, its name, its task by the targets."""

import gzip
import os
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from support import named, saved, user_file

from kbench.data import check_config, open_prepared, prepare
from kbench.data.configs.keys import CSV_KEYS
from kbench.data.configs.own_file import complete
from kbench.data.formats import FORMATS
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import ConfigError, DataError, DataNotFoundError


def written(folder, name, targets):
    frame = pd.DataFrame({"a": range(len(targets)), "y": targets, "b": 1.5})
    path = folder / name
    text = frame.to_csv(index=False, sep="\t" if ".tsv" in name else ",").encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def config_of(path, **over):
    return user_file(path, task=None, source={"columns": {"target": "y"}}, **over)


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        ([1, 2, 1, 2, 1], "binary"),
        ([0.5, 1.5, 0.5, 1.5, 0.5], "binary"),
        (["yes", "no", "no", "yes", "no"], "binary"),
        ([1, 2, 3, 1, 2], "multiclass"),
        (["u", "v", "w", "u", "v"], "multiclass"),
        (["1", "v", "3", "4", "5"], "multiclass"),
        ([0.5, 1, 2, 3, 4], "regression"),
        (list(range(60)), "regression"),
    ],
)
def test_the_targets_say_the_task_and_the_user_wins(folders, targets, task):
    path = written(folders.read_only[0], "my.csv", targets)
    made = check_config(config_of(path))
    assert (made["name"], made["task"], made["source"]["format"]) == ("my", task, "csv")
    data = open_prepared(prepare(config_of(path), folders))
    assert (data.name, data.task, data.n_features) == ("my", task, 2)
    if task == "binary" and targets[0] == 1:
        assert check_config(config_of(path) | {"task": "regression"})["task"] == "regression"


@pytest.mark.parametrize(
    ("file", "name", "form"),
    [
        ("my.csv", "my", "csv"),
        ("my.tsv", "my", "csv"),
        ("my table.csv.gz", "my_table", "csv"),
        ("my.parquet", "my", "parquet"),
        ("my.libsvm", "my", "libsvm"),
        ("a9a.t", "a9a.t", "libsvm"),
        ("_hidden", "hidden", "libsvm"),
    ],
)
def test_a_file_s_name_and_format(tmp_path, file, name, form):
    made = check_config(user_file(tmp_path / file))  # with a task the file is not read
    assert (made["name"], made["source"]["format"]) == (name, form)
    assert check_config(user_file(tmp_path / file) | {"name": "mine"})["name"] == "mine"


def test_a_user_s_file_that_cannot_be_read(folders):
    path = written(folders.read_only[0], "my.csv", [1, 2, 3])
    path.write_text("a,y\n1,2\nx,3\n")
    with pytest.raises(DataError, match=r"my\.csv:3: column 'a' is 'x', should be a number"):
        check_config(config_of(path))
    names = written(folders.read_only[0], "my.csv", [f"name {k}" for k in range(12)])
    with pytest.raises(DataError, match="12 different texts in 12 rows, as 'name 0', which are no"):
        check_config(config_of(names))


@pytest.mark.parametrize("name", ["absent.csv", "x" * 300 + ".csv", "folder", "loop", "pipe.csv"])
def test_what_is_no_regular_file_is_not_read(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe.csv")
    said = {
        "folder": "is a folder, should be the path of one file",
        "pipe.csv": "is not a regular file, should be one",
    }.get(name, r"^dataset\.path: there is no file ")
    with pytest.raises(DataNotFoundError, match=said):
        check_config(config_of(tmp_path / name))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arff"])
def test_a_column_that_is_taken_as_the_target_is_named(folders, suffix):
    frame = pd.DataFrame(
        {"a": [0.5, 1.5] * 40, "y": range(0, 160, 2), "last": [1.0] * 3 + [2.0] * 77}
    )
    path = saved(frame, folders.read_only[0] / f"my{suffix}")
    said = "the last column, 'last', is taken as the target; dataset.source.columns.target=NAME"
    (note,) = open_prepared(prepare(user_file(path, task="binary"), folders)).notes
    assert said in note
    told = user_file(path, task="binary", source={"columns": {"target": -1}})
    assert open_prepared(prepare(told, folders)).notes == ()


@pytest.mark.parametrize("n_classes", [50, 200])
def test_many_numbers_as_classes_warn(folders, n_classes):
    path = written(folders.read_only[0], "my.csv", [*range(n_classes)] * 2)
    config = config_of(path) | {"task": "multiclass"}
    with warnings.catch_warnings(record=True, action="always") as caught:
        prepare(config, folders)
    found = [str(w.message) for w in caught if "set dataset.task=regression" in str(w.message)]
    assert len(found) == (n_classes > 50)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_labels_that_float64_does_not_tell_apart_are_refused(folders, task):
    text = "".join(f"{2**53 + k % 2} 1:{k}\n" for k in range(1, 9))
    (folders.read_only[0] / "toy").write_text(text)
    (folders.read_only[0] / "toy.t").write_text(text)
    with pytest.raises(DataError, match=r"label 9007199254740992: whole numbers from 2\^53 on"):
        prepare(named(task=task), folders)
    integers = np.arange(8) % 2 + 2**53
    np.savez(folders.read_only[0] / "z.npz", X=np.eye(8), y=integers)
    with pytest.raises(DataError, match=r"whole numbers from 2\^53 on"):
        prepare(user_file(folders.read_only[0] / "z.npz", task=task), folders)


@pytest.mark.parametrize("form", ["csv", "libsvm"])
@pytest.mark.parametrize("value", ["1", "2.5", "same", "1e+18"])
def test_a_target_of_one_value_is_no_task(tmp_path, form, value):
    if (form, value) == ("libsvm", "same"):
        pytest.skip("labels of LIBSVM text are numbers")
    path = tmp_path / f"one.{form}"
    row = f"{value} 1:0.5\n" if form == "libsvm" else f"0.5,{value}\n"
    path.write_text(("a,y\n" if form == "csv" else "") + 8 * row)
    remedy = "; dataset.source.columns.target" if form == "csv" else "$"
    said = (
        rf"target is '{re.escape(value)}' in all 8 rows.*, should have two values at least{remedy}"
    )
    with pytest.raises(DataError, match=said):
        complete({"source": {"kind": "file"}, "path": str(path)})


@pytest.mark.parametrize("text", ["None", "-", "x"])
def test_the_task_does_not_depend_on_pieces(folders, text):
    """A piece may hold one kind of target alone, and the first 100,000 rows one class."""
    lines = [f"{k},{k % 2}" for k in range(100)] + [f"{k},{text}" for k in range(100)]
    path = folders.read_only[0] / "my.csv"
    path.write_text("\n".join(["a,y", *lines]))
    for size in (50, 1 << 20):
        with changed_piece_sizes(text=size):
            assert check_config(config_of(path))["task"] == (
                "multiclass" if text == "x" else "binary"
            )
    path.write_text("a,y\n" + "1,0\n" * 100_000 + "1,1\n" * 9)
    with changed_piece_sizes(text=1 << 16):
        assert check_config(config_of(path))["task"] == "binary"


@pytest.mark.parametrize("form", sorted(n for n, f in FORMATS.items() if f.table and n != "csv"))
@pytest.mark.parametrize("key", sorted(CSV_KEYS))
def test_keys_of_csv_are_refused_for_other_tables(tmp_path, key, form):
    words = {"header": False, "names": ["p", 2020], "decimal": "comma", "delimiter": "tab"}
    word = words[key.rpartition(".")[2]]
    source = {"format": form, "columns": {key.rpartition(".")[2]: word}}
    with pytest.raises(ConfigError, match=f"{key} is .*, but the format is {form}; it is for csv"):
        check_config(user_file(tmp_path / f"t.{form}", source=source))


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["True", "False"], [True]), (["yes", "no"], [True]), (["1", "x"], [1]), ([1, 0], [True])],
)
def test_a_label_is_found_as_a_shell_and_yaml_read_it(folders, labels, positive):
    path = saved(pd.DataFrame({"a": range(20), "y": labels * 10}), folders.read_only[0] / "t.csv")
    config = user_file(path, target={"positive": positive}, split={"kind": "first"})
    np.testing.assert_array_equal(open_prepared(prepare(config, folders)).y_train[:2], [1, -1])


def test_a_task_that_is_assumed_is_said_also_after_a_run_that_set_it(folders):
    path = written(folders.read_only[0], "t.csv", [0, 1, 2] * 10)
    for task, said in (("multiclass", False), (None, True)):
        config = check_config(config_of(path) | {"task": task})
        notes = open_prepared(prepare(config, folders)).notes
        assert any("the task is multiclass, as" in note for note in notes) == said


def test_files_of_one_name_in_two_folders_of_other_names_are_not_chosen_from(folders):
    raw = folders.read_only[0]
    for folder in ("one", "two"):
        (raw / folder).mkdir()
        for name in ("toy", "toy.t"):
            (raw / folder / name).write_text("1 1:1\n-1 1:2\n")
    with pytest.raises(DataError, match=r"there are .*one/toy and .*two/toy; the right one should"):
        prepare(named(), folders)
    (raw / "one").rename(raw / named()["name"])
    prepare(named(), folders)
