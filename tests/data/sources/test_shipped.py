"""The shipped data sets: configs that hold, bundled sets as scikit-learn has them, real files."""

import re

import numpy as np
import pytest
import sklearn.datasets
from support import CONFIGS, shipped

from kbench.config import composer
from kbench.data import check_config, fingerprint, locate, open_prepared, prepare, with_variant
from kbench.data.configs.dataset import rows_of_split
from kbench.data.configs.keys import KEYS

# Numbers of a data set are printed by a paper, chosen on training rows, or not tuned by anybody.
FOUND = re.compile(
    r"Table \d|section \d|released code|its configs|training rows|validation rows|common use"
    r"|by hand|as covtype"
)
NAMES = sorted(p.stem for p in (CONFIGS / "dataset").glob("*.yaml"))
FILES = [n for n in NAMES if shipped(n)["source"]["kind"] == "files"]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "file"])
def test_every_config_and_every_variant_is_sound(name):
    config = shipped(name)
    assert config["name"] == name
    assert config["about"]
    assert config["licence"]
    for variant in (None, *config["variants"]):
        checked = check_config({**config, "variant": variant})
        for use, values in checked["use"].items():
            assert values.get("from"), f"{name}: use.{use} does not say where it is from"
            assert FOUND.search(values["from"]), f"{name}: use.{use}: {values['from']}"
            assert "test rows" not in values["from"]
            if isinstance(values.get("gamma"), list):  # a width for each feature
                assert len(values["gamma"]) == config["facts"]["n_features"]


@pytest.mark.parametrize("name", [n for n in NAMES if "at_scale" in shipped(n)["variants"]])
def test_ridges_and_widths_of_the_askotch_study_follow_from_its_settings(name):
    """lambda is a number times n, and gamma = 1 / (2 sigma^2), as the study's code has them."""
    config = with_variant(shipped(name, variant="at_scale"))
    facts, values = config["facts"], config["use"]["krr"]
    source = values["from"]
    n_train = facts.get("n_train") or config["split"]["n_train"]
    if "n" in facts:
        n_train = rows_of_split(facts["n"], config["split"])[0]
    ridge, sigma = re.search(r"([\d.]+e-\d) n", source), re.search(r"sigma ([\d.]+)", source)
    if "lambda" in values:
        assert values["lambda"] == pytest.approx(float(ridge[1]) * n_train, rel=0.01)
    if sigma:
        assert values["gamma"] == pytest.approx(0.5 / float(sigma[1]) ** 2, rel=0.01)
    elif "2 d of" in source:
        assert values["gamma"] == pytest.approx(0.25 / facts["n_features"], rel=0.01)
    else:
        assert "median distance, here of" in source


def test_hydra_composes_what_the_tests_compose_by_hand():
    with composer() as compose:
        for name in ("ijcnn1", "covtype_93k", "digits", "covtype_like"):
            assert compose.compose([f"dataset={name}"])["dataset"] == shipped(name)


def test_every_key_that_all_data_sets_share_is_documented():
    for key, value in shipped("digits").items():
        if key not in ("use", "variants", "facts"):
            leaves = [f"{key}.{k}" for k in value] if isinstance(value, dict) else [key]
            assert set(leaves) <= set(KEYS)


@pytest.mark.parametrize(
    ("name", "loader"),
    [
        ("digits", sklearn.datasets.load_digits),
        ("iris", sklearn.datasets.load_iris),
        ("wine_cultivars", sklearn.datasets.load_wine),
        ("breast_cancer", sklearn.datasets.load_breast_cancer),
        ("diabetes", lambda **k: sklearn.datasets.load_diabetes(scaled=False, **k)),
    ],
)
def test_bundled_sets_are_scikit_learns(folders, name, loader):
    X, y = loader(return_X_y=True)
    whole = {"kind": "first", "n_train": len(y) - 1, "stratified": False, "test_fraction": None}
    config = shipped(name, scale="none", split=whole, target={"scale": "none"})
    data = open_prepared(prepare(config, folders))
    np.testing.assert_allclose(np.vstack([data.X_train, data.X_test]), X, rtol=1e-6)
    labels = np.where(y > 0, 1, -1) if name == "breast_cancer" else y
    np.testing.assert_array_equal(np.append(data.y_train, data.y_test), labels)
    assert len(fingerprint(config, folders)) == 64


