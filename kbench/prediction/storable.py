"""Which classes a model file may build, and which methods it may name.

Those of kbench's engines and methods, of packages that are installed and add methods by an entry
point, and scikit-learn's calibration around any of them. No other module is imported, so that a
file from a stranger has nothing to choose from but code that computes.
"""

import importlib
from functools import cache
from typing import Any

from kbench.errors import ModelError

ENGINES = ("kernels", "solvers", "approximation", "clustering", "prediction", "methods")
_CALIBRATION = frozenset(
    f"sklearn.calibration:{name}"
    for name in ("CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration")
)


@cache
def _packages() -> frozenset[str]:
    """Packages whose classes may be built: kbench's engines, and plug-ins that are installed."""
    from importlib.metadata import entry_points

    plugins = {
        point.value.partition(":")[0].partition(".")[0]
        for point in entry_points(group="kbench.methods")
    }
    return frozenset({f"kbench.{name}" for name in ENGINES} | (plugins - {"kbench", "sklearn"}))


def may_build(path: str) -> bool:
    """Whether the class at `module:Class` is one that the format rebuilds by itself."""
    module, _, name = path.partition(":")
    inside = any(module == package or module.startswith(f"{package}.") for package in _packages())
    return path in _CALIBRATION or (inside and name.isidentifier())


def class_at(path: Any) -> type:
    """The class at `module:Class`; a ModelError where it may not be built or is not there."""
    if not isinstance(path, str) or not may_build(path):
        raise ModelError(f"names the class {str(path)[:80]!r}, which no model may hold")
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ModelError(f"needs {module}, which cannot be imported here ({error})") from None
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, name):
        raise ModelError(f"names the class {path!r}, which this version does not have")
    return found


def is_method(owner: Any, name: str) -> bool:
    """Whether `name` is a public function of the class of `owner`, a class that may be built."""
    cls = type(owner)
    if name.startswith("_") or not may_build(f"{cls.__module__}:{cls.__qualname__}"):
        return False
    return callable(getattr(cls, name, None)) and name not in getattr(owner, "__dict__", {})
