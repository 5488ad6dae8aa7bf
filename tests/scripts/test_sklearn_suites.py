"""scikit-learn's own tests pass with our classes in the place of its own, but for listed ones."""

import inspect
import runpy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from harness import python

SCRIPT = Path(__file__).parents[2] / "scripts" / "sklearn_suites.py"
suites = SimpleNamespace(**runpy.run_path(str(SCRIPT)))


def test_suites_of_scikit_learn_pass_with_our_classes():
    done = python(SCRIPT)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("theirs", "ours", "differ"),
    [
        ("score 0.912", "score 0.913", set()),
        ("score 0.912", "score 0.915", {(0, 1)}),
        ("a\n1.00000", "a\n1.00050", set()),
        ("a\n1.00000", "a\n1.00500", {(1, 0)}),
        ("done in 0.001 seconds", "done in 3.4 seconds", set()),
        ("array([1, 2])", "array([1, 3])", {(0, 1)}),
        ("one line", "one\nline", {(-1, -1)}),
        ("SVC", "SVR", {(0, 0)}),
    ],
)
def test_printed_words_differ_where_the_solvers_tolerance_does_not_explain_it(theirs, ours, differ):
    assert suites.words_that_differ(theirs, ours) == differ


def test_what_differs_between_two_runs_of_theirs_is_not_ours():
    first, again, ours = (suites.Outcome(text, [], 1.0, "") for text in ("a 1", "a 2", "a 3"))
    assert suites.compared(first, again, ours) == ""
    assert suites.compared(first, first, ours).startswith("1 words")
    assert suites.compared(first, again, ours._replace(error="ValueError: no")) == "ValueError: no"
    blank, drawn = (np.full((10, 10, 3), colour, np.uint8) for colour in (255, 0))
    figures = [suites.Outcome("", [figure], 1.0, "") for figure in (blank, drawn)]
    assert suites.compared(figures[0], figures[0], figures[1]) == "figure 1: 100.0% of the pixels"
    assert suites.compared(figures[0], figures[1], figures[1]) == ""


def test_stand_ins_have_the_names_and_the_parameters_of_scikit_learns_classes():
    for place, cls in suites.stand_ins().items():
        module, _, name = place.rpartition(".")
        theirs = inspect.signature(getattr(import_module(module), name)).parameters
        own = inspect.signature(cls).parameters
        assert cls.__name__ == name
        # Ours have no processes, and kernels with parameters of their own are functions.
        assert set(theirs) - set(own) <= {"n_jobs", "kernel_params"}
        differ = {key for key in set(theirs) & set(own) if theirs[key].default != own[key].default}
        assert differ <= {"cache_size", "probability"}
