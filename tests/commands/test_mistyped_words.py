"""Words that other tools use, misspelt, or that do nothing: one line and exit code 2, at once.

Keys of data sets are those of `kbench.data.configs.keys`, remedies those that the package's own
messages name, and commands those of `kbench.commands`: a new one is tested without being named.
"""

import re
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from harness import planned, refusal

import kbench
from kbench import cli, synonyms
from kbench.commands import reporting, tuning
from kbench.config import composer, flatten, options
from kbench.data.configs import own_file
from kbench.data.configs.keys import KEYS
from kbench.errors import ConfigError, KbenchError
from kbench.mistyped import KEYS as KEYS_OF_RUNS

ROWS = "a,b,y\n" + "".join(f"{k},{-k},{k % 2}\n" for k in range(20))


@pytest.fixture(autouse=True)
def here(here):
    (here / "train.csv").write_text(ROWS)
    np.savez("a.npz", rows=np.eye(4), y=np.arange(4) % 2)
    return here


RUN, SVR = (["method=" + method, "dataset.path=train.csv"] for method in ("svc", "svr"))


OF_HYDRA = [
    (["-m", "method.C=interval(1,10)"], "write values here, as in method.C=1,3,10 with -m"),
    (["hydra/sweeper=optuna"], "for Optuna's search, `kbench tune method=M dataset=D"),
    (["hydra/launcher=joblib"], "write parallel=loky|dask|ray|slurm"),
    (["hydra.run.dir=x"], "write results_dir=FOLDER"),
    (["hydra.job.chdir=true"], "leave it out"),
    (["--info"], "`kbench doctor` describes the installation"),
    (["--resolve"], "`--cfg job` shows resolved values"),
    (["-p", "method"], "`--cfg job` shows every package"),
    (["--config-dir=x"], "put the files into ./configs/method"),
    (["-cn", "x"], "method=..., dataset=... and experiment=... choose its parts"),
    (
        ["+unknown=1"],
        "no key is called 'unknown'; a method's parameter is method.unknown=..., and a",
    ),
    (["+seeed=1"], "(nearest: seed)"),
    (["--cfg", "job", "+unknown=1"], "no key is called 'unknown'"),
    (["method.C=[1,10]"], "write -m method.C=1,10"),
    (["-m", "seed=0,", "1"], "write it without spaces, as in seed=0,1"),
    (["dataset=file"], "dataset.path has no value: add dataset.path=FILE to the command"),
    (["dataset=file", "dataset.path=~/x"], "write dataset.path=$HOME/x"),
]
OF_TOOLS = [
    ("run method=svc dataset=iris", "'run' is not a command: leave it out"),
    ("svc dataset=iris", "'svc' is not a command: write method=svc"),
    ("method=svc dataset=iris cv=5", "no key is called 'cv'"),
    ("method=svc dataset=iris method.random_state=3", "'random_state': seed=... sets it"),
    ("method=svc dataset=iris method.probability=true", "method.calibration=sigmoid adds"),
    ("method=svc dataset=iris seed=[0,1]", "several are written -m seed=0,1,2"),
    ("method=svc limits.wall_s=1m", "limits.wall_s is '1m', should be a number of seconds"),
    ("method=svc limits.memory_mb=2GB", "is '2GB', should be a number of MiB"),
    ("method=svc dataset.path=a.json", "does not read .json files; pandas can write"),
    ("method=svc dataset.path=a.npz", "no array X, there is rows, y; dataset.source.arrays.X="),
    ("method=svc dataset=iris method.kernel=größe", "a character that Hydra does not read"),
]


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["metod=svc", "dataset=digits"], "'metod' (nearest: method)"),
        (["method", "=", "svc"], "write method=svc without blanks"),
        (["method", "=svc", "dataset=iris"], "write method=svc without blanks"),
        (["method=", "svc"], "as in method=svc"),
        ([*RUN, "method.C", "=1"], "as in method.C=1"),
        (["method=null", "dataset=iris"], "'null': write method=NAME"),
        ([*RUN, "tuned=foo"], "no tuned is called 'foo'"),
        (["tune", *RUN, "method.C=1"], "method.C=1: tuned_svc would choose the parameters"),
        (["tune", *RUN, "tune.cv=5"], "tune.cv=5: tuned_svc would choose the parameters"),
        (["compare", "method=svc,knn"], "write kbench report compare"),
        ([*RUN, "C=10"], "method.C=..."),
        ([*RUN, "timeout=60"], "(nearest: limits.wall_s)"),
        ([*RUN, "limits.time=60"], "(nearest: limits.wall_s)"),
        ([*RUN, "n_jobs=4"], "(nearest: parallel.jobs, limits.threads)"),
        ([*RUN, "method.n_jobs=4"], "parallel.jobs=..."),
        ([*RUN, "method.seed=3"], "seed=... sets it"),
        (["tune", *RUN, "cv=5"], "(nearest: tune.cv)"),
        (["method=svc", "method=knn", "dataset=iris"], "method is given twice"),
        (["report", "results_dir=reslts"], "results_dir=reslts: there is no such folder"),
        (["report", "results_dir=a,b"], "`kbench merge A/ B/` copies"),
        (["report", "csv"], "write format=csv"),
        (["report", "papers", "dcsvm"], "write table=dcsvm"),
        (["report", "compare", "svc,knn"], "write method=svc,knn"),
        (["report", "claims"], "write kbench report papers table=claims"),
        (["report", "plots"], "(nearest: plot)"),
        (["report", "out=a.xlsx"], "no report has the suffix .xlsx; write format="),
        (["report", "sort=f1"], "(nearest: metric)"),
        (["tune", *RUN, "tune.n_trials=9"], "(nearest: tune.runs)"),
        (["tune", *RUN, "method.C=interval(1)"], "should be method.C=interval(LOW,HIGH)"),
        (["tune", *RUN, "method.C=loguniform(1,9)"], "'method.C=interval(0.1,10)' for kbench tune"),
        (["--method=svc", "dataset=iris"], "write method=svc"),
        (["--method", "svc"], "write method=svc"),
        (["method:svc", "dataset=iris"], "write method=svc"),
        (["method=svc", "dataset:iris"], "write dataset=iris"),
        ([*RUN, "method.C", "10"], "write method.C=10"),
        (["iris"], "write dataset=iris"),
        (["-m", "method=[svc,knn]"], "several are written -m 'method=svc,knn'"),
        ([*RUN, "metrics=log_loss"], "metrics is 'log_loss', should be a list: metrics=[log_loss]"),
        ([*RUN, "grid.C=1,2"], "'grid.C=[1,10]'"),
        ([*RUN, "grid.C=[]"], "grid.C is [], should have a value or more"),
        (["-m", "method=svc,knn", "--cfg", "job"], "--cfg job shows one configuration"),
        (["-m", "experiment=demo", "method=svc,meka"], "demo has no method meka; it has"),
        (["plan", "method=svc", "dataset=train"], "write dataset.path=train.csv"),
        ([*RUN, "dataset.rows=9"], "(nearest: dataset.split.n_train)"),
        ([*RUN, "dataset.sclae=9"], "(nearest: dataset.scale, "),
        (["plan", *RUN, "method.kernel=RBF"], "Got 'RBF' instead. (nearest: rbf)"),
        ([*RUN, "method.C=10^3"], "write the number out, as in method.C=1000"),
        (["data", "check", "dataset.path=train.csv"], "`kbench plan method=svc dataset.path=train"),
        (["data", "check", "dataset=iris"], "write iris"),
        (["doctor", "--compil"], "(nearest: --compile)"),
        (["doctor", "compile"], "(nearest: --compile)"),
        (["list", "--jsn"], "(nearest: --json)"),
        (["list", "--x"], "it takes --json, datasets_dir=..."),
        (["import", "ftp://a/b"], "ftp://a/b: an address should begin with http:// or https://"),
        (["method=svc", "dataset.path={b}/c.csv"], """as in "dataset.path='{b}/c.csv'"""),
        (["method=svc", "dataset.path=[a,b]"], "-m dataset.path=A,B makes a run of each value"),
        (["method=svc", "dataset.path=-"], "standard input is not a regular file, should be one"),
        (["predict", "train.csv"], "write dataset.path=train.csv"),
        (["–m", "method=svc,knn"], "write -m"),
        (["method"], "write method=VALUE"),
        (["show", *RUN], "`kbench method=svc dataset.path=train.csv --cfg job`"),
        (["-m", "method=svc,,knn"], "a value is missing at a comma"),
        (["method=“svc”"], "quotes should be ' or \", as in method='svc'"),
        (["method==svc"], "write method=svc"),
        (["method=svc dataset=iris"], "words are separated by blanks outside quotes"),
        (["method=svc;dataset=iris"], "words are separated by blanks outside quotes"),
        ([*RUN, "method.C={1,2}"], "several values are written -m method.C=1,2"),
        ([*RUN, "keep_model=maybe"], "keep_model is 'maybe', should be true or false"),
        ([*RUN, "show=runs"], "which is a key of `kbench plan`"),
        ([*RUN, "~dataset.scale"], "write dataset.scale=VALUE"),
        ([*RUN, "dataset.split=null"], "dataset.split is None, should be set key by key"),
        ([*RUN, "++foo.bar=1"], "no key is called 'foo.bar'"),
        ([*RUN, "++plan.seeds=[1]"], "plan is of an experiment; write method="),
        ([*RUN, "method.estimator=a.B"], "no method of this command has a parameter 'estimator'"),
        ([*RUN, "limits.threads=null"], "limits.threads is null, should have a value"),
        ([*RUN, "metrics=null"], "should be a list: metrics=[NAME]"),
        ([*RUN, "tuned=null"], "write tuned=none"),
        ([*RUN, "limits={wall_s:3}"], "as in limits.wall_s=3"),
        (["method=all"], "several are written -m 'method=glob(*)'"),
        (["merge", "results_dir=x"], "there is no such folder"),
        (["debug", "0", "results_dir=x"], "there is no such folder"),
        ([*RUN, "-m", "seed=range(0,1000000)"], "more than 10,000 values"),
        *(([word, *RUN, "--cfg", "job"], f"{word} has no --cfg") for word in ("plan", "tune")),
        (["data", "prepare"], "takes names of data sets"),
        (["plan", "method=svc", "dataset=train.csv"], "write dataset.path=train.csv"),
        (["data", "check", "train.csv"], "write dataset.path=train.csv"),
        (["plan", "method=svc", "dataset.path=https://a.b/c.csv"], "https://a.b/c.csv is an addr"),
        (["plan", *RUN, "dataset.target=y"], "dataset.source.columns.target=NAME chooses"),
        (["plan", *RUN, "dataset.source.zero_based=true"], "it is for libsvm"),
        (["plan", *RUN, "dataset.source.arrays.X=a"], "it is for npy, npz, mat"),
        (["lisst"], "nearest: list"),
        (["-m", "method=svc", "method.C=interval(1,10)"], "`kbench tune` searches an interval"),
        (["-m", "method=svc", "method.kernel=glob(*)"], "matches nothing"),
        (["-m", "method=glob(zzz*)", "dataset=iris"], "matches nothing"),
        (["--multirn", "method=svc"], "nearest: --multirun"),
        (["--verison"], "nearest: --version"),
        (["method=svc,knn"], "add -m"),
        (["method=meka2", "dataset=covtype"], "no method is called 'meka2'"),
        (["method=SVC"], "nearest: svc"),
        (["method=svc", "results_dir="], "results_dir is empty"),
        (["method=svc", "dataset=digits,"], "a value is missing after the last comma"),
        (["method=svc", "method.gama=1"], "nearest: gamma"),
        (["method=svc", "gamma=1"], "method.gamma"),
        (["method=svc", "limit.wall_s=1"], "limits.wall_s"),
        (["method=svc", "method.C=["], "method.C=["),
        (["method=svc", "dataset=ijcnn1", "download=false"], "ijcnn1"),
        (["list", "method"], "nearest: methods"),
        (["data", "chek"], "nearest: check"),
        (["data", "check", "digts"], "nearest: digits"),
        (["report", "format=pdf"], "terminal, markdown, csv, json, latex, html, mlflow"),
        (["report", "pagse"], "takes no 'pagse' (nearest: pages)"),
        (["report", "compare"], "method=a,b"),
        (["report", "compare", "method=a,b", "settings=3"], "takes no settings=..."),
        (["report", "compare", "method=a,b", "x=fit"], "no x=...; kbench report plot does"),
        (["report", "compare", "method=a,b", "format=html"], "terminal, markdown, csv"),
        (["report", "trials=yes"], "true, false"),
        (["merge", "now"], "takes results folders, and 'now' is not one"),
        (["debug"], "takes one KEY"),
        (["debug", "0000"], "begins with '0000'"),
        (["plan", "method=svc", "grid=none2"], "no grid is called 'none2'"),
        (["method=svc", "dataset=file", "dataset.path=nothing.txt"], "nothing"),
        (["method=svc", "dataset.path='no\x1b[2Jx.csv'"], "no file matches no\\x1b[2Jx.csv"),
        *((["method=svc", *words], instead) for words, instead in OF_HYDRA),
        *((words.split(), instead) for words, instead in OF_TOOLS),
        (["plan", "method=svc", "dataset=iris", "+dataset.source.columns.group=a"], "has no files"),
        ([""], "is a variable of the shell empty?"),
        (["plan", "–m", *RUN], "write -m"),
        (["plan", "svc", "iris"], "write method=svc"),
        (["plan", *RUN, "iris"], "write dataset=iris"),
        (["=svc", "dataset=iris"], "a key is missing before =, as in method=svc"),
        ([*RUN, "method.C =0.1"], "write method.C=0.1 without blanks"),
        *(
            ([*RUN, word], "a key consists of words with dots between them, as in method.C")
            for word in ("method..C=3", "method.=3", ".method=svc", "/method=svc")
        ),
        ([*RUN, "method@x=svc"], "packages (@); write method=svc"),
        ([*RUN, "~method.C=3"], "method.C has another value: write ~method.C without ="),
        ([*RUN, "results_dir=${oc.env:NO_SUCH}/x"], "the environment has no variable NO_SUCH"),
        ([*RUN, "limits.threads=1.5"], "should be a whole number"),
        ([*RUN, "dataset.split=0.3"], "as in dataset.split.test_fraction=0.2"),
        ([*RUN, "dataset.source.columns.decimal=,"], "the character is called comma"),
        (["plan", *RUN, "dataset.split.n_train=900"], "dataset.split asks for 900 training"),
        (["plan", *RUN, "dataset.target.positive=[9]"], "positive has 9, but the labels are"),
        (["plan", *RUN, "dataset.source.columns.drop=[zz]"], "no column 'zz'"),
        ([*RUN, "metrics=f1,r2"], "write a list as metrics=[f1,r2]"),
        ([*RUN, "-m", "metrics=f1,r2"], "write a list as metrics=[f1,r2]"),
        ([*RUN, "dataset.source.columns.drop=a,b"], "write a list as dataset.source.columns.drop="),
        (["plan", *RUN, "show=runs", "show=summary"], "show is given twice"),
        (["plan", "method=random_forest", RUN[1], "method.max_depth=None"], "max_depth=null"),
        (["plan", *RUN, "method.C='10'"], "A number stands without quotes"),
        (["--cfg", "job", *RUN, "seed=1", "seed=2"], "seed is given twice"),
        (["report", "out=-"], "the report goes to standard output"),
        (["report", "method=[svc, knn]"], "write a list without brackets, as in method=svc,knn"),
        ([*RUN, "on_error=maybe"], "on_error is 'maybe', should be one of"),
        ([*RUN, "metrics=[a b]"], "metrics names 'a b', should be names of scores"),
        (["parallel=ray", "parallel.split=model", *RUN], "split=model needs parallel=dask"),
        (["parallel=dask", "parallel.split=rows", *RUN], "should be runs or model"),
        ([*RUN, "+dataset.split.kind=random"], "write dataset.split.kind=... without the +"),
        ([*RUN, "parallel.backend=spark"], "parallel.backend is 'spark', should be one of"),
        (["method=svc", "dataset=iris", "dataset.path=a.csv"], "without dataset=NAME"),
        (SVR, "by its targets; dataset.task=regression sets another"),
        ([*RUN, "dataset.split.folds=3", "dataset.split.n_train=5"], "takes the place of n_train"),
        ([*RUN, "dataset.split.folds=99"], "dataset.split.folds is 99, there are 20 rows"),
        ([*SVR, "dataset.task=regression", "dataset.split.stratified=true"], "is for classes"),
        ([*RUN, "dataset.split.kind=given"], "the file has one part, should be random or first"),
        (["method=svr", "dataset=noisy_function", "dataset.d=null"], "a generator needs it"),
        (["data"], "takes where, check or prepare"),
        (["doctor", "iris"], "takes no 'iris'"),
    ],
)
def test_the_answer_names_what_would_be_right(here, capsys, words, instead):
    text = refusal(capsys, *words)
    assert instead in text
    assert "; a new key is written" not in text
    assert not list(here.rglob("*.parquet"))


