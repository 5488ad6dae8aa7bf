"""What a plan says of parameters before anything runs: as a fit would, for every estimator."""

import warnings
from collections import Counter

import numpy as np
import pytest
import yaml
from all_machines import build, machines
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_classification
from sklearn.utils._param_validation import Interval, Options, RealNotInt

from kbench.config import options
from kbench.data.preparation.split import split_rows
from kbench.errors import ConfigError, UnavailableError
from kbench.run.planning import registry
from kbench.run.planning.bounds import BOUNDED, Sizes, refusal
from kbench.run.planning.method_file import MethodFile
from kbench.run.planning.plan import FRACTIONS

MACHINES = {str(machine): machine for machine in machines()}
ROWS = make_classification(40, 4, n_informative=3, n_redundant=0, random_state=0)
_WRONG = [True, -1, 0, "x", [], [-1.0], {}, {"a": 1}]


def checked(machine, **changed):
    """The estimator, built as the planner's check builds it; parts are built beside."""
    arguments = build(machine).get_params(deep=False) | changed
    return registry._construct(machine.cls, arguments)


@pytest.mark.parametrize("name", MACHINES)
def test_true_is_no_number(name):
    machine = MACHINES[name]
    for parameter, constraints in machine.cls._parameter_constraints.items():
        if parameter not in build(machine).get_params(deep=False):
            continue
        numbers = [one for one in constraints if isinstance(one, Interval)]
        truths = [one for one in constraints if isinstance(one, Options) and True in one.options]
        if numbers and not truths and not {"boolean", "verbose"} & {*filter(_is_text, constraints)}:
            with pytest.raises(
                ConfigError, match=f"method.{parameter} is true, should be|'{parameter}'"
            ):
                checked(machine, **{parameter: True})


def _is_text(one):
    return isinstance(one, str)


@pytest.mark.parametrize("name", MACHINES)
def test_a_fit_accepts_what_the_plan_accepts(name):
    """But for what depends on the rows: classes, features, and what a model costs there."""
    machine = MACHINES[name]
    X, y = ROWS
    y = X[:, 0] if is_regressor(build(machine)) else y
    by_rows = {"class_weight", "target_cost", "checkpoint", "scratch", "alpha"}
    if "array-like" in filter(_is_text, machine.cls._parameter_constraints.get("gamma", [])):
        by_rows.add("gamma")  # as many widths as columns
    for parameter in sorted({*build(machine).get_params(deep=False)} - by_rows):
        for value in _WRONG:
            try:
                estimator = checked(machine, **{parameter: value})
            except ConfigError:
                continue
            with warnings.catch_warnings(action="ignore"):
                predicted = clone(estimator).fit(X, y).predict(X[:2])
            assert np.isfinite(predicted).all(), (parameter, value)


CONTRADICTIONS = [
    ("dcsvm", {"combine": "early", "level_tol": 0.1}, "level_tol"),
    ("dcsvm", {"n_levels": 1, "branching": 3}, "branching=3 has no effect"),
    ("dcsvm", {"partition": "random", "combine": "early"}, "combine='early' needs the cluster"),
    ("dcpred_trained", {"n_synthetic": 2}, "needs target='global'"),
    ("doubly_sgd", {"n_copies": 3}, "n_copies is 3"),
    ("hss_admm", {"C": [1.0, -1.0]}, "C must be one or more numbers > 0"),
    ("kernel_quantile", {"quantile": [0.5, 1.5]}, "quantile must be a number between 0 and 1"),
    ("krr", {"alpha": {}}, "alpha must be one or more numbers"),
    ("krr", {"alpha": [1.0, -1.0]}, "alpha must be one or more numbers"),
]


@pytest.mark.parametrize(("method", "params", "said"), CONTRADICTIONS)
def test_contradictions_are_said_by_the_plan(method, params, said):
    assert said in registry.check([(registry.target(method), params, "")])


PARTS = [
    ("kbench.approximation.MEKA", {"link": "galerkin", "rho": 0.5}, "belongs to link='sampled'"),
    ("kbench.approximation.MEKA", {"rank": None}, "set one of rank and numbers_per_row"),
    ("kbench.approximation.RandomFeatures", {"rank": 3, "numbers_per_row": 2.0}, "set one of"),
    (
        "kbench.approximation.RandomFeatures",
        {"features": "fastfood", "kernel": "laplacian"},
        "approximates kernel='rbf' only",
    ),
    ("kbench.approximation.SpectralNystrom", {"rank": None}, "set one of"),
    (
        "kbench.approximation.RandomFourierFeatures",
        {"sampling": "orthogonal", "kernel": "laplacian"},
        "isotropic spectrum",
    ),
    ("kbench.approximation.HSSMatrix", {"n_neighbours": 0, "n_trees": 3}, "contradicts n_neig"),
    ("kbench.approximation.HSSMatrix", {"n_neighbours": 0, "max_near": 9}, "contradicts n_neig"),
]


