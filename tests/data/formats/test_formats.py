"""Readers of tables, arrays, images and molecules: identities, and what bad files are told."""

import gzip
import io
import lzma
import shutil
import tarfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.io
import scipy.io.arff
from hypothesis import given, settings
from hypothesis import strategies as st
from support import left_over, merge, named, opened, saved, shipped, user_file

from kbench.data import check_config, fingerprint, influence, prepare
from kbench.data.configs.keys import KEYS
from kbench.data.formats import parquet, read
from kbench.data.formats.molecules import BOHR, coulomb_matrix, sorted_triangle
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import ConfigError, DataError

TRAIN = "a,tcp,1.5,yes\nb,udp,2,no\nc,tcp,0,no\nb,tcp,-1e3,yes\n"
TEST = "b,udp,4,yes\na,tcp,5,no\n"
CATEGORIES = {"columns": {"categorical": [1, 2]}, "format": "csv"}
YES = {"target": {"positive": ["yes"]}}


def put(folders, **contents):
    """Files of the data set `toy`; `test` is `toy.t`."""
    for name, content in contents.items():
        path = folders.read_only[0] / {"train": "toy", "test": "toy.t"}.get(name, name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def two(source=CATEGORIES, **over):
    return merge(named(source=source), over)


def one(format_, source=None, **over):
    """One file `toy` of a format; its first two rows train."""
    config = named(task="regression", split={"kind": "first", "n_train": 2})
    files = {"all": {"names": ["toy"], "url": None}}
    config["source"] = {"kind": "files", "format": format_, "files": files, **(source or {})}
    return merge(config, over)


def test_categories_become_one_feature_each_in_the_order_of_the_file(folders):
    put(folders, train=TRAIN, test=TEST)
    data = opened(two(**YES), folders)
    first, second = [1, 0, 0, 1, 0, 1.5], [0, 1, 0, 0, 1, 2]
    expected = [first, second, [0, 0, 1, 1, 0, 0], [0, 1, 0, 1, 0, -1000]]
    np.testing.assert_array_equal(data.X_train, expected)
    np.testing.assert_array_equal(data.X_test, [[0, 1, 0, 0, 1, 4], [1, 0, 0, 1, 0, 5]])
    np.testing.assert_array_equal(data.y_train, [1, -1, -1, 1])
    np.testing.assert_array_equal(data.y_test, [1, -1])
    sparse = opened(two(storage="csr", **YES), folders)
    np.testing.assert_array_equal(sparse.X_train.toarray(), data.X_train)


@given(st.data())
@settings(max_examples=30)
def test_one_hot_is_that_of_pandas(tmp_path_factory, data):
    n = data.draw(st.integers(1, 30))
    words = st.text(st.sampled_from("abcä '.-?"), min_size=1).map(str.strip)
    column = data.draw(st.lists(words.filter(bool), min_size=n, max_size=n))
    numbers = data.draw(st.lists(st.floats(-1e6, 1e6, width=32), min_size=n, max_size=n))
    path = tmp_path_factory.mktemp("csv") / "toy"
    frame = pd.DataFrame({"x": numbers, "word": column, "y": range(n)})
    frame.to_csv(path, index=False)
    source = {"columns": {"categorical": ["word"]}}
    part = read("csv", {"all": [path]}, source, "regression", None, path.parent)["all"]
    dummies = pd.get_dummies(frame["word"], dtype=float)
    np.testing.assert_array_equal(part.X[:, 0].toarray().ravel(), frame["x"].astype(np.float32))
    np.testing.assert_array_equal(part.X[:, 1:].toarray(), dummies[sorted(dummies)])
    np.testing.assert_array_equal(part.y, np.arange(n))


def test_a_category_of_test_rows_alone_is_an_error_or_ignored(folders):
    put(folders, train=TRAIN, test=TEST + "\nz,tcp,1,no\n")
    said = r"toy\.t:4: column '1' is 'z', which no training row has; .*unknown=ignore"
    with pytest.raises(DataError, match=said):
        prepare(two(**YES), folders)
    assert left_over(folders.own) == []
    ignored = merge(CATEGORIES, {"columns": {"unknown": "ignore"}})
    data = opened(two(ignored, **YES), folders)
    np.testing.assert_array_equal(data.X_test[2], [0, 0, 0, 1, 0, 1])


LAYOUTS = {
    "plain": ("1,2,3\n4,5,6\n7,8,9\n", {}),
    "crlf, blank lines, no last newline": ("1,2,3\r\n\r\n4,5,6\r\n7,8,9", {}),
    "header": ("u,v,w\n1,2,3\n4,5,6\n7,8,9\n", {}),
    "quoted header, semicolons": ('"u u";"v";"w"\n1;2;3\n4;5;6\n7;8;9\n', {}),
    "tabs": ("1\t2\t3\n4\t5\t6\n7\t8\t9\n", {}),
    "runs of white space": ("  1 2\t 3 \n4   5 6\n 7 8 9  \n", {"delimiter": "space"}),
    "spaces": ("1 2 3 \n4 5 6 \n7 8 9 \n", {}),
    "byte order mark": ("\ufeff1,2,3\n4,5,6\n7,8,9\n", {}),
    "spaces about": ("1, 2, 3\n4, 5 , 6\n7,8,9\n", {"delimiter": "comma"}),
    "names": ("1,2,3\n4,5,6\n7,8,9\n", {"names": ["u", "v", "w"], "target": "w"}),
    "target first": ("3,1,2\n6,4,5\n9,7,8\n", {"target": 1}),
    "dropped": ("1,x,2,3\n4,,5,6\n7,z,8,9\n", {"drop": [2]}),
    "dropped before the target": ("x,3,1,2\ny,6,4,5\nz,9,7,8\n", {"drop": [1], "target": 2}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_the_same_table(folders, layout):
    text, columns = LAYOUTS[layout]
    put(folders, train=lzma.compress(text.encode()))
    data = opened(one("csv", {"columns": columns}), folders)
    np.testing.assert_array_equal(data.X_train, [[1, 2], [4, 5]])
    np.testing.assert_array_equal(data.X_test, [[7, 8]])
    np.testing.assert_array_equal(np.append(data.y_train, data.y_test), [3, 6, 9])


NAMELESS = "\n".join(["a,y,", *(f"{k},{k % 2},{'late' * (k == 300)}" for k in range(400))])
LATIN = "a,ö,b\n1,ö,2\n".encode("latin-1")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("1,2,3\n4,5\n7,8,9\n", {}, r"toy:2: 2 fields between .*, should be 3, in '4,5'"),
        ('1,2,3\n"4,5,6\n7,8,9\n', {}, r"toy:2: a quote that begins here does not end"),
        ('1,2,3\n"4,5,6\n7,8,9\n"a",1\n', {}, r"toy:2: 2 fields .*; quotes join 3 lines"),
        ("1,2,3\n\n4,5,6,7\n", {}, r"toy:3: 4 fields between delimiters ',', should be 3"),
        ("1;2;3\n4;5;6\n", {"delimiter": "comma"}, r"toy:1: 1 field between .* set .*delimiter to"),
        ("1,2,3\n4,1e39,6\n", {}, r"toy:2: column '2' is 1e\+39, should be a finite number"),
        ("1,2,3\n4,%s,6\n" % ("9" * 5000), {}, r"toy:2: column '2' is inf, should be a finite"),
        ("1,2,3\n4,5,many\n", {}, r"toy:2: target '3' is 'many', should be a number$"),
        ("1,2,3\n4,5,12\n", {}, r"toy:2: target 12, should be from 0 to 10"),
        ("a,b,c\n1,2,3\n", {"target": "d"}, r"toy:1: no column 'd', which .*target names"),
        ("a,b,c\n1,2,3\n", {"drop": ["v"]}, r"toy:1: no column 'v', which .*drop names"),
        ("1,2,3\n", {"target": 4}, r"toy:1: dataset\.source\.columns\.target is column 4, there"),
        ("1,2,3\n", {"names": ["a", "b"]}, r"toy:1: 3 fields .*, dataset.*names has 2"),
        ("a,a,c\n1,2,3\n", {}, r"toy:1: two columns 'a'"),
        ("1,2\n3,4\n", {"drop": [1]}, r"toy:1: no column is left beside the target '2'"),
        ("1,2,3\n4,1_000,6\n", {}, r"toy:2: column '2' is '1_000', should be a number"),
        pytest.param(NAMELESS, {}, r"toy:302: 'late' stands in a column without", id="late"),
        ("May;;\n;;\na;b;y\n1;2;0\n", {}, r"toy:1: 2 of 3 columns have no name.*tail -n \+3"),
        (LATIN, {"categorical": [2]}, r"toy:1: not UTF-8 text"),  # a row
        (LATIN, {}, r"toy:1: not UTF-8 text"),  # the names of the columns
    ],
)
def test_tables_that_cannot_be_read(folders, text, columns, message):
    put(folders, train=text)
    with pytest.raises(DataError, match=message) as error:
        prepare(one("csv", {"columns": columns}, facts={"target": [0, 10]}), folders)
    assert "\n" not in str(error.value)
    assert left_over(folders.own) == []


def test_labels_that_are_texts(folders):
    put(folders, train="1,pear\n2,fig\n3,apple\n", test="4,fig\n5,kiwi\n")
    config = named(source={"format": "csv"}, task="multiclass")
    data = opened(config, folders)
    np.testing.assert_array_equal(data.y_train, [3, 1, 0])
    np.testing.assert_array_equal(data.y_test, [1, 2])
    fruit = {"positive": ["fig"], "negative": ["pear", "kiwi"]}
    pair = opened(merge(config, {"task": "binary", "target": fruit}), folders)
    np.testing.assert_array_equal(pair.X_train, [[1], [2]])
    np.testing.assert_array_equal(pair.y_train, [-1, 1])
    wrong = {"task": "binary", "target": {"positive": ["plum"]}}
    with pytest.raises(ConfigError, match=r"positive has 'plum', but the labels are apple, fig"):
        prepare(merge(config, wrong), folders)
    with pytest.raises(ConfigError, match=r"is binary, but the labels are apple, fig, kiwi, pear:"):
        prepare(merge(config, {"task": "binary"}), folders)
    put(folders, train="1,1\n2,2\n", test="3,1\n")
    with pytest.raises(ConfigError, match=r"names 'plum', but the labels are numbers"):
        prepare(merge(config, wrong), folders)


def test_a_regression_on_two_labels(folders):
    put(folders, train="1,4\n2,9\n3,4\n4,7\n", test="5,9\n6,4\n")
    rule = {"positive": [4], "negative": [9]}
    config = named(source={"format": "csv"}, task="regression", target=rule)
    data = opened(config, folders)
    np.testing.assert_array_equal(data.y_train, [1.0, 0.0, 1.0])
    assert (data.y_test.tolist(), data.y_test.dtype) == ([0.0, 1.0], np.float64)
    with pytest.raises(ConfigError, match="one of positive and negative"):
        check_config(named(task="regression", target={"positive": [4]}))


def test_several_files_of_one_part_follow_each_other(folders):
    config = one("csv")
    files = {f"all_{k}": {"names": [k], "url": None} for k in ("red", "white")}
    config["source"]["files"] = files
    put(folders, red="1,2\n3,4", white='"a";"b"\n5;6\n')
    with pytest.raises(DataError, match=r"white:1: no column '2', .*the target"):
        prepare(config, folders)
    put(folders, white="5;6\n")
    data = opened(config, folders)
    np.testing.assert_array_equal([*data.X_train, *data.X_test], [[1], [3], [5]])
    with pytest.raises(DataError, match=r"toy: n is 3 in .*red and .*white, should be 4"):
        prepare(merge(config, {"facts": {"n": 4}}), folders)


def test_null_and_the_value_that_it_stands_for_are_the_same_form():
    """Of every key that says what null stands for, in a file of a user where it is of `source`."""
    nulls = {path: key.null for path, key in KEYS.items() if key.null is not None}
    assert {"missing", "split.group", "source.columns.drop", "source.arrays.X"} <= {*nulls}
    for path, null in nulls.items():
        form = "npz" if ".arrays." in path else "libsvm" if "zero" in path else "csv"
        base = user_file("t", source={"format": form}, holdout={"fraction": 0.5})
        *groups, last = path.split(".")
        over = {last: null}
        for group in reversed(groups):
            over = {group: over}
        assert influence(merge(base, over)) == influence(base), path
        assert KEYS[path].check(null) is None


def test_what_says_how_a_file_is_read_changes_the_folder(folders):
    put(folders, train="1,2,3\n4,5,6\n7,8,9\n")
    config = one("csv", {"columns": {"target": -1}})
    other = merge(config, {"source": {"columns": {"target": 1}}})
    assert prepare(config, folders) != prepare(other, folders)
    assert "source" not in influence(named())
    assert "source" not in influence(named(source={"format": "libsvm"}))


def test_a_table_of_the_user(folders):
    path = folders.read_only[0] / "mine.csv"
    pd.DataFrame({"a": [0.5, 2.5, 1.0], "y": [0, 1, 1]}).to_csv(path)
    config = user_file(path, source={"columns": {"target": "y", "drop": [1]}})
    assert opened(config, folders).n_features == 1
    with pytest.raises(ConfigError, match="format is idx, which takes several files for each part"):
        check_config(merge(config, {"source": {"format": "idx"}}))


@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_prepared_numbers_of_a_table_do_not_depend_on_the_size_of_pieces(
    folders, monkeypatch, form, task
):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)).astype(np.float32)).rename(columns="x{}".format)
    frame["y"] = rng.integers(0, 3, 120)
    path = saved(frame, folders.read_only[0] / f"toy.{form}")
    source = {"format": form, "columns": {"target": "y"}}
    config = user_file(path, task=task, source=source, scale="standard")
    files = []
    for text, values in ((1 << 20, 1 << 18), (700, 60)):
        monkeypatch.setattr(parquet, "_BATCH_VALUES", values)
        with changed_piece_sizes(text=text):
            folder = prepare(config, folders)
        files.append({file.name: file.read_bytes() for file in folder.glob("*.npy")})
        assert "X_train.npy" in files[-1]
        assert not (folder / "scratch").exists()
        shutil.rmtree(folder)
    assert files[0] == files[1]