@pytest.mark.parametrize("report", reporting._KEYS_OF_REPORT)
def test_a_key_of_a_report_has_one_value(report, capsys):
    word = [report] if "=" not in report and report else []
    for key in reporting._KEYS_OF_REPORT[report]:
        for words, said in (
            ([f"{key}="], f"{key}= has no value"),
            ([f"{key}=a", f"{key}=b"], f"{key} is given twice, by {key}=a and {key}=b"),
            ([f"--{key}", "a"], f"write {key}=a"),
            ([f"{key}s=a"], f"(nearest: {key}"),
        ):
            assert said in refusal(capsys, "report", *word, *words)


def test_other_words_for_names_and_keys_lead_to_names_and_keys():
    known = {*KEYS_OF_RUNS, *reporting.KEYS, *(f"tune.{key}" for key in tuning._KEYS)}
    for meant in synonyms._SYNONYMS.values():
        for key in meant.split(", "):
            group = key.partition(".")[0]
            assert key in known or group in KEYS_OF_RUNS
    assert {*synonyms.REPORT_KEYS}.isdisjoint(KEYS_OF_RUNS)
    assert {*synonyms.REPORT_KEYS} <= {*reporting.KEYS}
    for names in synonyms.METHOD_SYNONYMS.values():
        assert {*names} <= {*options("method")}


