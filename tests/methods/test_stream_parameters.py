"""Parameters that change between two chunks of a stream: each is obeyed, or refused by its name."""

import warnings

import numpy as np
import pytest
from all_machines import build, machines
from sklearn.base import clone, is_classifier
from sklearn.utils._param_validation import StrOptions, generate_valid_param, make_constraint

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, "a", "b")
MACHINES = [m for m in machines() if hasattr(build(m), "partial_fit")]


def started(machine):
    model = build(machine)
    return model.set_params(average=0) if "average" in machine.names else model


def others(model, name):
    """Other valid values of a parameter."""
    now = model.get_params()[name]
    if name == "class_weight":
        yield {"a": 5.0, "b": 1.0}
        return
    owner, _, key = name.rpartition("__")
    part = model.get_params()[owner] if owner else model
    for constraint in type(part)._parameter_constraints.get(key, []):
        if isinstance(constraint, StrOptions):
            yield from sorted(constraint.options - {now})
            continue
        try:
            value = generate_valid_param(make_constraint(constraint))
        except (ValueError, NotImplementedError):
            continue
        if isinstance(value, np.random.RandomState) or callable(value) or value == now:
            continue
        yield value
    if isinstance(now, float | int) and now:
        yield type(now)(2 * now)


def values(model, *chunks, change=None):
    """Decision values after chunks, or the message; `change` is made before the last chunk."""
    classes = {"classes": ["a", "b"]} if is_classifier(model) else {}
    y = LABELS if is_classifier(model) else X[:, 0]
    for k, rows in enumerate(chunks):
        if k == len(chunks) - 1:
            model.set_params(**(change or {}))
        model.partial_fit(X[rows], y[rows], **classes)
    return getattr(model, "decision_function", model.predict)(X)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_parameter_that_changes_between_chunks_is_obeyed_or_refused(machine):
    chunks = slice(0, 30), slice(30, 60)
    model = started(machine)
    with warnings.catch_warnings(action="ignore"):
        same = values(clone(model), *chunks)
        for name in model.get_params():
            for value in others(model, name):
                change = {name: value}
                try:
                    from_the_start = values(clone(model).set_params(**change), *chunks)
                except (ValueError, AttributeError):  # not for streams, or not with the others
                    continue
                try:
                    changed, refusal = values(clone(model), *chunks, change=change), None
                except ValueError as error:
                    changed, refusal = None, str(error)
                assert refusal is None or refusal.startswith(f"{name} was "), (change, refusal)
                matters = not np.array_equal(from_the_start, same)
                assert refusal or not matters or not np.array_equal(changed, same), change


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_a_stream_goes_on_after_a_fit_with_its_parameters_only(machine):
    model = started(machine)
    y = LABELS if is_classifier(model) else X[:, 0]
    with warnings.catch_warnings(action="ignore"):
        for seed in (0, 1):
            model.set_params(random_state=seed).fit(X, y)
        model.set_params(random_state=0)
        if model._is_first_chunk():  # the fit keeps nothing from which a stream could go on
            values(model, slice(0, 60))
            return
        with pytest.raises(ValueError, match="random_state was 1 for the rows before, and is 0"):
            values(model, slice(0, 60))
