"""The class that a method's name stands for, and which parameters it and its parts get.

A method is an entry point of group `kbench.methods`, or `package.module.Class` written in its
YAML file, where `estimator` may be a mapping from task to name. The keys `name`, `estimator`,
`parts` and `meta` of the file describe the method; all others are its parameters.

An estimator may be composed of parts, for example a kernel ridge estimator of a kernel
approximation. `parts` maps the estimator's parameter to the part's class:

    estimator: nystrom
    parts: {approximation: kbench.approximation.SpectralNystrom}
    alpha: 1.0      # a parameter of the estimator
    rank: 128       # a parameter of the part

The parameters stay flat. Each goes to the estimator if its signature has the name, and otherwise to
the part whose signature has it; a name that two parts have is a mistake in the file. The estimator
seeds its parts.

`calibration` is a parameter of any classifier: `sigmoid` or `isotonic` turns its decision values
into probabilities. `metric: learned` puts any method that has no parameter of this name behind
`kbench.metric.LearnedMetric`.

The planner, the runner and the worker pass a method on as one string, its *target*: `module:Class`,
or `module:Class(parameter=module:Class, ...)` with parts.
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from typing import Any

from kbench.errors import NO_CACHE, ConfigError, UnavailableError, one_line, with_type
from kbench.mistyped import nearest

RESERVED = ("name", "estimator", "parts", "meta")
# Parameters that any method takes beside those of its class; a run lacks them if they are null.
WRAPPER_PARAMS = ("calibration", "metric")
# Values of the parameters `calibration` and `metric`.
CALIBRATIONS = ("sigmoid", "isotonic")
LEARNED_METRICS = ("learned",)


@cache
def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="kbench.methods")}


@dataclass(frozen=True)
class Composition:
    """An estimator's class and the classes of its parts."""

    estimator: type
    parts: Mapping[str, type]

    def assign(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Divide flat parameters into parameters of the estimator and parameters of each part.

        Raises ConfigError: no signature has a parameter, or two parts have it; the message names
        it.
        """
        own_names = _signature(self.estimator)
        names_of_part = {part: _signature(cls) for part, cls in self.parts.items()}
        of_estimator: dict[str, Any] = {}
        of_parts: dict[str, dict[str, Any]] = {part: {} for part in self.parts}
        for name, value in params.items():
            if name in self.parts:
                raise ConfigError(
                    f"parameter {name!r} is a part of {self.estimator.__name__}: name its class "
                    f"under parts:, and its parameters beside the others"
                )
            if name in own_names:
                of_estimator[name] = value
                continue
            owners = [part for part, signature in names_of_part.items() if name in signature]
            if len(owners) > 1:
                raise ConfigError(
                    f"parameter {name!r} belongs to two parts of {self.estimator.__name__}, "
                    f"{' and '.join(owners)}; a method's parts must not share parameters"
                )
            if owners:
                of_parts[owners[0]][name] = value
            elif _ANY_NAME in own_names:
                of_estimator[name] = value
            else:
                all_names = {*own_names, *(n for names in names_of_part.values() for n in names)}
                hint = nearest(name, all_names)
                if "__" in name:
                    hint = (
                        f": a part's parameter is written {name.rpartition('__')[2]}; a list of "
                        "estimators, as a Pipeline's steps, goes into a class of your own"
                    )
                raise ConfigError(f"{self} has no parameter {name!r}{hint}")
        return of_estimator, of_parts

    def __str__(self) -> str:
        names = [self.estimator.__name__, *(cls.__name__ for cls in self.parts.values())]
        return " with ".join([names[0], ", ".join(names[1:])] if self.parts else names)


# Stands for the names that a signature with **keywords accepts.
_ANY_NAME = "**"


def _signature(cls: type) -> set[str]:
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        raise ConfigError(f"{cls.__name__} is a class that cannot be built") from None
    return {
        _ANY_NAME if parameter.kind is parameter.VAR_KEYWORD else name
        for name, parameter in parameters.items()
    }


def target(estimator: str, parts: Mapping[str, str] | None = None) -> str:
    """The target that consists of an entry point's name or dotted path, and a file's `parts`.

    Raises ConfigError: a name is neither an entry point nor a dotted path.
    """
    if not isinstance(parts or {}, Mapping):
        raise ConfigError(f"parts is {parts!r}, should map a parameter to package.module.Class")
    entry_points = _entry_points()
    text = (
        entry_points[estimator]
        if estimator in entry_points
        else _class_text(estimator, entry_points)
    )
    part_words = [f"{part}={_class_text(str(name), {})}" for part, name in (parts or {}).items()]
    return f"{text}({', '.join(part_words)})" if part_words else text


def _class_text(dotted: str, entry_points: Mapping[str, str]) -> str:
    module, _, name = dotted.rpartition(".")
    if not module:
        raise ConfigError(
            f"estimator {dotted!r} is not an entry point of group kbench.methods"
            f"{nearest(dotted, entry_points)}, nor package.module.Class"
            if entry_points
            else f"parts name {dotted!r}, should be package.module.Class"
        )
    return f"{module}:{name}"


def parse_target(target: str) -> tuple[str, dict[str, str]]:
    """`module:Class` of the estimator, and of each part."""
    class_text, _, part_list = target.partition("(")
    words = (word.partition("=") for word in part_list.rstrip(")").split(", ") if word)
    return class_text, {part: part_class for part, _, part_class in words}


def load(target: str) -> Composition:
    """The classes that a target names.

    Raises UnavailableError: a module needs a package that is not installed.
    Raises ConfigError: a module lacks the class, or the class lacks `fit` or, for the estimator,
    `predict`. The classes are not called.
    """
    class_text, parts = parse_target(target)
    return Composition(
        _load_class(class_text, ("fit", "predict")),
        {part: _load_class(text, ("fit",)) for part, text in parts.items()},
    )


def _load_class(class_text: str, methods: tuple[str, ...]) -> type:
    """Import `module:Class` and check that it has these methods; raises errors as `load` does."""
    module, _, name = class_text.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        parent, _, absent = str(error.name).rpartition(".")
        if parent in sys.modules and hasattr(sys.modules[parent], "__path__"):
            names = [info.name for info in pkgutil.iter_modules(sys.modules[parent].__path__)]
            raise ConfigError(
                f"{module}.{name}: there is no module {absent} in {parent}{nearest(absent, names)}"
            ) from None
        raise UnavailableError(
            f"{module}.{name} needs the package {error.name!r}, which is not installed; modules of "
            f"your own are looked for in PYTHONPATH alone, as in `PYTHONPATH=FOLDER kbench ...`"
        ) from None
    except OSError as error:
        # The package is installed, but a shared library that it loads is not.
        raise UnavailableError(f"{module}.{name} cannot be loaded: {error}") from None
    except RuntimeError as error:
        if "cannot cache function" not in str(error):
            raise
        raise UnavailableError(f"{module}.{name} cannot be loaded: {NO_CACHE}") from None
    try:
        loaded = getattr(imported, name)
    except AttributeError:
        classes = [n for n, v in vars(imported).items() if inspect.isclass(v)]
        raise ConfigError(
            f"module {module} has no class {name!r}{nearest(name, classes)}"
        ) from None
    if not inspect.isclass(loaded):
        raise ConfigError(
            f"{module}.{name} is a {type(loaded).__name__}, should be a class with "
            f"{' and '.join(f'{method}()' for method in methods)}"
        )
    for method in methods:
        if not hasattr(loaded, method):
            raise ConfigError(
                f"{module}.{name} has no method {method}(), so it is not an estimator"
            )
    return loaded


def build(target: str, params: Mapping[str, Any], seed: int | None) -> Any:
    """An unfitted estimator with its parts; a `random_state` is the run's seed.

    With the parameter `calibration` the estimator is wrapped in a `CalibratedClassifierCV`, which
    fits it to all rows, and five more times for five folds. Predictions cost as much as without it.

    Raises ConfigError: no class has a parameter, or its value is refused; the message names it.
    """
    composition = load(target)
    arguments = dict(params)
    calibration = arguments.pop("calibration", None)
    metric = None
    if arguments.get("metric") is None or "metric" not in _signature(composition.estimator):
        metric = arguments.pop("metric", None)
    of_estimator, of_parts = composition.assign(arguments)
    if "random_state" in _signature(composition.estimator):
        of_estimator.setdefault("random_state", seed)
    for part, cls in composition.parts.items():
        of_estimator[part] = _construct(cls, of_parts[part])
    estimator = _construct(composition.estimator, of_estimator)
    if metric is not None:
        estimator = _behind_metric(estimator, metric, seed)
    return estimator if calibration is None else _calibrate(estimator, calibration)


def nested_params(target: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters under the names that `set_params` takes: `part__name` in a part."""
    of_estimator, of_parts = load(target).assign(params)
    inner = {f"{part}__{k}": v for part, values in of_parts.items() for k, v in values.items()}
    return of_estimator | inner


def _construct(cls: type, arguments: Mapping[str, Any]) -> Any:
    """Build an object; ConfigError if `__init__` or scikit-learn's constraints refuse a value."""
    try:
        built = cls(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{cls.__name__}: {one_line(error)}") from None
    if hasattr(built, "_parameter_constraints"):
        for name, value in arguments.items():
            _refuse_boolean(name, value, built._parameter_constraints.get(name))
        try:
            built._validate_params()
        except (TypeError, ValueError) as error:
            hint = _nearest_option(str(error), arguments, built._parameter_constraints)
            raise ConfigError(f"method: {one_line(error)}{hint}") from None
    return built


def _nearest_option(line: str, arguments: Mapping[str, Any], constraints: Any) -> str:
    """The allowed text nearest to the one that scikit-learn refuses, or how to write the value."""
    from sklearn.utils._param_validation import Options

    for name, value in arguments.items():
        if isinstance(value, str) and f"'{name}' parameter" in line:
            if value.casefold() in ("none", "") and None in constraints.get(name, ()):
                return f" None is written method.{name}=null."
            with suppress(ValueError):
                float(value)
                return " A number stands without quotes."
            options = [c for c in constraints.get(name, ()) if isinstance(c, Options)]
            texts = {text for c in options for text in c.options if isinstance(text, str)}
            return nearest(value, texts)
    return ""


def _refuse_boolean(name: str, value: Any, constraints: Any) -> None:
    """Refuse true or false for a parameter that is a number, although in Python True equals 1.

    constraints : scikit-learn's constraints of the parameter.
    """
    if not isinstance(value, bool) or not isinstance(constraints, list):
        return
    from sklearn.utils._param_validation import Interval, Options

    for constraint in constraints:
        is_option = isinstance(constraint, Options) and value in constraint.options
        if is_option or constraint in ("boolean", "verbose"):
            return
    for constraint in constraints:
        if isinstance(constraint, Interval) or constraint in (Integral, Real):
            expected = constraint if isinstance(constraint, Interval) else "a number"
            raise ConfigError(f"method.{name} is {str(value).lower()}, should be {expected}")


def _behind_metric(estimator: Any, metric: Any, seed: int | None) -> Any:
    if metric not in LEARNED_METRICS:
        raise ConfigError(
            f"method.metric is {metric!r}, should be one of {', '.join(LEARNED_METRICS)}"
        )
    from sklearn.base import is_outlier_detector

    if is_outlier_detector(estimator):
        raise ConfigError(
            f"method.metric is {metric}, which learns from labels, but {type(estimator).__name__} "
            "gets none"
        )
    with_metric = _load_class("kbench.metric:WithMetric", ("fit", "predict"))
    return with_metric(estimator, random_state=seed)


def _calibrate(estimator: Any, calibration: Any) -> Any:
    from sklearn.base import is_classifier
    from sklearn.calibration import CalibratedClassifierCV

    if calibration not in CALIBRATIONS:
        raise ConfigError(
            f"method.calibration is {calibration!r}, should be one of {', '.join(CALIBRATIONS)}"
        )
    if not is_classifier(estimator):
        raise ConfigError(
            f"method.calibration={calibration}, but {type(estimator).__name__} is not a classifier"
        )
    # Five folds are scikit-learn's default.
    return CalibratedClassifierCV(estimator, method=calibration, cv=5, ensemble=False)


def check(runs: list[tuple[str, Mapping[str, Any], str]]) -> str | None:
    """The error of the first (target, params, task) that cannot be built or is for another task;
    None if there is none.

    A package that is not installed is not an error: its runs become rows of status `unavailable`.
    """
    for target, params, task in runs:
        try:
            _check_kind(build(target, params, 0), task)
        except UnavailableError:
            continue
        except ConfigError as error:
            return str(error) + _hint_at_sweep(str(error), params)
        except Exception as error:
            return f"{target}: {with_type(error)}"
    return None


def _check_kind(estimator: Any, task: str) -> None:
    from sklearn.base import is_classifier, is_regressor

    kinds = [is_classifier(estimator), is_regressor(estimator)]
    # Task -> the kind that is wrong; an estimator that declares no kind is not refused.
    wrong = {"regression": [True, False], "binary": [False, True], "multiclass": [False, True]}
    if kinds == wrong.get(task):
        kind = "classifier" if kinds[0] else "regressor"
        raise ConfigError(
            f"{type(estimator).__name__} is a {kind}, which is not for the task {task}; meta.tasks "
            "of a method's file names its tasks, dataset.task=... the data's"
        )


def _hint_at_sweep(line: str, params: Mapping[str, Any]) -> str:
    """How to write a sweep, if `line` refuses a list that may have been meant as a sweep."""
    for name, value in params.items():
        if isinstance(value, list) and value and f"Got {value!r}" in line:
            values = ",".join(map(str, value))
            return f" For one run for each value write -m method.{name}={values}"
    return ""


def idle_parameters(target: str, kernel: str) -> frozenset[str]:
    """Kernel parameters that this kernel ignores, as the linear kernel ignores gamma.

    Empty for packages other than kbench, sklearn and sklearnex, and for unknown kernels.
    """
    package = target.partition(".")[0]
    if package == "kbench":
        return _idle_of_kbench(kernel)
    if package not in ("sklearn", "sklearnex"):
        return frozenset()
    from sklearn.metrics.pairwise import KERNEL_PARAMS

    kernel_params = {name for names in KERNEL_PARAMS.values() for name in names}
    if kernel not in {*KERNEL_PARAMS, "precomputed"}:
        return frozenset()
    return frozenset(kernel_params - set(KERNEL_PARAMS.get(kernel, ())))


def _idle_of_kbench(kernel: str) -> frozenset[str]:
    """The parameters whose change leaves kbench's kernel object equal."""
    import numpy as np

    make_kernel = importlib.import_module("kbench.kernels").make_kernel
    X = np.eye(2)
    names = [
        name
        for name, parameter in inspect.signature(make_kernel).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    ones = dict.fromkeys(names, 1)
    try:
        reference = make_kernel(kernel, X, **ones)
        return frozenset(n for n in names if make_kernel(kernel, X, **ones | {n: 2}) == reference)
    except ValueError:
        return frozenset()
