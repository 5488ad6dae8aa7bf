"""The model format: every method comes back bit for bit; hostile files are one line."""

import contextlib
import hashlib
import io
import json
import math
import os
import pickle
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.svm import SVC

from kbench.clustering import kmeans_tree
from kbench.errors import UnavailableError
from kbench.kernels.registry import kernel_names
from kbench.methods import DCSVC, KernelSVC
from kbench.prediction import ModelError, load_model, save_model, storable
from kbench.prediction.encoding import decode, encode
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import LocalLandmarks
from kbench.run.planning import registry

CONFIGS = Path(__file__).parents[2] / "configs" / "method"
SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_models.py"


def shipped():
    """(name, task) of every method of configs/method."""
    for path in sorted(CONFIGS.glob("*.yaml")):
        config = yaml.safe_load(path.read_text())
        yield from ((path.stem, task) for task in config["meta"]["tasks"])


def rows(task, n=150, d=6):
    if task == "regression":
        X, y = make_regression(n, d, noise=1.0, random_state=0)
        return X.astype(np.float32), y
    X, y = make_classification(
        n, d, n_informative=4, n_classes=2 if task == "binary" else 3, random_state=0
    )
    return X.astype(np.float32), np.where(y > 0, 1, -1) if task == "binary" else y


def values(model, X):
    """Everything that a model says of X."""
    names = ("predict", "decision_function", "predict_proba")
    return {name: getattr(model, name)(X) for name in names if hasattr(model, name)}


def assert_same_bits(model, twin, X):
    said = values(model, X)
    assert said.keys() == values(twin, X).keys()
    for name, value in values(twin, X).items():
        assert value.dtype == said[name].dtype
        np.testing.assert_array_equal(value, said[name])


def plain_params(model):
    """Parameters of a model and of its parts, and the classes of the parts."""
    params = model.get_params(deep=True)
    return {k: type(v) if hasattr(v, "get_params") else v for k, v in params.items()}


def through_file(model, tmp_path):
    return load_model(save_model(tmp_path / "model.npz", model)).estimator


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the approximate kernel matrix has eigenvalues:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.* is more than n_samples:UserWarning")
@pytest.mark.parametrize(("name", "task"), list(shipped()))
def test_every_method_comes_back_bit_for_bit(tmp_path, name, task):
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    estimator, meta = config["estimator"], config["meta"]
    if isinstance(estimator, dict):
        estimator = estimator[task]
    if estimator.startswith("sklearn."):
        pytest.importorskip("skops")
    if meta.get("extra"):
        pytest.skip(f"needs the extra {meta['extra']}")
    params = {
        key: value
        for key, value in config.items()
        if key not in registry.RESERVED and not str(value).startswith("${")
    }
    params |= meta.get("warmup") or {}
    X, y = rows(task, d=16 if config.get("kernel") == "convolution" else 6)  # 4 x 4 pixels
    try:
        model = registry.build(registry.target(estimator, config.get("parts")), params, 0)
    except UnavailableError as error:
        pytest.skip(str(error))
    twin = through_file(model.fit(X[:100], y[:100]), tmp_path)
    assert_same_bits(model, twin, X)
    assert type(twin) is type(model)
    assert plain_params(twin) == plain_params(model)
    # scikit-learn counts no multiplications.
    of_sklearn = type(model).__module__.startswith("sklearn.") or name == "tuned_boosting"
    if meta["role"] != "diagnostic" and not of_sklearn:
        assert twin.prediction_flops_ == model.prediction_flops_ > 0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        *[KernelSVC(kernel=name) for name in kernel_names("of_rows", "positive_semidefinite")],
        KernelSVC(kernel="poly", dtype="float64"),
        DCSVC(3, combine="early", partition="kernel_kmeans", n_levels=1, random_state=0),
        DCSVC(3, combine="naive", random_state=0),
        DCSVC(3, combine="bcm", random_state=0),
        CalibratedClassifierCV(KernelSVC(), ensemble=False),
        CalibratedClassifierCV(KernelSVC(), cv=3),
    ],
    ids=str,
)
def test_every_machine_comes_back_bit_for_bit(tmp_path, model, sparse):
    X, y = rows("multiclass")
    X = sp.csr_matrix(X) if sparse else X
    model.fit(X[:100], y[:100])
    assert_same_bits(model, through_file(model, tmp_path), X)


