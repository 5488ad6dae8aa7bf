"""kbench predict model=KEY|FILE out=FILE dataset.path=ROWS: apply a kept model to further rows.

model         a file that a run with keep_model=true has written, or the first letters of that run's
              key, for a file in results_dir/_models
out           *.csv, *.parquet or *.npy: a prediction for each row, with the labels and in the unit
              of the training files
proba         true adds probabilities (or decision values if the method has no probabilities)
dataset.path  the rows, which are read like the training files unless dataset.source.* differs, and
              scaled and encoded alike; dataset=NAME instead takes the test rows of that data set
Further keys: results_dir, datasets_dir, download.

Rows are read in blocks; rows of LIBSVM text are stored in $TMPDIR meanwhile. Scores are printed if
the rows have targets that the model knows. A LIBSVM file whose targets are all 0 counts as
unlabelled.
"""

from collections.abc import Iterable, Iterator, Sequence
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kbench.commands.arguments import parse_boolean, parse_words
from kbench.config import composer, require_option
from kbench.errors import ConfigError, counted
from kbench.mistyped import key_of

# Beginnings of the keys of a data set whose values come with the model.
_TRAINING_KEYS = (
    *("dataset.missing", "dataset.scale", "dataset.split", "dataset.target"),
    *("dataset.n_features", "dataset.storage", "dataset.test_path"),
    *("dataset.source.columns.target", "dataset.source.columns.group"),
)
KEYS = ("model", "out", "proba", "dataset", "results_dir", "datasets_dir", "download")


def main(argv: Sequence[str]) -> int:
    """Write the predictions and print scores; exit code 0."""
    from kbench.data import Folders, Preparation, read_rows
    from kbench.prediction import load_model
    from kbench.run.execution.applying import apply_model, require_format
    from kbench.run.execution.temporary import runner_folder

    overrides = [w for w in argv if w.startswith(("dataset=", "dataset.", "+dataset.", "~dataset"))]
    for word in overrides:
        key = key_of(word)
        if key.startswith(_TRAINING_KEYS):
            raise ConfigError(
                f"{key} belongs to the training; kbench predict takes it from the model"
            )
    bare_words, values = parse_words([word for word in argv if word not in overrides], KEYS)
    for required_key in ("model", "out"):
        if bare_words or required_key not in values:
            if bare_words and Path(bare_words[0]).suffix in (".npz", ".csv"):
                key = "model" if bare_words[0].endswith(".npz") else "dataset.path"
                raise ConfigError(
                    f"kbench predict takes no {bare_words[0]!r}: write {key}={bare_words[0]}"
                )
            raise ConfigError(
                "kbench predict takes model=KEY out=FILE.csv dataset.path=ROWS"
                + (f", not {bare_words[0]!r}" if bare_words else f"; {required_key}= is missing")
            )
    out = Path(values["out"])
    proba = parse_boolean("proba", values.get("proba", "false"))
    download = parse_boolean("download", values.get("download", "true"))
    require_format(out)
    path = _model_file(values["model"], Path(values.get("results_dir", "results")))
    stored = load_model(path)
    if stored.preparation is None:
        raise ConfigError(f"{path} holds no preparation of rows: load_model reads it in Python")
    preparation = Preparation.from_plain(stored.preparation)
    config = _dataset_config(overrides, preparation.target.task)
    _require_another_file(out, [path, *_named_files(config)])
    # The next runner removes the folder if this command is killed.
    with TemporaryDirectory(dir=runner_folder()) as scratch:
        rows = read_rows(
            config,
            Folders.from_environment(values.get("datasets_dir", "datasets")),
            preparation,
            Path(scratch, "rows"),
            download=download,
            own_source=any("dataset.source" in word for word in overrides),
            trained_on=stored.about.get("data_sha256"),
        )
        scores, n_scored = apply_model(stored.estimator, preparation, rows, out, proba=proba)
    print(
        f"{stored.about.get('method', 'model')} {path.stem[:12]}: {counted(rows.n, 'row')}, {out}"
    )
    for note in rows.notes:
        print(f"  {note}")
    for name, value in scores.items():
        if value is not None:
            print(f"  {name:18} {value:.6g}")
    if not scores:
        print("  no scores: the rows have no targets that the model knows")
    elif n_scored < rows.n:
        print(f"  scores of {n_scored} rows; the others have no target that the model knows")
    return 0


def _require_another_file(out: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to overwrite an input file."""
    for name in inputs:
        if out.exists() and Path(name).exists() and out.samefile(name):
            raise ConfigError(f"out={out} is a file that this command reads; name another one")


def _named_files(config: dict[str, Any]) -> Iterator[str]:
    """The files that the config of a data set names, with all matches of its patterns."""
    for key in ("path", "test_path"):
        patterns = config.get(key) or []
        for pattern in [patterns] if isinstance(patterns, str) else patterns:
            yield from (pattern, *glob(str(pattern)))


def _model_file(model: str, results: Path) -> Path:
    """The file with the path `model`, or the model file whose key begins with these letters."""
    if Path(model).is_file():
        return Path(model)
    folder = results / "_models"
    matches = sorted(folder.glob(f"{model}*.npz")) if model.isalnum() else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ConfigError(
            f"model={model}: {len(matches)} keys in {folder} begin with it; give more letters"
        )
    raise ConfigError(
        f"model={model}: no such file, and no key in {folder} begins with it; a run with "
        "keep_model=true keeps its model"
    )


def _dataset_config(overrides: list[str], task: str) -> dict[str, Any]:
    """The config of the data set or file that the command names."""
    with composer() as hydra:
        for text, override in zip(overrides, hydra.parse(overrides), strict=True):
            if override.is_sweep_override():
                raise ConfigError(f"{text}: kbench predict reads one file; quote a comma")
    words = list(overrides)
    keys = {word.partition("=")[0] for word in words}
    if "dataset" not in keys:
        if "dataset.path" not in keys:
            raise ConfigError("kbench predict takes dataset.path=ROWS, or dataset=NAME")
        words.append("dataset=file")
    if "dataset=file" in words and "dataset.task" not in keys:
        words.append(f"dataset.task={task}")
    for word in words:
        group, equals, name = word.partition("=")
        if group == "dataset" and equals:
            require_option(group, name)
    with composer() as hydra:
        config: dict[str, Any] = hydra.compose(words)["dataset"]
    return config
