"""Every example in a docstring of the package prints what stands below it."""

import doctest
import importlib
from pathlib import Path

import pytest

import kbench

PACKAGE = Path(kbench.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(module.removesuffix(".__init__")))
    assert outcome.attempted > 0
    assert outcome.failed == 0
