"""A grid over a parameter that a preset sets: every value is a fit of its own, or an error."""

import itertools

import numpy as np
import pytest

from kbench import presets
from kbench.approximation import HSSMatrix
from kbench.config import composer, options, read_yaml
from kbench.errors import ConfigError
from kbench.run.planning import registry
from kbench.run.planning.plan import make_plan

METHODS = {
    "dcsvm": "dcsvm",
    "dcsvm_early": "dcsvm_local",
    "hss_admm": "hss",
    "hss_krr": "hss",
    "meka": "meka",
    "meka_galerkin": "meka",
    "meka_psd": "meka",
}
# Two values of each parameter that change a fit to 400 rows.
GRIDS = {
    "landmarks": ("kmeans", "uniform"),
    "basis_sampling": ("diagonal", "partition_rows"),
    "link": ("galerkin", "sampled"),
    "rho": (0.5, 3.0),
    "pinv_cut": (1e-5, 0.9),
    "eps": (0.2, 0.7),
    "zero_fraction": (0.2, 0.6),
    "rank_strategy": ("same", "eigenvalues"),
    "n_samples": (120, 380),
    "kmeans_iter": (1, 9),
    "n_clusters": (3, 5),
    "n_levels": (2, 3),
    "branching": (2, 8),
    "partition": ("kmeans", "kernel_kmeans"),
    "tol": (1e-3, 1.0),
    "level_tol": (1e-3, 1.0),
    "leaf_size": (16, 64),
    "n_neighbours": (2, 32),
    "n_trees": (1, 2),
    "rel_tol": (0.1, 0.9),
    "abs_tol": (0.1, 50.0),
    "trace_tol": (1e-3, 0.3),
    "max_rank": (3, 12),
    "max_near": (8, 64),
    "n_far": (8, 64),
    "sketch": (16, 64),
}
# A paper's numbers of clusters and rows are for larger data; a value of the grid wins over these.
DCSVM = {"n_clusters": 4, "n_levels": 2, "n_samples": 200, "gamma": 0.5, "C": 10.0}
FEW_ROWS = {
    "dcsvm": DCSVM | {"combine": "exact"},
    "dcsvm_early": DCSVM,
    "meka": {"rank": 15, "n_clusters": 5, "gamma": 0.5, "alpha": 30.0},
}


def test_every_method_whose_file_names_a_table_is_here():
    named = {name: read_yaml(path)["meta"] for name, path in options("method").items()}
    tables = {name: meta["presets"] for name, meta in named.items() if "presets" in meta}
    assert tables == METHODS


@pytest.fixture(scope="module")
def hydra():
    with composer() as made:
        yield made


@pytest.mark.parametrize("method", METHODS)
def test_a_grid_makes_a_run_of_each_value(hydra, method):
    dataset = "breast_cancer" if method in ("dcsvm", "dcsvm_early", "hss_admm") else "diabetes"
    table = presets.TABLES[METHODS[method]]
    for parameter in {parameter: None for defaults in table.values() for parameter in defaults}:
        named = [preset for preset, defaults in table.items() if parameter in defaults]
        words = [f"method={method}", f"dataset={dataset}"]
        words += ["method.preset=" + ",".join(preset or "null" for preset in named)]
        words += [f"method.{parameter}=" + ",".join(map(str, GRIDS[parameter]))]
        runs = make_plan(hydra, words, multirun=True).runs
        found = [(run.params.get("preset"), run.params[parameter]) for run in runs]
        assert found == list(itertools.product(named, GRIDS[parameter]))
        assert len({run.key for run in runs}) == len(runs)


@pytest.mark.parametrize("method", FEW_ROWS)
def test_values_of_a_grid_are_different_fits_or_an_error(method):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    values = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=400)
    y = values if method == "meka" else np.where(values > 0, 1, -1)
    config = read_yaml(options("method")[method])
    kinds = config["estimator"]
    estimator = kinds["regression"] if isinstance(kinds, dict) else kinds
    target = registry.target(estimator, config.get("parts"))
    for preset, defaults in presets.TABLES[METHODS[method]].items():
        for parameter in defaults:
            one, other = (
                outcome(target, {**FEW_ROWS[method], "preset": preset, parameter: value}, X, y)
                for value in GRIDS[parameter]
            )
            if isinstance(one, str):
                assert f"{parameter}=" in one, (preset, parameter)
            else:
                assert not np.array_equal(one, other), (preset, parameter)


# The compressed matrix of 400 rows is compared, because a fit adds a ridge or a limit of steps. The
# 512 neighbours of "paper_table5" would be all of them, and leave no far columns.
HSS_ROWS = {"gamma": 0.5, "leaf_size": 32, "n_neighbours": 16, "random_state": 0}


@pytest.mark.parametrize("preset", presets.HSS)
def test_values_of_a_grid_are_different_compressed_matrices_or_a_line_says_that_they_are_not(
    preset,
):
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(400, 3)), rng.normal(size=(400, 2))
    for parameter in presets.HSS[preset]:
        matrices = [
            HSSMatrix(**{**HSS_ROWS, "preset": preset, parameter: value})
            for value in GRIDS[parameter]
        ]
        if parameter == "n_trees":
            with pytest.warns(
                UserWarning, match="n_trees=[12] has no effect: the neighbours of 400"
            ):
                one, other = (matrix.fit(X) @ V for matrix in matrices)
            np.testing.assert_array_equal(one, other)
        else:
            one, other = (matrix.fit(X) @ V for matrix in matrices)
            assert not np.array_equal(one, other), parameter


def test_the_number_of_trees_changes_a_matrix_of_rows_that_are_not_searched_exactly(recwarn):
    X = np.random.default_rng(0).normal(size=(4_200, 20)).astype(np.float32)
    settings = {"gamma": 0.05, "max_rank": 10, "sketch": "none", "n_far": 10, "random_state": 0}
    one, other = (HSSMatrix(n_trees=n, **settings).fit(X) for n in GRIDS["n_trees"])
    assert not np.array_equal(one @ X[:, 0], other @ X[:, 0])
    # The runner gives the preset's number to every fit, which is no reason to warn.
    HSSMatrix(n_trees=presets.HSS["fast"]["n_trees"], **settings).fit(X[:300])
    assert not len(recwarn)


def outcome(target, params, X, y):
    """Values of the fitted machine, or the message of the error."""
    try:
        model = registry.build(target, params, 0)
        model.fit(X, y)
    except (ValueError, ConfigError) as error:
        return str(error)
    return getattr(model, "decision_function", model.predict)(X)