@pytest.mark.parametrize(("part", "params", "said"), PARTS)
def test_contradictions_of_parts_are_said_by_the_plan(part, params, said):
    module, _, name = part.rpartition(".")
    cls = registry._load_class(f"{module}:{name}", ("fit",))
    with pytest.raises(ConfigError, match=said.replace("'", ".")):
        registry._construct(cls, params)


N, D = 40, 4
LABELS = {  # four rows of a class are fewer than the folds of a calibration
    "binary": np.where(np.arange(N) < 4, 1, -1),
    "multiclass": np.where(np.arange(N) < 4, 0, 1 + np.arange(N) % 2),
    "outlier": np.where(np.arange(N) < 4, -1, 1),
    "regression": ROWS[0][:, 0],
}
BEYOND = {  # of each bounded parameter: a value at the bound of these rows, and one beyond it
    "alpha": ([1.0], [1.0] * 9),
    "calibration": (None, "sigmoid"),
    "categorical_features": ([0, D - 1], [D]),
    "class_weight": ({1: 2.0}, {5: 2.0}),
    "gamma": ([1.0] * D, [1.0] * (D + 1)),
    "max_features": (D, D + 1),
    "monotonic_cst": ([0] * D, [0] * (D + 1)),
    "n_neighbors": (N, N + 1),
    "nu": (0.1, 0.9),
    "pca_components": (D, D + 1),
}
METHODS = {name: yaml.safe_load(path.read_text()) for name, path in options("method").items()}


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        *((name, known) for name, file in METHODS.items() for known in BEYOND if known in file),
        ("knn", "calibration"),
    ],
)
def test_a_plan_refuses_what_the_rows_refuse_and_nothing_else(name, parameter):
    assert set(BEYOND) == set(BOUNDED)
    file = MethodFile.of(METHODS[name], name)
    task = next(t for t in LABELS if t in file.meta.get("tasks", LABELS))
    X, y = ROWS[0].astype(np.float32), LABELS[task]
    classes = None if task == "regression" else Counter(y.tolist())
    sizes = Sizes(N, D, classes, len(classes) if task == "multiclass" else 1)
    target = registry.target(file.estimator_for(task), file.parts)
    small = {key: value for key, value in file.params.items() if value is not None}
    small |= file.meta.get("warmup", {}) | ({"nu": 0.1} if "nu" in small else {})

    def built(value):
        return registry.build(target, small | {parameter: value}, 0)

    try:
        line = refusal(built(BEYOND[parameter][1]), sizes)
        assert refusal(built(BEYOND[parameter][0]), sizes) is None
    except (ConfigError, UnavailableError):
        return  # a list of widths, which this class does not take, or a package that is absent
    if line is not None:
        assert line.startswith(f"method.{parameter} ")
        with pytest.raises(ValueError, match=r"\w"), warnings.catch_warnings(action="ignore"):
            built(BEYOND[parameter][1]).fit(X, y).predict(X)
    elif target.startswith("sklearn"):
        with warnings.catch_warnings(action="ignore"):
            built(BEYOND[parameter][1]).fit(X, y).predict(X)


@pytest.mark.parametrize("split", [{}, {"folds": 7, "fold": 1}, {"stratified": True}])
@pytest.mark.parametrize("n", [40, 41])
def test_facts_allow_as_many_neighbours_as_the_rows(split, n):
    split = {"kind": "random", "test_fraction": 0.3, **split}
    y = np.arange(n) % 3
    known = Sizes.of({"split": split, "facts": {"n": n, "n_classes": 3}}, None)
    assert 0 <= known.n - len(split_rows(y, split)[0]) <= 2


def test_numbers_that_are_counts_or_fractions_are_known_to_the_planner():
    """It tells 1 from 1.0 there, which other parameters take for the same number."""
    for name, file in METHODS.items():
        estimator = MethodFile.of(file, name).estimator
        for path in estimator.values() if isinstance(estimator, dict) else [estimator]:
            if not path.startswith("sklearn."):
                continue
            constraints = registry.load(registry.target(path)).estimator._parameter_constraints
            for parameter, known in constraints.items():
                if any(isinstance(one, Interval) and one.type is RealNotInt for one in known):
                    assert parameter in FRACTIONS or parameter not in file, (name, parameter)
