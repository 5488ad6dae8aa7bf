"""The command of a row, and `kbench debug`, whatever characters paths and parameters hold."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from harness import kbench
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kbench.commands.arguments import parse_words
from kbench.commands.debugging import overrides_of
from kbench.config import composer, hydra_value
from kbench.run.results.folder import ResultsFolder

KBENCH = Path(sys.executable).with_name("kbench")
SPECIAL = "é\\'\"#%=,[]{}()$:;~&*? \t\n|<>!`@^+-.0a"
TEXTS = st.text(st.sampled_from(SPECIAL) | st.characters(exclude_categories=["Cs", "Cc"]))


@pytest.fixture(scope="module")
def hydra():
    with composer() as made:
        yield made


@settings(max_examples=300)
@given(text=TEXTS)
@example(text="a\\${x} \\\\${y")
def test_a_text_comes_back_from_the_command_line(hydra, text):
    (word,) = shlex.split(shlex.join([f"method.name={hydra_value(text)}"]))
    assert hydra.value("method.name", word.partition("=")[2]) == text


@settings(max_examples=300)
@given(text=TEXTS)
@example(text="a\\${x} \\\\${y")
def test_commands_that_hydra_does_not_parse_take_the_same_words(text):
    word = f"results_dir={hydra_value(text)}"
    assert parse_words([word], ["results_dir"]) == ([], {"results_dir": text})


@settings(max_examples=30)
@given(path=TEXTS.filter(bool), value=TEXTS)
@example(path="a${x}", value="")
@example(path="\\${x} \\\\${y", value="")
@example(path="${a}\\", value="")
@example(path="$${'}", value="")
def test_debug_composes_what_the_row_says(hydra, path, value):
    words = ["kbench", "method=svc", "dataset=file", f"dataset.path={hydra_value(path)}"]
    columns = f"++dataset.source.columns.target={hydra_value(path)}"
    row = {
        "key": "0" * 32,
        "method": "svc",
        "dataset": "file",
        "seed": 0,
        "params": '{"C": 1}',
        "command": shlex.join([*words, columns, "dataset.task=binary"]),
    }
    overrides, ignored = overrides_of(row)
    config = hydra.compose(overrides)
    assert config["dataset"]["path"] == path
    assert config["method"]["C"] == 1
    assert config["dataset"]["source"]["columns"]["target"] == path
    assert ignored == []


@pytest.mark.parametrize("name", ['it\'s "#1" 50%, a=b [x] é a\\b', "two\nlines ${x}"])
def test_the_command_of_a_row_and_debug_run_again(tmp_path, name):
    lines = [f"{i % 2} 1:{i} 2:{i % 7}" for i in range(1, 41)]
    (tmp_path / f"{name}.libsvm").write_text("\n".join(lines) + "\n")
    path = f"dataset.path={hydra_value(f'{name}.libsvm')}"

    kbench(tmp_path, "method=knn", path, "results_dir=r", check=0)
    (row,) = ResultsFolder(tmp_path / "r").read(reference=False).to_dict("records")
    command = f"{row['command'].replace('kbench', str(KBENCH), 1)} results_dir=again"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    again = ResultsFolder(tmp_path / "again").read(reference=False)
    assert list(again["key"]) == [row["key"]]
    kbench(tmp_path, "debug", row["key"], "results_dir=r", check=0)
