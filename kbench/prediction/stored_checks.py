"""Checks of the objects in a model file before compiled code may read them.

After loading, the method `check_stored` of an object's class and of its bases is called
(`kbench.stored`). Each prediction checks the width of its rows (`require_width`).

`scripts/fuzz_models.py` mutates stored models of every method; it crashes if a class that compiled
code reads lacks a check.
"""

from typing import Any

from sklearn.base import BaseEstimator

from kbench.errors import ModelError, quoted
from kbench.stored import MAX_FEATURES, check_whole


def check_object(instance: Any) -> None:
    """Raise a ModelError unless compiled code may read the decoded object."""
    if _is_unfitted_part(instance):
        return
    try:
        if isinstance(instance, BaseEstimator):
            _check_estimator(instance)
        for cls in type(instance).__mro__:
            # Ask the class, because a file may state an attribute of the same name.
            check = vars(cls).get("check_stored")
            if check is not None:
                check(instance)
    except AttributeError as error:
        name = type(instance).__qualname__
        raise ModelError(
            f"the stored {name} lacks {error.name!r}: another version of kbench wrote it, or it "
            "was changed; fit the model again"
        ) from None
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        name = type(instance).__qualname__
        raise ModelError(f"the stored {name} is inconsistent: {quoted(error)}") from None


def _is_unfitted_part(instance: Any) -> bool:
    """Whether an object is an estimator with parameters only, such as the part that a model clones.

    Such an estimator has no arrays, so compiled code has nothing to read.
    """
    if not hasattr(type(instance), "get_params"):
        return False
    return not any(name.startswith("_") or name.endswith("_") for name in vars(instance))


def _check_estimator(model: Any) -> None:
    # kbench's predictions compare the width of their rows with `n_features_in_`; scikit-learn's
    # calibrators predict from scores and do not have it.
    is_ours = hasattr(type(model), "predict") and not type(model).__module__.startswith("sklearn.")
    if hasattr(model, "n_features_in_") or is_ours:
        check_whole(model, "n_features_in_", 1, MAX_FEATURES)
    if hasattr(model, "_parameter_constraints"):
        model._validate_params()
