"""Which class stands behind a method's name, and whether its parameters are ones it takes.

A method is an entry point of group `kbench.methods`, or `package.module.Class` written in its
YAML file, where `estimator` may be a mapping from task to name. Of that file the keys `name`,
`estimator` and `meta` are kbench's; all others are the keyword parameters of the class. So is
`calibration`, which any classifier takes: `sigmoid` or `isotonic` makes probabilities of its
decision values.
"""

import hashlib
import importlib
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kbench.config import nearest
from kbench.errors import ConfigError, UnavailableError

RESERVED = ("name", "estimator", "meta")
CALIBRATIONS = ("sigmoid", "isotonic")
_SHARED = ("kernels", "solvers", "approximation", "clustering", "prediction")


@cache
def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group="kbench.methods")}


def target(estimator: str) -> str:
    """`module:Class` behind an entry point's name or a dotted path; imports nothing.

    Raises
    ------
    ConfigError
        Neither an entry point nor a dotted path to something that can be found.
    """
    known = _entry_points()
    if estimator in known:
        return known[estimator]
    module, _, name = estimator.rpartition(".")
    if not module:
        raise ConfigError(
            f"estimator {estimator!r} is no entry point of group kbench.methods"
            f"{nearest(estimator, known)}, nor package.module.Class"
        )
    return f"{module}:{name}"


def load(path: str) -> Any:
    """The class at `module:Class`.

    Raises
    ------
    UnavailableError
        A package on the way is not installed.
    ConfigError
        The module has no such class.
    """
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"{module}.{name} needs the package {error.name!r}, which is not installed"
        ) from None
    try:
        return getattr(found, name)
    except AttributeError:
        classes = [n for n, v in vars(found).items() if inspect.isclass(v)]
        raise ConfigError(
            f"module {module} has no class {name!r}{nearest(name, classes)}"
        ) from None


def build(path: str, params: Mapping[str, Any], seed: int | None) -> Any:
    """An unfitted estimator; `random_state` is the run's seed where the class has one.

    With `calibration` among the parameters it is a `CalibratedClassifierCV` of five folds around
    one machine that is fitted to all rows: six fits, and predictions at the price of one.

    Raises
    ------
    ConfigError
        Names the parameter that the class does not take, or whose value it refuses.
    """
    cls = load(path)
    try:
        accepted = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        raise ConfigError(f"{path} is not a class that can be built") from None
    if not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        for name in params:
            if name not in accepted and name != "calibration":
                raise ConfigError(
                    f"{cls.__name__} has no parameter {name!r}{nearest(name, accepted)}"
                )
    arguments = dict(params)
    calibration = arguments.pop("calibration", None)
    if "random_state" in accepted:
        arguments.setdefault("random_state", seed)
    try:
        estimator = cls(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{cls.__name__}: {' '.join(str(error).split())}") from None
    for needed in ("fit", "predict"):
        if not callable(getattr(estimator, needed, None)):
            raise ConfigError(f"{cls.__name__} has no method {needed}(), so it is no estimator")
    if hasattr(estimator, "_parameter_constraints"):
        try:
            estimator._validate_params()
        except ValueError as error:
            raise ConfigError(f"method: {' '.join(str(error).split())}") from None
    return estimator if calibration is None else _calibrated(estimator, calibration)


def _calibrated(estimator: Any, calibration: Any) -> Any:
    from sklearn.base import is_classifier
    from sklearn.calibration import CalibratedClassifierCV

    if calibration not in CALIBRATIONS:
        raise ConfigError(
            f"method.calibration is {calibration!r}, should be one of {', '.join(CALIBRATIONS)}"
        )
    if not is_classifier(estimator):
        raise ConfigError(
            f"method.calibration is {calibration}, but {type(estimator).__name__} is no classifier"
        )
    return CalibratedClassifierCV(estimator, method=calibration, cv=5, ensemble=False)


def check(runs: list[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """One line for each (path, params) that cannot be built; the extra's absence is no mistake."""
    wrong: dict[str, None] = {}
    for path, params in runs:
        try:
            build(path, params, 0)
        except UnavailableError:
            continue
        except ConfigError as error:
            wrong[str(error)] = None
        except Exception as error:
            wrong[f"{path}: {type(error).__name__}: {' '.join(str(error).split())}"] = None
    return list(wrong)


def source_sha256(path: str) -> str | None:
    """Hash of the source that a method runs: its module, and kbench's engines for a method of ours.

    Lets `rerun=changed` see that a method was edited; None where the source is not at hand.
    """
    module = path.partition(":")[0]
    return _module_sha256(module)


@cache
def _module_sha256(module: str) -> str | None:
    package = module.partition(".")[0]
    if package == "kbench":
        root = Path(__file__).resolve().parents[1]
        files = [f for folder in (*_SHARED, "methods") for f in (root / folder).rglob("*.py")]
        return _files_sha256(files)
    if package not in sys.modules and package in ("sklearn", "sklearnex"):
        from importlib.metadata import PackageNotFoundError, version

        try:
            release = version("scikit-learn" if package == "sklearn" else "scikit-learn-intelex")
        except PackageNotFoundError:
            return None
        return hashlib.sha256(f"{package} {release}".encode()).hexdigest()
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        return None
    return _files_sha256([Path(spec.origin)])


def _files_sha256(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
