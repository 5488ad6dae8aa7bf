"""Checks of the objects in a model file before compiled code may read them.

After loading, every object whose class, or a base of it, has a method `check_stored` is checked by
it (`kbench.stored`). The width of the rows to predict is checked at each call (`require_width`).

`scripts/fuzz_models.py` mutates stored models of every method; a class that compiled code reads and
that lacks a check shows there as a crash.
"""

from typing import Any

from sklearn.base import BaseEstimator

from kbench.errors import ModelError, one_line
from kbench.stored import MAX_FEATURES, check_whole


def check_object(made: Any) -> None:
    """Raise a ModelError unless compiled code may read the decoded object `made`."""
    if _is_unfitted_part(made):
        return
    try:
        if isinstance(made, BaseEstimator):
            _check_estimator(made)
        for cls in type(made).__mro__:
            # Ask the class, because a file may state an attribute of the same name.
            check = vars(cls).get("check_stored")
            if check is not None:
                check(made)
    except AttributeError as error:
        name = type(made).__qualname__
        raise ModelError(
            f"the stored {name} lacks {error.name!r}: another version of kbench wrote it, or it "
            "was changed; fit the model again"
        ) from None
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        name = type(made).__qualname__
        raise ModelError(f"the stored {name} is inconsistent: {one_line(error, 200)}") from None


def _is_unfitted_part(made: Any) -> bool:
    """Whether `made` is an estimator with parameters only, such as the part that a model clones.

    It has no arrays, so compiled code has nothing to read.
    """
    if not hasattr(type(made), "get_params"):
        return False
    return not any(name.startswith("_") or name.endswith("_") for name in vars(made))


def _check_estimator(model: Any) -> None:
    # Our predictions compare the width of their rows with it; scikit-learn's calibrators, which
    # predict from scores, have none.
    ours = hasattr(type(model), "predict") and not type(model).__module__.startswith("sklearn.")
    if hasattr(model, "n_features_in_") or ours:
        check_whole(model, "n_features_in_", 1, MAX_FEATURES)
    if hasattr(model, "_parameter_constraints"):
        model._validate_params()
