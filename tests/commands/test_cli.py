"""The command line as a user meets it: exit codes, one-line errors, light start-up."""

import gzip
import json
import pathlib
import re
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from harness import kbench, python, run_here

from kbench.cli import main
from kbench.commands import COMMANDS
from kbench.commands.arguments import parse_names
from kbench.commands.running import _failures
from kbench.config import shipped_root


def test_help_names_every_command_and_each_has_help(tmp_path):
    said = run_here(tmp_path, "--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in said
        own = run_here(tmp_path, command, "--help").stdout
        assert f"kbench {command}" in own
        assert run_here(tmp_path, "help", command).stdout == own


def test_help_is_what_any_run_answers_that_asks_for_it(tmp_path):
    said = run_here(tmp_path, "--help")
    for words in ([], ["help"], ["-m", "--help"], ["method=svc", "dataset=digits", "-h"]):
        assert run_here(tmp_path, *words).stdout == said.stdout
    assert said.returncode == 0
    assert "kbench plan" in run_here(tmp_path, "-m", "plan", "--help").stdout


# What is imported -> what stays out: of a runner that which only its workers need.
LIGHT = {
    "import kbench.commands.running, kbench.run.execution.runner": {"numba", "scipy"},
    "import kbench.report, kbench.run.results.folder": {"scipy"},
    "import kbench.data": {"numba", "scipy", "tqdm", "hydra"},
    "import kbench.run.results.environment as e; e.describe()": {"numpy"},
}


@pytest.mark.parametrize("code", LIGHT)
def test_importing_is_light(code):
    done = python("-c", f"{code}; import sys; print(*sys.modules)", check=True)
    assert not (LIGHT[code] | {"sklearn", "pandas", "pyarrow"}) & set(done.stdout.split())


@pytest.mark.parametrize("words", [["--help"], ["list"], ["data", "where", "ijcnn1"]])
def test_looking_around_imports_nothing_heavy(tmp_path, words):
    script = (
        "import sys; from kbench.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'sklearn', 'numba', 'pandas', 'pyarrow', 'scipy', 'hydra'} & set(sys.modules); "
        "print('heavy:', *sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = python("-c", script, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "heavy:"


def test_list_says_what_there_is(tmp_path):
    said = run_here(tmp_path, "list").stdout
    for word in ("svc", "dcsvm_early", "digits", "covtype", "demo"):
        assert f"\n  {word} " in said
    (ijcnn1,) = (line for line in said.splitlines() if line.startswith("  ijcnn1 "))
    assert "absent" in ijcnn1
    (digits,) = (line for line in said.splitlines() if line.startswith("  digits "))
    assert "present" in digits


def test_a_users_file_is_run_and_debugged(tmp_path):
    lines = [f"{1 if i % 3 else -1} 1:{i % 7} 3:{(i * i) % 5}" for i in range(200)]
    (tmp_path / "my data.txt").write_text("\n".join(lines) + "\n")
    words = ["method=svc", "dataset=file", "dataset.path=my data.txt", "dataset.task=binary"]
    done = run_here(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    said = run_here(tmp_path, "report", "format=csv").stdout
    assert "svc" in said
    row = pd.read_parquet(tmp_path / "results").iloc[0]
    assert (row["n_train"] + row["n_test"], row["n_features"]) == (200, 3)
    again = run_here(tmp_path, "debug", row["key"][:10])
    assert again.returncode == 0, again.stderr
    assert "this run may differ" not in again.stdout
    assert f"accuracy           {row['accuracy']}" in again.stdout


def test_debug_shows_the_traceback(config_file, tmp_path):
    config_file("method/bad.yaml", "name: bad\nestimator: sklearn.svm.SVC\nkernel: precomputed\n")
    run_here(tmp_path, "method=bad", check=1)
    row = pd.read_parquet(tmp_path / "results").iloc[0]
    assert row["status"] == "error"
    assert "square" in row["message"]
    done = run_here(tmp_path, "debug", row["key"][:10], check=1)
    assert "Traceback" in done.stderr
    assert "square" in done.stderr


def test_cfg_shows_the_composed_config_and_runs_nothing(tmp_path):
    done = run_here(tmp_path, "method=svc", "--cfg", "job", "limits.wall_s=7")
    assert "wall_s: 7" in done.stdout
    assert "estimator: sklearn.svm.SVC" in done.stdout
    assert not (tmp_path / "results").exists()


def test_a_ranking_has_the_sizes_that_the_command_line_names(tmp_path, monkeypatch):
    got = {}
    monkeypatch.setattr("kbench.report.make_ranking", lambda folder, **keys: got.update(keys) or "")
    words = ["task=binary", "n=20000", "d=30", "reference=false", f"results_dir={tmp_path}"]
    assert main(["report", "ranking", *words]) == 0
    sizes = {"task": "binary", "n": 20000, "d": 30, "classes": None, "reference": False}
    assert {key: got[key] for key in sizes} == sizes


def test_plan_runs_nothing(tmp_path):
    words = ["-m", "method=dummy,svc", "dataset=digits,ijcnn1", "seed=0,1"]
    done = run_here(tmp_path, "plan", *words, check=0)
    assert "4 runs: 4 to run, 0 done" in done.stdout
    assert "absent data: ijcnn1" in done.stdout
    flag_first = run_here(tmp_path, "-m", "plan", *words[1:])
    assert flag_first.stdout == done.stdout
    assert not (tmp_path / "results").exists()
    (shown,) = run_here(tmp_path, "plan", "method=svc", "show=runs").stdout.splitlines()
    assert shown.startswith("kbench method=svc dataset=digits tuned=none ")


def test_data_prepare_and_where(tmp_path):
    done = run_here(tmp_path, "data", "prepare", "digits", check=0)
    assert "digits: ok" in done.stdout
    where = run_here(tmp_path, "data", "where", "ijcnn1").stdout
    assert "absent" in where
    assert "looked for" in where
    missing = run_here(tmp_path, "data", "check", "ijcnn1")
    assert missing.returncode == 1


def test_data_prepare_keeps_to_a_limit_on_memory(config_file, tmp_path):
    """0.1 MB of gz unpack to four million rows, which take 60 MiB."""
    config_file(
        "dataset/bomb.yaml",
        "name: bomb\nabout: x\ntask: regression\n"
        "source: {kind: files, format: csv, files: {all: {names: [bomb.csv]}}}\n"
        "split: {kind: first, n_train: 1}\n",
    )
    (tmp_path / "datasets").mkdir()
    with gzip.open(tmp_path / "datasets" / "bomb.csv.gz", "wb", 1) as out:
        for _ in range(40):
            out.write(b"1,2\n" * 100_000)
    done = kbench(tmp_path, "data", "prepare", "bomb", "limits.memory_mb=30")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "bomb" in done.stderr
    assert "limits.memory_mb" in done.stderr
    assert not list((tmp_path / "datasets").rglob("*.npy"))
    wrong = kbench(tmp_path, "data", "prepare", "bomb", "limits.memory_mb=0")
    assert wrong.returncode == 2
    assert "limits.memory_mb is 0.0, should be above 0" in wrong.stderr


def test_data_check_looks_at_variants_with_files_of_their_own(config_file, tmp_path):
    config_file(
        "dataset/halves.yaml",
        "name: halves\nabout: x\ntask: regression\n"
        "source: {kind: files, format: csv, files: {all: {names: [whole.csv]}}}\n"
        "split: {kind: first, n_train: 1}\nfacts: {n: 4}\n"
        "variants:\n"
        "  raw: {scale: none}\n"
        "  half: &half {source: {files: {all: {names: [half.csv]}}}, facts: {n: 2}}\n"
        "  lower: *half\n",
    )
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "half.csv").write_text("1,2\n3,4\n")
    done = run_here(tmp_path, "data", "check", "halves")
    assert "absent: halves: whole.csv is not there" in done.stdout
    assert "halves (half): ok, 1 + 1 rows, 1 features" in done.stdout
    listed = run_here(tmp_path, "list", "datasets").stdout
    assert "present (half)" in listed.split("halves")[1].partition("\n")[0]
    where = run_here(tmp_path, "data", "where", "halves").stdout
    assert "  whole.csv: absent\n" in where
    assert "  variant half, lower\n    half.csv: datasets/half.csv\n" in where
    (tmp_path / "datasets" / "half.csv").write_text("1,2\n3\n")
    done = run_here(tmp_path, "data", "check", "halves")
    assert done.returncode == 1
    assert "half.csv:2: 1 field between delimiters ',', should be 2" in done.stderr


def test_doctor_finds_the_limits_working(tmp_path):
    done = kbench(tmp_path, "doctor")
    assert done.returncode == 0, done.stdout
    for limit in ("wall_s", "cpu_s", "memory_mb"):
        assert f"  {limit}" in done.stdout
    assert "DOES NOT WORK" not in done.stdout


def test_doctor_compiles_the_methods_that_are_named(tmp_path):
    done = kbench(tmp_path, "doctor", "--compile", "ridge", "norma")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  norma +binary +compiled [\d.]+ s$", done.stdout, re.M)
    assert "ridge" not in done.stdout  # a class of scikit-learn
    assert re.search(r"^\d problems in \d+ s$", done.stdout, re.M)
    done = run_here(tmp_path, "doctor", "--compile", "norme")
    assert done.returncode == 2
    assert "nearest: norma" in done.stderr


def test_doctor_names_a_cache_folder_that_cannot_be_written(tmp_path):
    no_folder = tmp_path / "file"
    no_folder.touch()
    env = {"NUMBA_CACHE_DIR": str(no_folder / "cache")}
    done = kbench(tmp_path, "doctor", "--compile", env=env)
    assert done.returncode == 1
    assert f"NOT WRITABLE: {no_folder};" in done.stdout


def test_compiled_code_is_in_the_folder_that_doctor_names():
    from kbench.commands.compiling import cache_folder
    from kbench.solvers.box_dual.directions import are_at_ends

    assert pathlib.Path(are_at_ends.stats.cache_path).is_relative_to(cache_folder())


def test_the_example_plugin_is_a_method_like_any_other(tmp_path, installed_plugin):
    env = {"PYTHONPATH": str(installed_plugin)}
    assert "parzen" in kbench(tmp_path, "list", "methods", env=env).stdout
    done = kbench(tmp_path, "method=parzen", "method.gamma=0.5", "keep_model=true", env=env)
    assert done.returncode == 0, done.stderr
    row = pd.read_parquet(tmp_path / "results").iloc[0]
    assert row["accuracy"] > 0.9
    assert json.loads(row["params"]) == {"gamma": 0.5}
    assert "group" in dict(row["phases"])
    words = [f"model={row['key']}", "out=p.npy", "dataset=digits"]
    done = kbench(tmp_path, "predict", *words, env=env)
    assert f"accuracy           {row['accuracy']:.6g}" in done.stdout
    assert "kbench_parzen" in kbench(tmp_path, "predict", *words).stderr
    wrong = kbench(tmp_path, "method=parzen", "method.gama=0.5", env=env)
    assert (wrong.returncode, "nearest: gamma" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_list_is_wrapped_and_loses_no_word(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["list", "methods"]) == 0
    text = capsys.readouterr().out
    if width >= 70:  # the columns themselves take 64
        assert max(map(len, text.splitlines())) <= width
    about = yaml.safe_load((shipped_root() / "method" / "aesvm.yaml").read_text())["meta"]["about"]
    assert about in " ".join(text.split())


def test_names_are_what_commas_separate():
    assert [parse_names(value) for value in ("a, ,b", ",", None)] == [["a", "b"], None, None]


def test_failures_alike_are_one_line_with_their_number():
    runs = [SimpleNamespace(label=f"svc {k}", key="0123456789") for k in range(3)]
    told = ["took 1 s", "took 2 s", "is wrong"]
    failed = [(run, "error", message) for run, message in zip(runs, told, strict=True)]
    assert _failures(SimpleNamespace(failed=failed)) == [
        "2 runs, error: took 1 s (numbers differ) [kbench debug 01234567]: svc 0, svc 1",
        "error: is wrong [kbench debug 01234567]: svc 2",
    ]
