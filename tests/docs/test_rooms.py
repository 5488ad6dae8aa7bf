"""Sizes of the rooms: modules that can be read at a sitting, folders that can be looked over."""

from collections import Counter
from pathlib import Path

import kbench

ROOT = Path(kbench.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
MAX_LINES, MAX_MODULES = 500, 20


def test_no_module_has_more_lines_than_a_reader():
    long = {
        str(path.relative_to(ROOT)): n
        for path in MODULES
        if (n := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long


def test_no_folder_has_more_modules_than_a_screen():
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert len(counts) > 10
    assert not {str(folder): n for folder, n in counts.items() if n > MAX_MODULES}
