"""Every script of scripts/ runs to its end, on generated rows and with small sizes.

A script that needs a data set finds one of its name in the working directory's configs/, as a user
could put it there. Long lists of sizes are constants of the scripts, which are shortened here. What
the scripts print is not judged: their figures belong to the data and sizes that they state.
"""

import ast
import importlib
import os
import sys
from pathlib import Path
from unittest import mock

import pytest
from harness import python

SCRIPTS = Path(__file__).parents[2] / "scripts"
WITH_MAIN = [p for p in sorted(SCRIPTS.glob("*.py")) if "__main__" in p.read_text("utf-8")]
GENERATED = """
name: {name}
about: generated rows in the place of a file
licence: made by kbench
task: binary
source: {{kind: generator, generator: covtype_like}}
n: 600
n_test: 200
d: {d}
seed: 0
noise: 0.05
use:
  svm: {{C: 1, gamma: 2}}
  dcpred: {{n_leaves: 4, n_landmarks: 8}}
  dcpred_trained: {{n_leaves: 4, n_landmarks: 8, n_features: 4, epochs: 2}}
  dcsvm: {{n_clusters: 4}}
variants:
  hss: {{}}
  dcpred: {{}}
"""
KDDCUP = """
name: kddcup99
about: a few rows in the place of a file
licence: made by kbench
task: binary
source:
  kind: files
  format: csv
  columns: {delimiter: comma, header: false, names: [a, kind, y], target: y, categorical: [kind]}
  files:
    train: {names: [kdd_train]}
    test: {names: [kdd_test]}
variants:
  ten_percent: {}
"""
# script: (arguments, constants that are smaller than the script's own)
RUNS = {
    "everyday": (
        ["run", "rows.csv", "--problems", "20 rows", "20 labels", "--only", "KernelSVC", "exact"],
        {},
    ),
    "bench_everyday": (["--only", "mixture 4", "--C", "1", "--pairs", "1"], {}),
    "ablate_tuned": (["POINTS_PER_RUNG", "--seeds", "1", "--rows", "60", "--sets", "diabetes"], {}),
    "ablate_svm": (
        ["--only", "ijcnn1", "--switch", "groups", "--repeats", "1", "--limit", "5"],
        {},
    ),
    "bench_approximation": (
        [],
        {
            "N": 300,
            "LENGTHS": (64, 128),
            "ELEMENTS": 2**10,
            "RIDGE_ROWS": (200,),
            "RIDGE": ("nystrom",),
        },
    ),
    "bench_approximation_kernels": (
        [],
        {
            "PROBLEMS": (("ijcnn1", 1.0, 16, 3),),
            "PRODUCT_ROWS": 600,
            "SIZES": (600, 1200),
            "RIDGE_ROWS": 900,
        },
    ),
    "bench_chunks": (["file", "1"], {}),
    "bench_cli": ([], {"COMMANDS": ((["list"], 1, 0.5),)}),
    "bench_data_chunks": (["1"], {"DIFFERENT": 300}),
    "bench_dsgd": (
        ["numbers", "virtual", "stream", "growth", "forest"],
        {
            "BATCH": 64,
            "BLOCK": 64,
            "STREAM_ROWS": 1000,
            "CHUNK": 100,
            "SIZES": (300, 600),
            "MINUTE": 0.02,
        },
    ),
    "bench_fast_prediction": (
        ["ijcnn1"],
        {"ROWS": 300, "MILLION": 1000, "ABLATIONS": {"dcpred": {}}},
    ),
    "bench_hss": (
        ["dense", "grid_ijcnn1", "growth", "ridge"],
        {"DENSE_SIZES": (400,), "SIZES": (400, 800), "RIDGE_ROWS": 400, "WARM_UP_ROWS": 600},
    ),
    "bench_kddcup": ([], {}),
    "bench_kernels": ([], {"N": 300, "ROWS": 32}),
    "bench_linear": (["gaussian"], {"N": 300}),
    "bench_metric": (["sets", "ijcnn1", "--seeds", "1"], {}),
    "bench_overhead": (["3"], {}),
    "bench_prediction": (["ijcnn1"], {}),
    "bench_reader": (["kdd.svm"], {}),
    "bench_ridge_descent": (
        [],
        {
            "N": 300,
            "D": 3,
            "SECONDS": 0.05,
            "COVTYPE_SECONDS": 0.05,
            "KERNELS": ("rbf",),
            "BLOCK_ROWS": 60,
            "BLOCKS": (25, 100),
        },
    ),
    "bench_report": (["30"], {}),
    "bench_small": (["--only", "iris", "--repeats", "1"], {}),
    "bench_start": (["--only", "import KernelSVC"], {}),
    "bench_svm": (
        ["--only", "ijcnn1", "--repeats", "1", "--first", "300", "--solvers", "kernel_svc", "svc"],
        {},
    ),
    "bench_threads": (["--longest", "1e-5", "--largest", "0"], {}),
    "bench_tuned": (
        ["ijcnn1:300", "--seeds", "1", "--grid", "grids.json", "--probability"],
        {"GRID": 2},
    ),
    "compare_chunks": (["compared", "9000", "rbf_300"], {}),
    "fuzz_formats": (["3", "0", "csv", "npz", "arff"], {}),
    "fuzz_libsvm": (["500"], {}),
    "mutants": (
        ["--out", "out.json", "--count", "1", "--jobs", "1", "--only", "kbench/cost.py"],
        {},
    ),
}
# These choose the number of threads of the libraries and the cores before they import anything.
OWN_PROCESS = (
    "ablate_svm",
    "bench_chunks",
    "bench_small",
    "bench_svm",
    "bench_threads",  # OpenMP's threads must not be in a process that forks later
    "compare_chunks",
)
# Their own tests run these.
ELSEWHERE = {
    "defaults_table": "tests/scripts/test_defaults_table.py",
    "fuzz_models": "tests/prediction/test_model_file.py",
    "reference": "tests/run/results/test_reference_script.py",
    "reference_plan": "tests/run/results/test_reference_script.py",
    "sklearn_suites": "tests/scripts/test_sklearn_suites.py",
    "usage": "tests/scripts/test_scripts.py",
    "torture": "tests/run/execution/test_torture.py",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with small data sets."""
    folder = tmp_path / "configs" / "dataset"
    folder.mkdir(parents=True)
    for name, d in (("ijcnn1", 8), ("covtype_93k", 8)):
        (folder / f"{name}.yaml").write_text(GENERATED.format(name=name, d=d))
    (folder / "kddcup99.yaml").write_text(KDDCUP)
    raw = tmp_path / "datasets" / "raw"
    raw.mkdir(parents=True)
    rows = "".join(f"{i % 7},{'uvw'[i % 3]},{i % 2}\n" for i in range(60))
    for name in ("kdd_train", "kdd_test"):
        (raw / name).write_text(rows)
    (tmp_path / "kdd.svm").write_text("".join(f"{i % 2} 1:{i} 3:.5\n" for i in range(60)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KBENCH_DATA", raising=False)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    # Benchmarks choose threads and processors for their process, which here is that of all tests.
    processors = os.sched_getaffinity(0)
    with mock.patch.dict(os.environ):
        yield
    os.sched_setaffinity(0, processors)


def test_no_script_is_left_out():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == {*RUNS, *ELSEWHERE}


@pytest.mark.parametrize("path", WITH_MAIN, ids=lambda path: path.stem)
def test_help_describes_a_script(tmp_path, path):
    done = python(path, "--help", cwd=tmp_path, timeout=60)
    description = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert (done.returncode, done.stderr) == (0, "")
    assert description[:20] in " ".join(done.stdout.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_script_runs_to_its_end(here, monkeypatch, capfd, name):
    arguments, smaller = RUNS[name]
    if name in OWN_PROCESS:
        done = python(SCRIPTS / f"{name}.py", *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("\n") >= 1
        return
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    script = importlib.import_module(name)
    for constant, value in smaller.items():
        monkeypatch.setattr(script, constant, value)
    assert not script.main()
    assert capfd.readouterr().out.count("\n") >= 1