def test_a_precomputed_kernel_is_restored(tmp_path):
    X, y = rows("binary")
    gram = np.asarray(X @ X.T, np.float64)
    model = KernelSVC(kernel="precomputed").fit(gram, y)
    assert_same_bits(model, through_file(model, tmp_path), gram)


def test_labels_may_be_texts(tmp_path):
    X, y = rows("binary")
    model = KernelSVC(class_weight={"no": 1.0, "yes": 2.0}).fit(X, np.where(y > 0, "yes", "no"))
    twin = through_file(model, tmp_path)
    assert_same_bits(model, twin, X)
    assert twin.class_weight == model.class_weight


def test_estimator_preparation_and_about_are_restored(tmp_path):
    X, y = rows("binary")
    preparation = {"scale": np.arange(3.0), "columns": {"a": ["x", "y"]}, "none": None}
    about = {"key": "abc", "params": {"C": 1.0}}
    path = save_model(
        tmp_path / "m.npz", KernelSVC().fit(X, y), preparation=preparation, about=about
    )
    stored = load_model(path)
    assert stored.about == about
    np.testing.assert_array_equal(stored.preparation.pop("scale"), preparation.pop("scale"))
    assert stored.preparation == preparation
    with np.load(path, allow_pickle=False) as archive:  # as anybody reads it
        assert {archive[name].dtype.hasobject for name in archive.files if name[0] == "a"} == {
            False
        }


# NaN is no equal of itself: compared through repr.
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.slices(9)
        | st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_values_are_restored(value):
    tree, arrays = encode(value)
    back = decode(json.loads(json.dumps(tree, allow_nan=False)), arrays)
    assert repr(back) == repr(value)


DTYPES = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.floating_dtypes(sizes=(16, 32, 64))


@settings(max_examples=50)
@given(
    array=hnp.arrays(
        DTYPES | hnp.unicode_string_dtypes(), hnp.array_shapes(min_dims=0, min_side=0)
    ),
    fortran=st.booleans(),
)
def test_arrays_are_restored_with_their_bits_and_memory_order(tmp_path_factory, array, fortran):
    array = np.asfortranarray(array) if fortran and array.ndim else array
    path = save_model(tmp_path_factory.mktemp("m") / "m.npz", array)
    back = load_model(path).estimator
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes(order="A") == array.tobytes(order="A")
    assert back.flags.f_contiguous == array.flags.f_contiguous
    assert back.flags.writeable


def test_names_of_columns_and_labels_of_pandas_come_back(tmp_path):
    X, y = rows("binary")
    frame = pandas.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    model = KernelSVC().fit(frame, np.array(["no", "maybe"], object)[(y == y[0]).astype(int)])
    twin = through_file(model, tmp_path)
    assert_same_bits(model, twin, frame)
    for name in ("classes_", "feature_names_in_"):
        assert getattr(twin, name).dtype == object
        np.testing.assert_array_equal(getattr(twin, name), getattr(model, name))
    with pytest.raises(ModelError, match="array of object"):
        encode(np.array(["a NUL at the end is lost\0"], object))


def test_an_array_that_occurs_twice_is_stored_once():
    shared = np.arange(5)
    tree, arrays = encode([shared, (shared, {"again": shared})])
    assert len(arrays) == 1
    back = decode(tree, arrays)
    assert back[0] is back[1][0] is back[1][1]["again"]


def test_shared_and_nested_objects_are_restored_as_such():
    left, right = KernelSVC(), KernelSVC()
    left.other, right.other = right, left
    tree, arrays = encode([left, right, {"again": left}])
    back = decode(json.loads(json.dumps(tree)), arrays)
    assert back[0].other is back[1]
    assert back[1].other is back[0] is back[2]["again"]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (lambda x: x, "model.estimator.kernel is the function"),
        (np.random.RandomState(0), "RandomState"),
        (np.array([object()]), "array of object"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        ({1, 2}, "of class set"),
        (Path("x"), "Path"),
        (io.BytesIO(), "BytesIO"),
        (np.exp, "ufunc"),
        (open, "builtin"),
        (type, "type"),
    ],
)
def test_errors_name_attributes_that_cannot_be_stored(tmp_path, value, named):
    with pytest.raises(ModelError, match=named):
        save_model(tmp_path / "m.npz", KernelSVC(kernel=value))
    assert not list(tmp_path.iterdir())