GRIDS = [
    ("", "grid/mine.yaml: is empty, should be a mapping of keys"),
    ("C: [1]\nC: [2]", "grid/mine.yaml:2: not YAML: found duplicate key C"),
    ("C:\t[1]", "grid/mine.yaml:1: not YAML: found character '\\t' that cannot"),
    ("C: [1,\n", "grid/mine.yaml:2: not YAML: "),
    ("grid: {C: [1]}", "the keys of a grid's file are the parameters themselves"),
    ("method.C: [1]", "'method.C' (nearest: C)"),
    ("C: []", "grid.C is [], should have a value or more"),
    ("zip: [{C: []}]", "should be a list such as"),
]


@pytest.mark.parametrize(
    ("file", "text", "words", "said"),
    [
        ("tuned/svc-train.yaml", "C: 3", RUN, "the first line should be '# @package method'"),
        ("limits/mine.yaml", "wall: 3", [*RUN, "limits=mine"], "'limits.wall', should be one of"),
        *(("grid/mine.yaml", text, [*RUN, "grid=mine"], said) for text, said in GRIDS),
        ("grid/mine.yml", "C: [3]", [*RUN, "grid=mine"], "mine.yml is there, its name should end"),
        (
            "experiment/mine.yaml",
            "# @package _global_\nplan: {methods: [svc: {c: [1]}], datasets: [iris]}",
            ["experiment=mine"],
            "experiment mine: method svc has no parameter 'c' (nearest: C)",
        ),
    ],
)
def test_what_a_file_of_the_user_s_lacks_is_said(config_file, capsys, file, text, words, said):
    config_file(file, text)
    assert said in refusal(capsys, "plan", *words)


