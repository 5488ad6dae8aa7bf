"""Which classes a model file may build, and which methods it may name.

Allowed are the classes of kbench's numerical packages, the classes of installed packages that add
methods by an entry point, and scikit-learn's calibration around these classes. No other module is
imported, so that a file of unknown origin can only choose among numerical code.
"""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Any

from kbench.errors import ModelError

PACKAGES = ("kernels", "solvers", "approximation", "clustering", "prediction", "metric", "methods")
_CALIBRATION = frozenset(
    f"sklearn.calibration:{name}"
    for name in ("CalibratedClassifierCV", "_CalibratedClassifier", "_SigmoidCalibration")
)

# Names of the bound methods that models may store: `assign` sends rows to clusters.
_METHODS = frozenset({"assign"})


@cache
def _current_module(module: str, name: str) -> str:
    """The module that now holds the class that an older release had at `module:name`.

    A class may move within its package: to the module that has the old file name, apart from a
    leading underscore, or to the only module that defines a class of that name. No package has two
    modules of one name (`tests/prediction/test_model_file.py`).
    """
    package, _, submodule = module.removeprefix("kbench.").partition(".")
    root = Path(__file__).parents[1]
    old_path = root.joinpath(package, *submodule.split(".")).with_suffix(".py")
    if not module.startswith("kbench.") or (old_path.exists() and _defines(old_path, name)):
        return module
    modules = [path for path in (root / package).rglob("*.py") if _defines(path, name)]
    same_name = [path for path in modules if path.stem == old_path.stem.lstrip("_")]
    if len(same_name or modules) != 1:
        return module
    (new_path,) = same_name or modules
    return ".".join(["kbench", *new_path.relative_to(root).with_suffix("").parts])


def _defines(path: Path, name: str) -> bool:
    return re.search(rf"^class {re.escape(name)}\b", path.read_text("utf-8"), re.M) is not None


@cache
def _packages() -> frozenset[str]:
    """Packages whose classes may be built: kbench's numerical packages and installed plug-ins."""
    from importlib.metadata import entry_points

    plugins = {
        point.value.partition(":")[0].partition(".")[0]
        for point in entry_points(group="kbench.methods")
    }
    return frozenset({f"kbench.{name}" for name in PACKAGES} | (plugins - {"kbench", "sklearn"}))


def may_build(class_name: str) -> bool:
    """Whether the format rebuilds the class at `module:Class` attribute by attribute."""
    module, _, name = class_name.partition(":")
    is_known = any(module == package or module.startswith(f"{package}.") for package in _packages())
    return class_name in _CALIBRATION or (is_known and name.isidentifier())


def class_at(class_name: Any) -> type:
    """The class at `module:Class`; a ModelError if it may not be built or does not exist."""
    if not isinstance(class_name, str) or not may_build(class_name):
        raise ModelError(f"names the class {str(class_name)[:80]!r}, which no model may hold")
    module, _, name = class_name.partition(":")
    module = _current_module(module, name)
    try:
        cls = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ModelError(f"needs {module}, which cannot be imported here ({error})") from None
    if not isinstance(cls, type) or (cls.__module__, cls.__qualname__) != (module, name):
        raise ModelError(f"names the class {class_name!r}, which this version does not have")
    return cls


def is_method(owner: Any, name: str) -> bool:
    """Whether a model may hold the bound method `name` of `owner`, a class that may be built."""
    cls = type(owner)
    if name not in _METHODS or not may_build(f"{cls.__module__}:{cls.__qualname__}"):
        return False
    return callable(getattr(cls, name, None)) and name not in getattr(owner, "__dict__", {})