def test_circular_references_are_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ModelError, match="holds itself"):
        encode(loop)


@pytest.fixture
def model_file(tmp_path):
    X, y = rows("binary")
    return save_model(tmp_path / "model.npz", KernelSVC().fit(X, y))


def parts(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forged(path, members, *, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def with_manifest(path, **changes):
    """The file with another manifest, and a checksum that fits it."""
    from kbench.prediction.model_file import manifest_digest

    members = parts(path)
    manifest = json.loads(members["manifest.json"]) | changes
    del manifest["sha256"]
    manifest["sha256"] = manifest_digest(manifest)
    return forged(path, members | {"manifest.json": json.dumps(manifest)})


def refused(path):
    with pytest.raises(ModelError) as raised:
        load_model(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    assert len(text) < 500
    return text


def npy(array, *, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


def test_pickles_are_never_read(model_file):
    members = parts(model_file)
    name = next(name for name in members if name.endswith(".npy"))
    bomb = np.empty(1, object)
    bomb[0] = Bomb()
    assert "changed" in refused(forged(model_file, members | {name: npy(bomb, allow_pickle=True)}))
    model_file.write_bytes(pickle.dumps(Bomb()))
    assert "no model" in refused(model_file)


def with_array(path, content, **header):
    """The file with another first array, a header that tells of it and checksums that fit."""
    members = parts(path) | {"a0.npy": content}
    arrays = json.loads(members["manifest.json"])["arrays"]
    arrays["a0"] |= {"sha256": hashlib.sha256(content).hexdigest(), **header}
    return with_manifest(forged(path, members), arrays=arrays)


def test_an_array_of_objects_is_refused_with_right_checksums_too(model_file):
    bomb = np.empty(1, object)
    bomb[0] = Bomb()
    assert "of object" in refused(with_array(model_file, npy(bomb, allow_pickle=True)))
    assert "the manifest says otherwise" in refused(with_array(model_file, npy(np.zeros(2))))
    assert "is not an .npy file" in refused(with_array(model_file, b"nothing"))


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 20, 1 << 20), (-1,), (3,)])
def test_shapes_are_checked_against_the_number_of_bytes(model_file, shape):
    buffer = io.BytesIO()
    header = {"fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", **header})
    content = buffer.getvalue() + bytes(16)
    forged = with_array(model_file, content, dtype="<f8", **header)
    assert "another size" in refused(forged)


@pytest.mark.parametrize("name", ["../a0.npy", "/etc/passwd", "a0.npy/../b", "other.npy"])
def test_names_that_are_no_part_of_a_model_are_refused(model_file, name):
    assert "not a part" in refused(forged(model_file, parts(model_file) | {name: b"x"}))


def test_compressed_parts_are_refused(model_file):
    forged(model_file, parts(model_file), compression=zipfile.ZIP_DEFLATED)
    assert "compressed" in refused(model_file)


def test_a_missing_or_an_additional_array_is_refused(model_file):
    members = parts(model_file)
    assert "a7777" in refused(forged(model_file, members | {"a7777.npy": members["a0.npy"]}))
    del members["a0.npy"]
    assert "a0 is missing" in refused(forged(model_file, members))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket", "link to a device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "m"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
            made.bind(str(path))
    else:
        path.symlink_to("/dev/zero")
    assert "no regular file" in refused(path)


@pytest.mark.parametrize("package", ["kbench", "scikit_learn"])
@pytest.mark.parametrize("version", ["0.0.3", "99.1"])
def test_a_model_of_another_version_names_both(model_file, package, version):
    text = refused(with_manifest(model_file, **{package: version}))
    assert f"written with {package.replace('_', '-')} {version}, installed is" in text
    assert "fit again" in text


@pytest.mark.parametrize("width", [None, 0, -1, 2.5, "3", 1 << 60])
def test_a_model_without_a_width_is_refused(tmp_path, width):
    model = KernelSVC().fit(*rows("binary"))
    if width is None:
        del model.n_features_in_
    else:
        model.n_features_in_ = width
    assert "n_features_in_" in refused(save_model(tmp_path / "m.npz", model))


def test_error_names_a_different_format(model_file):
    assert "version 2" in refused(with_manifest(model_file, format=2))


