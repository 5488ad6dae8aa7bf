"""The workflows and the checklist of a release name what exists, and versions agree."""

import re
from pathlib import Path

import pytest
import yaml

import kbench

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.M))
PYPROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_make_targets_that_exist_and_needs_no_secret(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets" not in text
    assert "://" not in text
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if target := re.match(r"make (\w+)", step.get("run", "")):
                assert target[1] in TARGETS, step


def test_tests_and_wheels_run_on_every_python_that_the_package_names():
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    for name, job in (("tests", "test"), ("wheels", "try")):
        workflow = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
        assert workflow["jobs"][job]["strategy"]["matrix"]["python"] == named


def test_make_targets_of_the_documentation_exist():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"(?:^ +|`)make ([a-z]+)", page.read_text(), re.M):
            assert target in TARGETS, f"{page.name}: make {target}"


def test_the_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert re.search(r'^version = "(.+)"$', PYPROJECT, re.M)[1] == kbench.__version__
    assert citation["version"] == kbench.__version__
