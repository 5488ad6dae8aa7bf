"""The second tier holds the tests that `tiers.toml` names; each kind has a sample in the first."""

import re
import tomllib
from pathlib import Path

import pytest

from kbench import methods

HERE = Path(__file__).parent
ENTRIES = tomllib.loads((HERE / "tiers.toml").read_text())["soak"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["tests"][0])
def test_an_entry_names_tests_that_exist_and_its_reason(entry):
    texts = []
    for name in entry["tests"]:
        file, _, function = name.partition("::")
        script = HERE.parent / file.replace("/test_", "/")  # its problems may be parameters
        texts += [(HERE / file).read_text()]
        start, case, _ = function.partition("[")
        end = r"\(" if case else ""  # a case belongs to one function
        assert re.search(rf"^def {re.escape(start)}{end}", texts[-1], re.MULTILINE)
        texts += [script.read_text()] if script.is_file() else []
    for case in entry.get("keep", ()):
        known = any(all(part in text for part in case.split("-")) for text in texts)
        assert known or case in STEMS
    for case in {*entry.get("of", ())} - {*methods.__all__}:
        assert any(all(part in text for part in case.split("-")) for text in texts)
    assert entry["reason"].endswith(".")


# Names of files, and of classes, that are parameters of a test.
STEMS = {path.name for path in (HERE.parent / "docs").glob("*.md")}
STEMS |= {path.stem for path in (HERE.parent / "configs").glob("[em]*/*.yaml")}
STEMS |= {*methods.__all__}