@pytest.mark.parametrize(("form", "n"), [("csv", 8000), ("parquet", 60_000)])
def test_a_table_of_numbers_is_held_a_piece_at_a_time(tmp_path, peak_bytes, form, n):
    """Less than half of the features: pieces of 64 kB of text, or four of 2 MB of Parquet."""
    d = 50
    frame = pd.DataFrame(np.random.default_rng(0).integers(1, 9, (n, d)).astype(np.float32))
    frame["y"] = 1.5
    path = tmp_path / f"toy.{form}"
    saved(frame.rename(columns="x{}".format), path)
    request = (form, {"all": [path]}, {}, "regression", None, tmp_path / "scratch")
    with changed_piece_sizes(text=1 << 16):
        assert peak_bytes(lambda: read(*request)) < (8 * n * d) / 2


def test_parquet_knows_its_types(folders):
    frame = pd.DataFrame(
        {"x": [1, 2, 3], "k": ["u", "v", "u"], "b": [True, False, True], "y": [0.1, 0.2, 0.3]}
    )
    frame["k2"] = frame["k"].astype("category")
    frame["code"] = [7, 8, 7]
    path = folders.read_only[0] / "toy"
    frame.to_parquet(path)
    source = {"columns": {"target": "y", "categorical": ["code"]}}
    data = opened(one("parquet", source), folders)
    expected = [[1, 1, 0, 1, 1, 0, 1, 0], [2, 0, 1, 0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(data.X_train, expected)
    np.testing.assert_array_equal(data.y_train, [0.1, 0.2])
    pa.parquet.write_table(pa.table({"t": [[1], [2]], "y": [1, 2]}), path)
    columns = {"categorical": ["t"]}
    with pytest.raises(DataError, match=r"column 't' is of type list.*, should be numbers or"):
        prepare(one("parquet", {"columns": columns}), folders)


ARFF = """@relation toy
@attribute x numeric
@attribute k {u, v}
@attribute y numeric
@data
1,u,3
2,v,4
3,u,5
"""


def test_arff_knows_its_types(folders):
    put(folders, train=ARFF)
    data = opened(one("arff"), folders)
    np.testing.assert_array_equal(data.X_train, [[1, 1, 0], [2, 0, 1]])
    np.testing.assert_array_equal(data.y_test, [5])
    for bad, message in (
        (ARFF.replace("2,v", "2,w"), r"toy:7: attribute 'k' is 'w', should be one of u, v"),
        (ARFF.replace("numeric", "banana"), r"toy:2: attribute 'x' is of type 'banana', should be"),
        (ARFF.replace("y numeric", "y date"), r"toy:4: attribute 'y' is of type 'date', should be"),
        (ARFF.replace("2,v", "?,v"), r"toy:7: column 'x' is missing"),
        (ARFF.replace("2,v", "1_000,v"), r"toy:7: attribute 'x' is '1_000', should be a number"),
        (ARFF.replace("2,v", "v"), r"toy:7: 2 fields, should be 3"),
        (ARFF.replace("2,v,4", "{1 v, 0 2}"), r"', 0 2}', should be {index value, ...} with"),
        (ARFF.replace("2,v,4", "{3 v}"), r"toy:7: '{3 v}', .* indices that rise from 0 to 2"),
        (ARFF.replace("2,v,4", "{0 2"), r"toy:7: '{0 2', should be {index value, ...}"),
        (ARFF.replace("2,v,4", "{"), r"toy:7: '{', should be {index value, ...}"),
        (ARFF.replace("2,v,4", "2,v,4,{3}"), r"toy:7: a weight \{3\} after the row"),
        (ARFF.replace("2,v,4", "{0 2}, {3}"), r"toy:7: a weight \{3\} after the row"),
        (ARFF.replace("2,v", "2,'v"), r"toy:7: \"'v,4\", should be fields between commas"),
        (ARFF.replace("attribute y", "attribute x"), r"toy:4: two attributes 'x'"),
        (ARFF.replace("@data", "@dat"), r"toy:5: '@dat', should be @relation, @attribute"),
        (ARFF.partition("@data")[0], r"toy: no line @data"),
        (ARFF.partition("1,u")[0], r"toy: no rows after @data"),
        ("x,y\n1,2\n", r"toy:1: 'x,y', should be @relation"),
        (ARFF.encode().replace(b"toy", b"t\xff"), r"toy:1: not UTF-8 text"),
    ):
        put(folders, train=bad)
        with pytest.raises(DataError, match=message):
            prepare(one("arff"), folders)


@pytest.mark.parametrize(
    ("declared", "name"),
    [("'it\\'s' {u,v}", "it's"), ('"a\\\\b" {u,v}', "a\\b"), ("kind{u,v}", "kind")],
)
def test_names_of_arff_are_those_of_weka(folders, declared, name):
    """It escapes quotes in names, and needs no blank before the categories."""
    path = folders.read_only[0] / "t.arff"
    rows = "".join(f"{k},{'uv'[k % 2]}\n" for k in range(40))
    path.write_text(f"@relation r\n@attribute a real\n@attribute {declared}\n@data\n{rows}")
    data = opened(user_file(path, source={"columns": {"target": name}}), folders)
    assert data.preparation.target.texts == ("u", "v")


def test_sparse_rows_of_arff_are_the_dense_ones(folders):
    """What they do not state is 0, or the first category. A line may have quotes of both kinds."""
    head = (
        "@relation r\n@attribute x real\n@attribute k {'a b', u}\n"
        """@attribute y {'it\\'s no', "yes, sir"}\n"""
    )
    dense = [
        """0,'a b',"it's no\"""",
        "1.5,u,'yes, sir'",
        "0,u,'it\\'s no'",
        """-2,'a b',"yes, sir\"""",
    ]
    sparse = ["{}", "{0 1.5, 1 u,2 'yes, sir'}", "{ 1 u }", '{0 -2, 2 "yes, sir"}']
    found = []
    for rows in (dense, sparse):
        put(folders, train=f"{head}@data\n" + "\n".join(rows))
        config = one("arff", task="binary", split={"kind": "first", "n_train": 3})
        found.append(opened(config, folders))
    np.testing.assert_array_equal(found[1].X_train, found[0].X_train)
    np.testing.assert_array_equal(found[1].y_train, found[0].y_train)
    np.testing.assert_array_equal(found[1].y_test, found[0].y_test)


def test_comments_and_ranges_behind_the_type_of_an_attribute_are_none_of_it(folders):
    found = []
    for behind in (["", "", ""], [" % size", "[0,9] % {u}", "% {a, 'b'}"]):
        head = f"@attribute x real{behind[0]}\n@attribute z integer{behind[1]}\n"
        head += f"@attribute y {{'5%', v}}{behind[2]}\n@data\n"
        put(folders, train=f"@relation r\n{head}1,2,'5%'\n3,4,v\n5,6,v\n")
        found.append(opened(one("arff", task="binary"), folders))
    np.testing.assert_array_equal(found[1].X_train, found[0].X_train)
    np.testing.assert_array_equal(found[1].y_train, [-1, 1])


def test_arff_quotes_comments_and_missing_categories_are_those_of_scipy(folders):
    text = """% a comment
@RELATION r
@Attribute 'a b' REAL
@attribute k {'x y', z}
@attribute y integer

@DATA
% another
1.5, 'x y', 1
2.5,?,2
-1e3, z, 3
"""
    put(folders, train=text)
    data = opened(one("arff", split={"kind": "first", "n_train": 2}), folders)
    rows, _ = scipy.io.arff.loadarff(io.StringIO(text))
    assert [v.decode() for v in rows["k"].tolist()] == ["x y", "?", "z"]
    np.testing.assert_array_equal(np.vstack([data.X_train, data.X_test])[:, 0], rows["a b"])
    expected = [[0, 1, 0], [1, 0, 0], [0, 0, 1]]  # ?, x y, z
    np.testing.assert_array_equal(np.vstack([data.X_train, data.X_test])[:, 1:], expected)


@pytest.mark.parametrize("between", ["\t", "\t,\t", ",", " , "])
def test_fields_of_arff_may_stand_between_tabs(folders, between):
    """As Weka and SciPy read them; a comma between quotes is no end of a field."""
    rows = [["1.5", "'x, y'", "1"], ["?", "z", "2"], ["-3", "z", "3"]]
    head = (
        "@relation\tr\n@attribute\ta\treal\n@attribute\tk\t{'x, y',z}\n@attribute y real\n@data\n"
    )
    put(folders, train=head + "".join(f"{between.join(row)}\n" for row in rows))
    config = one("arff", split={"kind": "first", "n_train": 2}, missing="mean")
    data = opened(config, folders)
    found = np.vstack([data.X_train, data.X_test])
    np.testing.assert_array_equal(found, [[1.5, 1, 0], [1.5, 0, 1], [-3, 0, 1]])


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def images(folders, **over):
    config = named(task="multiclass")
    config["source"] = {"kind": "files", "format": "idx", "files": {}}
    for part in ("train", "test"):
        for piece in ("images", "labels"):
            file = {"names": [f"{part}-{piece}"], "url": None}
            config["source"]["files"][f"{part}_{piece}"] = file
    return merge(config, over)


def test_idx_images(folders):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 2))
    labels = np.array([3, 1, 4, 1, 3])
    put(folders, **{"train-images": gzip.compress(idx(pixels)), "train-labels": idx(labels)})
    put(folders, **{"test-images": idx(pixels[:2]), "test-labels": idx(labels[:2])})
    config = images(folders)
    data = opened(config, folders)
    np.testing.assert_array_equal(data.X_train, pixels.reshape(5, 6))
    np.testing.assert_array_equal(data.y_test, [3, 1])
    low, high = pixels.min(), pixels.max()
    scaled = opened(merge(config, {"scale": "unit_global"}), folders)
    np.testing.assert_allclose(scaled.X_test, (data.X_test - low) / (high - low), atol=1e-6)
    assert len(fingerprint(config, folders)) == 64
    with pytest.raises(DataError, match=r"train-labels, row 3: target 4, should be from 0 to 3"):
        prepare(merge(config, {"facts": {"target": [0, 3]}}), folders)
    put(folders, **{"test-images": idx(pixels)[:-1]})
    with pytest.raises(DataError, match=r"test-images: 45 bytes, should be 46 for 5 x 3 x 2"):
        prepare(config, folders)
    put(folders, **{"test-images": idx(pixels)})
    with pytest.raises(DataError, match=r"test-labels: 2 labels, but .*test-images has 5 images"):
        prepare(config, folders)
    put(folders, **{"test-labels": "<html>"})
    with pytest.raises(DataError, match=r"test-labels: begins with 3c 68 74 6d, an idx file of"):
        prepare(config, folders)
    assert left_over(folders.own) == []


