"""What every feature map promises: scikit-learn's contract, precision, batches, bytes, counts."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from kbench.approximation import (
    Fastfood,
    FeatureBlocks,
    LandmarkFeatures,
    Nystrom,
    RandomFeatures,
    RandomFourierFeatures,
    SpectralNystrom,
)
from kbench.trace import Trace

MAPS = [
    LandmarkFeatures(12),
    LandmarkFeatures(12, landmarks="kmeans"),
    Nystrom(12),
    Nystrom(12, kernel="poly", degree=2, coef0=1.0, landmarks="kmeans"),
    SpectralNystrom(6, n_landmarks=12),
    SpectralNystrom(6, n_landmarks=12, truncation="rows"),
    RandomFourierFeatures(20),
    RandomFourierFeatures(20, kernel="laplacian", form="cos_sin"),
    RandomFourierFeatures(20, form="cos_sin", sampling="orthogonal"),
    RandomFourierFeatures(20, kernel="laplacian", sampling="quasi"),
    Fastfood(20),
    Fastfood(20, form="cos_sin"),
    RandomFeatures(10, features="fastfood", form="phase"),
]


def rows(n=150, d=7, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.filterwarnings("ignore:.* is more than n_samples:UserWarning")
@parametrize_with_checks(MAPS)
def test_check(estimator, check):
    check(estimator)


@pytest.fixture(params=MAPS, ids=str)
def feature_map(request):
    return clone(request.param).set_params(gamma=0.2, random_state=0)


def test_features_do_not_depend_on_precision_layout_or_batches(feature_map):
    X = rows()
    X[np.abs(X) < 0.4] = 0.0
    X = X.astype(np.float32).astype(np.float64)
    expected = feature_map.fit(X).transform(X)
    assert expected.dtype == np.float64
    single = X.astype(np.float32)
    single.flags.writeable = False
    assert feature_map.transform(single).dtype == np.float32
    # A projection onto landmarks divides by what they leave of one another.
    tolerance = 2e-3 if isinstance(feature_map, (Nystrom, SpectralNystrom)) else 1e-5
    for form in (single, sp.csr_array(single)):
        np.testing.assert_allclose(feature_map.transform(form), expected, atol=tolerance)
    for form in (np.asfortranarray(X), sp.csr_array(X)):
        np.testing.assert_allclose(feature_map.transform(form), expected, atol=1e-9)
    parts = [feature_map.transform(X[start : start + 33]) for start in range(0, 150, 33)]
    np.testing.assert_allclose(np.vstack(parts), expected, atol=1e-12)
    np.testing.assert_allclose(
        feature_map.transform(np.tile(X, (300, 1)))[-150:], expected, atol=1e-12
    )


def test_names_data_frames_and_pipelines(feature_map):
    X = rows()
    names = feature_map.fit(X).get_feature_names_out()
    assert len(names) == feature_map.n_features_out_
    assert names[0] == f"{type(feature_map).__name__.lower()}0"
    frame = feature_map.set_output(transform="pandas").transform(X)
    assert list(frame.columns) == list(names)
    make_pipeline(clone(feature_map), LinearSVC()).fit(X, X[:, 0] > 0).predict(X)


def test_nbytes_and_n_parameters_count_the_stored_arrays(feature_map):
    X = rows()
    feature_map.fit(X)
    m = feature_map.n_features_out_
    expected = {
        LandmarkFeatures: m * 7,
        Nystrom: m * 7 + m * (m + 1) // 2,
        SpectralNystrom: 12 * 7 + 12 * 6,
        RandomFourierFeatures: 20 * 8 if getattr(feature_map, "form", "") == "phase" else 10 * 7,
        # Blocks of 8 frequencies.
        Fastfood: 4 * 24 + 20 if getattr(feature_map, "form", "") == "phase" else 4 * 16,
        RandomFeatures: 4 * 24 + 20,
    }
    assert feature_map.n_parameters_ == expected[type(feature_map)]
    arrays = [v for v in vars(feature_map).values() if isinstance(v, np.ndarray)]
    assert feature_map.nbytes_ >= sum(array.nbytes for array in arrays)


@pytest.mark.parametrize("sparse", [False, True])
def test_feature_blocks_are_slices_of_the_feature_matrix(feature_map, sparse):
    X = rows(400)
    feature_map.fit(X)
    width = feature_map.n_features_out_
    data = sp.csr_array(X) if sparse else X
    trace = Trace()
    blocks = FeatureBlocks(feature_map, data, 100 * width * 4 / 2**20, trace)
    expected = np.empty((400, width), np.float32)
    feature_map.fill(X, expected)
    slices = blocks.slices()
    assert len(slices) == 4
    got = np.vstack([blocks.block(part).copy() for part in slices])
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert blocks.n_rows_computed == 400
    assert trace.timings.keys() == {"features"}

    whole = FeatureBlocks(feature_map, data, 100.0)
    assert len(whole.slices()) == 1
    whole.block(whole.slices()[0])
    whole.block(whole.slices()[0])
    assert whole.n_rows_computed == 400


@pytest.mark.parametrize("place", [("scale", 1e-40), ("scale", 1e30), ("shift", 1e8)])
@pytest.mark.parametrize("form", ["phase", "cos_sin"])
@pytest.mark.parametrize("cls", [RandomFourierFeatures, Fastfood])
def test_fourier_features_in_float32_do_not_depend_on_unit_and_origin(cls, form, place):
    # float32 holds neither the frequencies nor the rows of these sets.
    X = np.random.default_rng(0).normal(size=(40, 5))
    kind, size = place
    moved, gamma = (X * size, 0.1 / size**2) if kind == "scale" else (X + size, 0.1)
    products = []
    for rows, width in ((X, 0.1), (moved, gamma)):
        features = cls(2000, gamma=width, form=form, random_state=0).fit(rows)
        Z = np.empty((40, 2000), np.float32)
        features.fill(rows, Z)
        products.append(Z @ Z.T)
    # Centring changes the phases, which change inner products unless sines are there, too.
    same = kind == "scale" or form == "cos_sin"
    np.testing.assert_allclose(*products, atol=1e-4 if same else 0.2)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans"])
def test_landmarks_whose_kernel_values_are_all_zero_are_refused(landmarks):
    """The first use of the features ended with a division by zero."""
    with pytest.raises(ValueError, match="all kernel values of the 5 landmarks are 0"):
        Nystrom(5, kernel="linear", landmarks=landmarks).fit(np.zeros((9, 3)))


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "rpcholesky"])
@pytest.mark.parametrize("cls", [Nystrom, SpectralNystrom])
def test_rows_and_columns_that_are_left_out_for_their_scale_are_said(cls, landmarks):
    """One feature was left, without a word."""
    features = cls(20, kernel="linear", landmarks=landmarks, random_state=0)
    X = rows(20)
    X[7] *= 1e6
    with pytest.warns(UserWarning, match=r"19 of 20 rows .* largest, .*scale the rows"):
        features.fit(X)
    with pytest.warns(UserWarning, match="6 of 7 columns .*scale the columns"):
        features.fit(sp.csr_array(rows(50) * [1e4, 1, 1, 1, 1, 1, 1]))