def test_a_manifest_edited_by_hand_is_refused(model_file):
    members = parts(model_file)
    assert "arrays should be a mapping" in refused(with_manifest(model_file, arrays=[]))
    text = members["manifest.json"].decode()
    edited = text.replace('"tol": 0.001', '"tol": 0.01')
    assert edited != text
    assert "changed" in refused(forged(model_file, members | {"manifest.json": edited}))
    edited = text.replace('"tol": 0.001', '"tol": NaN')
    assert "NaN" in refused(forged(model_file, members | {"manifest.json": edited}))
    del members["manifest.json"]
    assert "there is no manifest.json" in refused(forged(model_file, members))
    for wrong in ("[]", "{}", "", "{", "[" * 100_000):
        refused(forged(model_file, members | {"manifest.json": wrong}))


@pytest.mark.parametrize(
    "tree",
    [
        {"object": "os:system", "state": {}},
        {"object": "builtins:eval", "state": {}},
        {"object": "subprocess:Popen", "state": {}},
        {"object": "kbench.run.results.folder:ResultsFolder", "state": {}},
        {"object": "kbench.prediction.encoding:importlib", "state": {}},
        {"object": "kbench.prediction:KernelExpansion", "state": {}},
        {"object": "kbench.methods.no_such_module:X", "state": {}},
        {"object": "kbench.kernels.functions:RBF", "state": {"__class__": 1}},
        {"object": "kbench.kernels.functions:RBF", "state": {"a b": 1}},
        {"object": "kbench.kernels.functions:RBF", "state": 3},
        {"object": "kbench.kernels.functions:Kernel", "state": {}},
        {"named_tuple": "kbench.methods.base.box_svc:Problem", "items": [1]},
        {"method": [{"object": "kbench.kernels.functions:Linear", "state": {}}, "__init__"]},
        {"method": [{"object": "kbench.kernels.functions:Linear", "state": {}}, "nothing"]},
        {"method": [[], "append"]},
        {"method": 1},
        {"again": 0},
        {"again": "0"},
        {"slice": [1]},
        {"array": "a999"},
        {"array": ["a0"]},
        {"scalar": "a0"},
        {"dtype": "O"},
        {"dtype": "M8[s]"},
        {"type": "nonsense"},
        {"float": "1e5"},
        {"tuple": 1},
        {"dict": [1]},
        {"dict": [[[], 1]]},
        {"sparse": ["dok_array", [2, 2], "a0", "a0", "a0"]},
        {"sparse": ["csr_array", [2, 2], "a0", "a0", "a0"]},
        {"sparse": []},
        {"skops": "a0"},
        {"unheard": 1},
        {"float": "nan", "tuple": []},
        {},
    ],
    ids=str,
)
def test_invalid_trees_are_refused(tree):
    with pytest.raises(ModelError):
        decode(tree, {"a0": np.array([5.0, 6.0])})


def test_sparse_indices_out_of_range_are_refused():
    arrays = {"d": np.ones(1), "i": np.array([7]), "p": np.array([0, 1])}
    with pytest.raises(ModelError):
        decode({"sparse": ["csr_array", [1, 3], "d", "i", "p"]}, arrays)


def test_a_tree_nested_too_deeply_is_refused():
    tree = 1
    for _ in range(500):
        tree = {"tuple": [tree]}
    with pytest.raises(ModelError, match="deep"):
        decode(tree, {})


def test_skops_may_build_no_class_of_the_file_s_choice():
    skops = pytest.importorskip("skops.io")
    content = np.frombuffer(skops.dumps(Path("x")), np.uint8)
    with pytest.raises(ModelError, match="no model may hold"):
        decode({"skops": "a"}, {"a": content})
    with pytest.raises(ModelError, match="damaged"):
        decode({"skops": "a"}, {"a": content[:100]})


def test_without_skops_models_of_scikit_learn_name_the_extra_to_install(tmp_path, monkeypatch):
    X, y = rows("binary")
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    through_file(KernelSVC().fit(X, y), tmp_path)
    with pytest.raises(ModelError, match=r"pip install 'kbench\[models\]'"):
        save_model(tmp_path / "svc.npz", SVC().fit(X, y))
    with pytest.raises(ModelError, match="not installed"):
        decode({"skops": "a"}, {"a": np.zeros(3, np.uint8)})