@pytest.mark.parametrize("group", ["method", "dataset", "grid", "limits", "experiment"])
def test_a_file_in_the_place_of_one_of_ours_is_said(here, group):
    names = {"method": "svc", "dataset": "iris", "grid": "none", "limits": "quick"}
    name = names.get(group, "demo")
    (here / "configs" / group).mkdir(parents=True)
    shutil.copy(options(group)[name], here / "configs" / group)
    words = {"method": "svc", "dataset": "iris"} if group in names else {}
    words[group] = name
    plan = planned(*(f"{key}={value}" for key, value in words.items()))
    file = f"configs/{group}/{name}.yaml"
    assert plan.hidden_lines == [f"{file} is used in place of kbench's own {group} {name}"]


OF_EXPERIMENTS = [
    ("plan: {methods: [svc]}\nkeep_modell: true", "'keep_modell' (nearest: keep_model"),
    ("plan: {methods: svc}", "plan.methods is 'svc', should be a list, as in [svc, k"),
    ("plan: {method: [svc]}", "'plan.method' (nearest: methods)"),
    ("plan: {methods: [svc], datasets: iris}", "plan.datasets is 'iris', should be a"),
    ("plan: {methods: [svc], seeds: 3}", "plan.seeds is 3, should be a list, as in"),
    ("plan: {methods: [svc], tune: 20}", "plan.tune is 20, should be a mapping"),
    ("plan: {methods: [svc], grid: {C: [1]}}", "'plan.grid', should be one of about"),
    ("plan: {methods: [svc], seeds: []}", "plan.seeds is [], should be a list, as in"),
]
FIRST_LINE = "first line should be '# @package _global_'"
NO_HEADER = ("plan: {methods: [svc], datasets: [iris]}", FIRST_LINE)


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        *(([word], *NO_HEADER) for word in ("plan", "tune")),
        *(([], f"# @package _global_\n{text}", said) for text, said in OF_EXPERIMENTS),
    ],
)
def test_what_nothing_reads_in_an_experiment_s_file_is_named(
    config_file, capsys, command, text, said
):
    config_file("experiment/mine.yaml", text)
    told = refusal(capsys, *command, "experiment=mine")
    assert told.startswith("kbench: experiment/mine.yaml: ")
    assert said in told