def test_digits_as_they_come(folders):
    data = open_prepared(prepare(shipped("digits"), folders))
    assert (data.n_train, data.n_test, data.n_features, data.n_classes) == (1347, 450, 64, 10)
    assert (data.X_train.min(), data.X_train.max()) == (0.0, 1.0)
    counts = np.bincount(data.y_test)
    assert counts.min() >= 43
    assert counts.max() <= 47


REAL = {
    # name: (train shape, test shape, positives or classes)
    "a8a": ((22696, 123), (9865, 123), (5506, 2335)),
    "a9a": ((32561, 123), (16281, 123), (7841, 3846)),
    "w7a": ((24692, 300), (25057, 300), (740, 739)),
    "w8a": ((49749, 300), (14951, 300), (1479, 454)),
    "ijcnn1": ((49990, 22), (91701, 22), (4853, 8712)),
    "cod-rna": ((59535, 8), (271617, 8), (19845, 90539)),
    "covtype_93k": ((74370, 54), (18592, 54), None),
    "heart_scale": ((202, 13), (68, 13), (90, 30)),
    "breast-cancer_scale": ((512, 10), (171, 10), None),
    "mushrooms": ((6093, 112), (2031, 112), None),
    "letter": ((15000, 16), (5000, 16), 26),
    "pendigits": ((7494, 16), (3498, 16), 10),
    "cadata": ((16512, 8), (4128, 8), None),
    "cpusmall": ((6553, 12), (1639, 12), None),
    "pendigits:meka": ((8794, 16), (2198, 16), 10),
    "mnist": ((60000, 784), (10000, 784), 10),
    "mnist:round_digits": ((60000, 784), (10000, 784), (29772, 4931)),
    "mnist:eight_vs_six": ((11769, 784), (1932, 784), (5851, 974)),
    "mnist:two_digits": ((11769, 784), (1932, 784), None),
    "usps": ((7291, 256), (2007, 256), 10),
    "usps:dcpred": ((7291, 256), (2007, 256), None),
    "skin_nonskin": ((171540, 3), (73517, 3), None),
    "kddcup99:ten_percent": ((494021, 118), (311029, 118), (97278, 60593)),
    "kddcup99:dcsvm_ten_percent": ((494021, 121), (311029, 121), (97278, 60593)),
    "census:half": ((79810, 509), (19952, 509), None),
    "census:dcsvm_half": ((79810, 408), (19952, 408), None),
    "wine": ((5198, 11), (1299, 11), None),
    "protein_regression": ((36584, 9), (9146, 9), None),
    "kin40k": ((32000, 8), (8000, 8), None),
    "bike": ((13903, 17), (3476, 17), None),
    "abalone": ((3342, 10), (835, 10), None),
    "qm7_xyz": ((5681, 276), (1420, 276), None),
}
FORMS = sorted({*FILES, *(form for form in REAL if ":" in form)})


@pytest.mark.parametrize("form", FORMS)
def test_real_files_hold_the_facts(form, real_folders):
    """`prepare` checks the config's facts; the shapes here are the papers'."""
    name, _, variant = form.partition(":")
    config = with_variant(shipped(name, variant=variant or None))
    if any(file.path is None for file in locate(config, real_folders)):
        pytest.skip(f"the files of {form} are in no folder of KBENCH_DATA")
    data = open_prepared(prepare(config, real_folders, download=False))
    assert form in REAL, "a file at hand whose shape this test does not know"
    train, test, counts = REAL[form]
    assert (data.X_train.shape, data.X_test.shape) == (train, test)
    if isinstance(counts, tuple):
        assert (np.sum(data.y_train == 1), np.sum(data.y_test == 1)) == counts
    elif counts is not None:
        assert data.n_classes == counts
    if config["scale"] == "unit" and config["scale_over"] == "train":
        assert (data.X_train.min(), data.X_train.max()) == (0.0, 1.0)