def archive(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def test_cifar10(folders):
    rows = np.random.default_rng(0).integers(0, 256, (12, 3073), dtype=np.uint8)
    rows[:, 0] = np.arange(12) % 10
    names = [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
    batches = {f"b/{n}": rows[2 * k : 2 * k + 2].tobytes() for k, n in enumerate(names)}
    put(folders, **{"cifar-10-binary.tar": gzip.compress(archive(batches))})
    config = shipped("cifar10", variant="animals")
    config["facts"] = {"n_train": 10, "n_test": 2}
    data = opened(config, folders)
    np.testing.assert_array_equal(data.X_train, rows[:10, 1:])
    expected = np.where(np.isin(rows[:10, 0], [2, 3, 4, 5, 6, 7]), 1, -1)
    np.testing.assert_array_equal(data.y_train, expected)
    for change, message in (
        ({"b/test_batch.bin": b"x" * 3072}, "test_batch.bin has 3072 bytes, should be whole"),
        ({"b/test_batch.bin": bytes([77]) + bytes(3072)}, "image 1: label 77, should be from 0"),
    ):
        put(folders, **{"cifar-10-binary.tar": archive(batches | change)})
        with pytest.raises(DataError, match=message):
            prepare(config, folders)
    put(folders, **{"cifar-10-binary.tar": archive({"x": b""})})
    with pytest.raises(DataError, match=r"no data_batch_1\.bin in it, there is x"):
        prepare(config, folders)
    put(folders, **{"cifar-10-binary.tar": "no archive"})
    with pytest.raises(DataError, match="should be a tar archive of CIFAR-10"):
        prepare(config, folders)


def test_arrays(folders):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 3)), rng.normal(size=6)
    raw = folders.read_only[0]
    expected = X.astype(np.float32)
    np.savez_compressed(raw / "toy.npz", X=X, y=y)
    config = one("npz", {"files": {"all": {"names": ["toy.npz"], "url": None}}})
    whole = opened(config, folders)
    np.testing.assert_array_equal(whole.X_test, expected[2:])
    np.savez(raw / "toy.npz", X_train=X[:4], y_train=y[:4], X_test=X[4:], y_test=y[4:])
    given_ = opened(merge(config, {"split": {"kind": "given", "n_train": None}}), folders)
    np.testing.assert_array_equal(given_.X_train, expected[:4])
    np.testing.assert_array_equal(given_.y_test, y[4:])
    np.testing.assert_array_equal(opened(config, folders).X_test, expected[2:])  # of both parts
    for name, array in {"X": X, "y": y}.items():
        np.save(raw / name, array)
    (raw / "y.npy").write_bytes(gzip.compress((raw / "y.npy").read_bytes()))
    files = {f"all_{n}": {"names": [f"{n}.npy"], "url": None} for n in "Xy"}
    config_of_two = one("npy") | {"source": {"kind": "files", "format": "npy", "files": files}}
    pair = opened(config_of_two, folders)
    np.testing.assert_array_equal(pair.X_train, expected[:2])
    np.testing.assert_array_equal(pair.y_test, y[2:])
    for arrays, message in (
        ({"X": X}, r"no array y, there is X"),
        ({"X": X, "y": y[1:]}, r"X has shape \(6, 3\) and y \(5,\), should be \(n, d\) and"),
        ({"X": X, "y": X}, r"y has shape \(6, 3\), should be one target a row"),
        ({"indptr": y, "indices": y, "data": y}, "one sparse matrix, without targets"),
        ({"X": X, "y": np.full(6, np.nan)}, r"no row is left, each lacks a target"),
        ({"X": np.where(X[3, 0] == X, 1e39, X), "y": y}, r"row 4: column 1 is 1e\+39, should be"),
        ({"X": X.astype(str), "y": y}, r"X is of type <U\d+, should be numbers"),
        ({"X": np.array([object()] * 6), "y": y}, r"X holds Python objects, .*should be numbers"),
    ):
        np.savez(raw / "toy.npz", **arrays)
        with pytest.raises(DataError, match=message):
            prepare(config, folders)
    (raw / "toy.npz").write_text("nothing")
    with pytest.raises(DataError, match=r"should be an \.npz file of numbers"):
        prepare(config, folders)