def test_a_pipeline_s_parameter_says_what_can_be_written(config_file, capsys):
    config_file(
        "method/pipe.yaml",
        "name: pipe\nestimator: sklearn.pipeline.Pipeline\n"
        "parts: {svc: sklearn.svm.SVC}\nsvc__C: 1\n",
    )
    told = refusal(capsys, "method=pipe", "dataset=iris")
    assert "a part's parameter is written C" in told
    assert "a class of your own" in told


@pytest.mark.parametrize("name", ["n\u0303", "d\u00e4tei", "\u6570\u636e"])
def test_a_file_in_any_script_has_its_name_and_its_tuned_file(config_file, here, name):
    whole = unicodedata.normalize("NFC", name)
    (here / f"{name}.csv").write_text(ROWS)
    config_file(f"tuned/svc-{whole}.yaml", "# @package method\nC: 7\n")
    (run,) = planned("method=svc", f"dataset.path='{name}.csv'").runs
    assert run.dataset == whole
    assert run.params["C"] == 7


OF_OTHER_KINDS = re.compile(
    r"source\.(files|kind|bundled|generator)|facts|variant|name|about|homepage|licence|assumed|"
    r"holdout|n$|n_test|d$|seed|noise"
)


def test_every_key_of_a_file_of_the_user_s_is_set_without_a_plus():
    with composer() as hydra:
        keys_of_a_file = flatten(hydra.compose(["method=svc", "dataset=file"])["dataset"])
    assert {key for key in KEYS if not OF_OTHER_KINDS.match(key)} <= keys_of_a_file.keys()