def test_a_damaged_name_is_not_quoted_at_length(tmp_path):
    path = save_model(tmp_path / "m.npz", {"x": np.arange(1000.0)})
    content = bytearray(path.read_bytes())
    content[27] = 8  # the first member's name is 2,048 bytes longer
    path.write_bytes(content)
    refused(path)


@settings(max_examples=200)
@given(data=st.data())
def test_a_damaged_file_gives_a_one_line_error_or_the_same_model(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    path = save_model(folder / "m.npz", {"x": np.arange(10.0), "y": math.pi})
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 4))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        back = load_model(path).estimator
    except ModelError:
        refused(path)
    else:
        assert back["y"] == math.pi
        np.testing.assert_array_equal(back["x"], np.arange(10.0))


def test_error_for_a_missing_file_is_one_line(tmp_path):
    assert "No such file" in refused(tmp_path / "nothing.npz")


def test_mutated_models_are_refused_or_predict(tmp_path):
    # A short run of scripts/fuzz_models.py: one method of each kind of machine.
    command = [sys.executable, str(SCRIPT), "--mutations", "60"]
    methods = [
        "dcpred",
        "dcpred_trained",
        "ldkl",
        "kernel_svc",
        "dcsvm_early",
        "fastfood_svm",
        "svd",
    ]
    run = subprocess.run([*command, *methods], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    *_, total = run.stdout.splitlines()
    refused, _raised, predicted, crashed, foreign, bounds, _ = map(int, total.split()[1:])
    assert (crashed, foreign, bounds) == (0, 0, 0)
    assert refused > 0
    assert predicted > 0


CONTRADICTIONS = {
    "a tree with a cycle": "tree.first[np.flatnonzero(tree.n_children)[-1]] = 0",
    "children beyond the end": "tree.n_children[0] = 1000",
    "another width": "tree.n_features = 40",
    "another dtype": "tree.planes = tree.planes.astype(np.float64)",
    "offsets out of order": "machine.leaves[1, 4] += 16",
    "a feature out of range": "machine.features[0, 1] = 5",
    "too few scratch columns": "machine.largest = 1",
    "a table too short": "machine.table = machine.table[:-16]",
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_machines_that_contradict_themselves_are_refused(tmp_path, name):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(60, 5)).astype(np.float32)
    tree = kmeans_tree(X, 4, rng)
    leaf = LandmarkMachine(np.zeros(1), X[:3].astype(float), np.ones(3), np.ones((3, 1)))
    machine = LocalLandmarks(tree, [leaf] * tree.n_leaves, 5)
    exec(CONTRADICTIONS[name], {"np": np, "tree": tree, "machine": machine})
    stored = tree if CONTRADICTIONS[name].startswith("tree") else machine
    assert "is inconsistent" in refused(save_model(tmp_path / "model.npz", stored))


def str_of(value):
    return value if isinstance(value, str) else ""


def stored_by(release):
    """(name, bytes) of small models of every method, as that release wrote them."""
    with tarfile.open(Path(__file__).with_name(f"models_{release}.tar.xz")) as archive:
        for member in archive:
            if member.isfile():
                yield Path(member.name).name, archive.extractfile(member).read()


@pytest.mark.parametrize(("name", "content"), list(stored_by("0_1")), ids=str_of)
def test_a_model_of_an_earlier_release_says_what_it_said(tmp_path, name, content):
    """Classes have moved between modules since; each file holds five of its own predictions."""
    path = tmp_path / name
    path.write_bytes(content)
    try:
        model = load_model(path)
    except ModelError as error:
        if "written with" in str(error):  # by another minor version, whose models are refused
            pytest.skip(str(error))
        raise
    task = name.removesuffix(".npz").rpartition("-")[2]
    d = model.estimator.n_features_in_
    for said, expected in json.loads(model.about["said"]).items():
        found = getattr(model.estimator, said)(rows(task, d=d)[0][100:105])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_no_package_has_two_modules_of_one_name():
    """Stored classes are found by package and file name, wherever the module has moved."""
    root = Path(storable.__file__).parents[1]
    for package in storable.PACKAGES:
        names = [p.stem for p in (root / package).rglob("*.py") if p.stem != "__init__"]
        twice = {name for name in names if names.count(name) > 1}
        assert not twice, package