def methane(positions=None):
    R = np.array([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * 0.63
    return np.array([6.0, 1, 1, 1, 1]), R if positions is None else positions


def test_coulomb_matrices():
    Z, R = methane()
    C = coulomb_matrix(Z, R)
    assert C[0, 0] == pytest.approx(0.5 * 6**2.4)
    assert C[1, 1] == 0.5
    assert C[0, 1] == pytest.approx(6 * BOHR / np.linalg.norm(R[1]))
    assert not C[5:].any()
    features = sorted_triangle(C[None])[0]
    assert features.shape == (276,)
    rng = np.random.default_rng(0)
    for _ in range(5):  # nothing changes with the order of atoms, or a turn and shift of them
        order = rng.permutation(5)
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        other = coulomb_matrix(Z[order], R[order] @ Q + rng.normal(size=3))
        np.testing.assert_allclose(sorted_triangle(other[None])[0], features, atol=1e-9)
    square = rng.normal(size=(2, 7, 7))
    square += square.transpose(0, 2, 1)
    for matrix, triangle in zip(square, sorted_triangle(square), strict=True):
        order = np.argsort(-np.linalg.norm(matrix, axis=1))
        np.testing.assert_array_equal(triangle, matrix[np.ix_(order, order)][np.triu_indices(7)])


def xyz(Z, R):
    symbol = {6: "C", 1: "H"}
    atoms = [f"{symbol[z]} {' '.join(map(str, r))}" for z, r in zip(Z, R.tolist(), strict=True)]
    return "\n".join([str(len(Z)), "comment", *atoms]).encode()


def test_labels_with_control_characters_are_shown_without_them(folders):
    put(folders, train="1,a\0\n2,b\x1b[2J\n3,c\n", test="1,c\n")
    with pytest.raises(ConfigError, match=r"labels are a\\x00, b\\x1b\[2J, c: name the positive"):
        prepare(two({"format": "csv"}), folders)


def test_molecules_from_geometries_and_from_matlab(folders):
    Z, R = methane()
    molecules = [(Z[:k], R[:k]) for k in (5, 4, 3)]
    members = {f"m/{k}.xyz": xyz(*molecule) for k, molecule in enumerate(molecules)}
    listed = {"hof.txt": b"m/2.xyz -3.5 0\nm/0.xyz -5.5 0\nm/1.xyz -4.5 0\n"}
    put(folders, train=archive(members | listed))
    data = opened(one("xyz"), folders)
    C = np.array([coulomb_matrix(*molecules[k]) for k in (2, 0, 1)])
    np.testing.assert_allclose(data.X_train, sorted_triangle(C)[:2], rtol=1e-6)
    np.testing.assert_array_equal(np.append(data.y_train, data.y_test), [-3.5, -5.5, -4.5])
    stream = io.BytesIO()
    scipy.io.savemat(stream, {"X": C.astype(np.float32), "T": [[-3.5, -5.5, -4.5]]})
    put(folders, **{"qm7.mat": stream.getvalue()})
    config = merge(shipped("qm7"), {"split": {"kind": "first", "n_train": 2}})
    config["facts"] = {"n": 3, "n_features": 276}
    same = opened(config, folders)
    np.testing.assert_allclose(same.X_train, data.X_train, rtol=1e-5)
    np.testing.assert_array_equal(same.y_test, [-4.5])
    put(folders, **{"qm7.mat": "MATLAB"})
    with pytest.raises(DataError, match=r"qm7\.mat: .*, should be a MATLAB file of numbers"):
        prepare(config, folders)
    for change, message in (
        ({"hof.txt": b"m/9.xyz -1\n"}, r"toy:hof\.txt:1: m/9\.xyz is not in the archive"),
        ({"hof.txt": b"m/0.xyz -1\nm/1.xyz\n"}, r"toy:hof\.txt:2: .*should be a file name and an"),
        ({"m/2.xyz": b"99\n"}, r"toy:m/2\.xyz:1: '99', should be a number of atoms up to 23"),
        ({"m/2.xyz": b"3\nc\nH 0 0 0\n"}, r"m/2\.xyz:3: ends after 1 of 3 atoms"),
        ({"m/2.xyz": b"1\nc\nXx 0 0 0\n"}, r"m/2\.xyz:3: 'Xx 0 0 0', should be an element of H"),
        ({"m/2.xyz": b"2\nc\nH 0 0 0\nH 0 0 0\n"}, r"m/2\.xyz: two atoms at the same place"),
        ({"hof.txt": None, "\x1b[31m\n.txt": b"\n"}, r"toy:\\x1b\[31m \.txt: no rows"),
        ({"two.txt": b""}, r"toy: 2 \.txt files in it, should be one table"),
    ):
        kept = {name: c for name, c in (members | listed | change).items() if c is not None}
        put(folders, train=archive(kept))
        with pytest.raises(DataError, match=message):
            prepare(one("xyz"), folders)
    assert left_over(folders.own) == []