NAMED = re.compile(r"(?<![\w.])dataset((?:\.[a-z_A-Z]+)+)=")


def test_every_key_that_a_message_names_is_a_key():
    package = Path(kbench.__file__).parent
    found = {
        key.removeprefix(".")
        for path in package.rglob("*.py")
        for key in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 15
    other = {"variants", "path", "test_path"}
    assert not {key for key in found if key not in KEYS and key.partition(".")[0] not in other}


@pytest.mark.parametrize(
    "words",
    [
        ["dataset.source.columns.group=a", "dataset.source.columns.target=y"],
        ["dataset.source.columns.decimal=point"],
        ["dataset.split.group=false"],
        ["dataset.target.positive=[0]"],
    ],
)
def test_what_messages_recommend_can_be_written(words):
    assert len(planned(*RUN, *words).runs) == 1


def test_a_column_that_is_a_text_names_the_target_that_was_taken(here):
    (here / "first.csv").write_text("label,a,b\nhigh,1,2\nlow,3,4\n")
    with pytest.raises(KbenchError) as caught:
        planned("method=svc", "dataset.path=first.csv")
    assert "first.csv:2: column 'label' is 'high'" in str(caught.value)
    assert "target is taken to be 'b', dataset.source.columns.target=NAME" in str(caught.value)


def test_a_file_is_read_once_for_all_folds_which_it_has_rows_for(here, monkeypatch):
    (here / "t.csv").write_text("a,y\n" + "1,0\n2,1\n" * 9)
    words = ["method=svc", "dataset.path=t.csv"]
    with pytest.raises(ConfigError, match="folds is 19, there are 18 rows"):
        planned(*words, "dataset.split.folds=19")
    asked = []
    monkeypatch.setattr(own_file, "task_of", lambda *words: asked.append(words) or "binary")
    plan = planned(*words, "dataset.split.folds=18")
    assert len(plan.runs) == 18
    assert len(asked) == 1
    assert {run.variant.partition(",split.fold=")[0] for run in plan.runs} == {"split.folds=18"}


def test_runs_that_differ_in_idle_parameters_are_made_once(capsys):
    """Of the planner's own command, which asks the estimators."""
    words = ["plan", "-m", "method=kernel_svc", "dataset=iris", "method.kernel=linear"]
    assert cli.main([*words, "method.gamma=1,2"]) == 0
    text = capsys.readouterr()
    assert "1 run: 1 to run" in text.out
    assert "gamma: changes nothing in kernel_svc with kernel=linear" in text.out + text.err


@pytest.mark.parametrize("words", [["plan"], []])
def test_parameters_that_the_rows_bound_are_refused_before_a_run(words, capsys, here):
    words = [*words, "method=knn", "dataset=iris", "method.n_neighbors=115"]
    said = "method.n_neighbors is 115, should be at most the number of training rows, 114\n"
    assert refusal(capsys, *words).endswith(said)
    assert not list(here.glob("results/*.parquet"))


def test_a_plan_fits_scikit_learn_to_a_few_rows(capsys):
    """What its estimators compare in the fit alone; not what few rows would make of the rest."""
    words = ["plan", "-m", "method=random_forest", "dataset=iris,digits", "method.bootstrap=false"]
    text = refusal(capsys, *words, "method.oob_score=true")
    assert (
        "random_forest on iris bootstrap=false oob_score=true seed 0: ValueError: Out of bag"
        in text
    )
    assert text.endswith("(and 1 more run)\n")
    assert cli.main(["plan", "method=knn", "dataset=digits", "method.n_neighbors=1000"]) == 0
