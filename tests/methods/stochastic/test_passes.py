"""NORMA, Pegasos and SDCA against their optima, their closed forms and naive loops."""

import numpy as np
import pytest
from dual_problem import coefficients, product_sign
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from kbench.methods import NORMA, KernelSDCA, PegasosClassifier, SDCAClassifier

NU, GAMMA = 0.01, 0.5


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_sdca_on_features_ends_at_the_optimum_of_liblinear(features):
    X, y = product_sign(120)
    model = SDCAClassifier(
        40, features=features, nu=NU, gamma=GAMMA, max_iter=5000, tol=1e-6, random_state=0
    ).fit(X, y)
    Z = model.feature_map_.transform(X)
    liblinear = LinearSVC(
        C=1 / (NU * len(y)), loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6
    ).fit(Z, y)
    np.testing.assert_allclose(model.coef_, liblinear.coef_, atol=2e-3)
    assert 0 <= model.duality_gap_ < 1e-4 * -model.objective_


def test_kernel_sdca_ends_at_the_optimum_and_its_gap_is_never_negative():
    X, y = product_sign(120)
    K = rbf_kernel(X, gamma=GAMMA)
    C = 1 / (NU * len(y))
    gaps = []
    for n_epochs in (1, 10, 300):
        model = KernelSDCA(nu=NU, gamma=GAMMA, n_epochs=n_epochs, random_state=0).fit(X, y)
        beta = coefficients(model, len(y))
        assert (beta * y >= 0).all()
        assert np.abs(beta).max() <= C
        f = K @ beta
        primal = 0.5 * beta @ f + C * np.maximum(0, 1 - y * f).sum()
        dual = np.abs(beta).sum() - 0.5 * beta @ f
        gaps.append(primal - dual)
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 1e-3 * dual


@pytest.mark.parametrize("batch_size", [1, 17, 1000])
def test_a_pass_of_kernel_sdca_is_single_steps_whatever_the_batches(batch_size):
    X, y = product_sign(120)
    K = rbf_kernel(X, gamma=GAMMA)
    alpha = np.zeros(len(y))
    for i in np.random.RandomState(0).permutation(len(y)):
        alpha[i] = np.clip(alpha[i] + 1 - y[i] * K[i] @ (alpha * y), 0, 1 / (NU * len(y)))
    options = {"batch_size": batch_size, "n_epochs": 1, "random_state": 0}
    model = KernelSDCA(nu=NU, gamma=GAMMA, **options).fit(X, y)
    np.testing.assert_allclose(coefficients(model, len(y)), alpha * y, atol=1e-4)
    if batch_size == 1:
        assert model.kernel_entries_ <= len(y) ** 2 / 2 + len(y)


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_norma_is_its_closed_form(loss):
    """Coefficients are -eta_t l' / b times the decays since, of decision values before them."""
    X, y = product_sign(120)
    K = rbf_kernel(X, gamma=GAMMA)
    coef = np.zeros(len(y))
    order = np.random.RandomState(0).permutation(len(y))
    for t, rows in enumerate(np.array_split(order, 8), start=1):
        margin = y[rows] * (K[rows] @ coef)
        slope = (margin < 1) if loss == "hinge" else 1 / (1 + np.exp(margin))
        coef *= 1 - 0.5 / t
        coef[rows] += 0.5 / (NU * t) / len(rows) * y[rows] * slope
    model = NORMA(
        loss=loss, theta=0.5, n_epochs=1, nu=NU, gamma=GAMMA, batch_size=16, random_state=0
    )
    np.testing.assert_allclose(coefficients(model.fit(X, y), len(y)), coef, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("project", [False, True])
def test_pegasos_is_its_algorithm_on_its_features(project):
    X, y = product_sign(120)
    model = PegasosClassifier(
        50, nu=NU, gamma=GAMMA, batch_size=16, n_epochs=1, project=project, random_state=0
    ).fit(X, y)
    Z = model.feature_map_.transform(X)
    rng = np.random.RandomState(0)
    rng.randint(2**31)  # the seed of the frequencies
    w = np.zeros(50)
    for t, rows in enumerate(np.array_split(rng.permutation(len(y)), 8), start=1):
        active = rows[y[rows] * (Z[rows] @ w) < 1]
        w = (1 - 1 / t) * w + (y[active] @ Z[active]) / (NU * t * len(rows))
        if project:
            w *= min(1, 1 / (np.sqrt(NU) * np.linalg.norm(w)))
    np.testing.assert_allclose(model.coef_[0], w, rtol=1e-3, atol=1e-3)


def test_norma_and_pegasos_take_enough_steps_of_few_rows():
    X, y = product_sign(120)
    assert NORMA(gamma=GAMMA, random_state=0).fit(X, y).n_iter_ == 2000
    machine = PegasosClassifier(10, gamma=GAMMA, random_state=0)
    assert machine.fit(X, y).n_iter_ == 2000
    assert machine.set_params(batch_size=1, n_epochs=2).fit(X, y).n_iter_ == 2 * len(y)
    machine.set_params(batch_size=64, n_epochs=None)
    assert [machine._pass_count(n) for n in (64, 10**6)] == [2000, 5]
