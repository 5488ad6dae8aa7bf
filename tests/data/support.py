"""What the data tests share: small configs, files, and the shipped configs without the runner."""

import copy
import os
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import yaml

from kbench.data import open_prepared, prepare, read_rows

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
BASE = yaml.safe_load((CONFIGS / "config.yaml").read_text())["dataset"] | {"task": None}
# Most tests compare targets with the files; `test_a_regression_is_learnt_in_another_unit` does not.
AS_FILED = {"target": {"scale": "none"}}


def shipped(name, **over):
    """A shipped data set config, composed by hand as Hydra does."""
    own = yaml.safe_load((CONFIGS / "dataset" / f"{name}.yaml").read_text())
    return merge(merge(BASE, own), over)


def merge(base, over):
    out = copy.deepcopy(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = merge(out[key], value) if both else value
    return out


def user_file(path, **over):
    """`dataset=file dataset.path=...`."""
    return shipped("file", **merge({"path": str(path), "task": "binary", **AS_FILED}, over))


def opened(config, folders):
    return open_prepared(prepare(config, folders, download=False))


def opened_file(path, folders, **over):
    return opened(user_file(path, **over), folders)


def rows_of(data):
    """All rows, in the order of the file where the split keeps it."""
    dense = [X if isinstance(X, np.ndarray) else X.toarray() for X in (data.X_train, data.X_test)]
    return np.vstack(dense)


def later_rows(config, folders, preparation, **options):
    """Rows of a config as a model takes them."""
    scratch = Path(mkdtemp(dir=folders.read_only[0]), "rows")
    return read_rows(config, folders, preparation, scratch, **options)


def features_of(preparation, rows):
    """Their features as one dense matrix."""
    return np.vstack(list(preparation.features(rows)))


def saved(frame, path):
    """A table in the format that the path's suffix names; texts of ARFF are strings."""
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        assert path.suffix == ".arff", path
        kinds = ["real" if kind.kind in "iuf" else "string" for kind in frame.dtypes]
        pairs = zip(frame, kinds, strict=True)
        head = "".join(f"@attribute '{name}' {kind}\n" for name, kind in pairs)
        rows = frame.to_csv(index=False, header=False, na_rep="?")
        path.write_text(f"@relation r\n{head}@data\n{rows}")
    return path


def csv_file(folders, lines):
    """The file t.csv of these lines in the read-only folder."""
    path = folders.read_only[0] / "t.csv"
    path.write_text("\n".join(lines))
    return path


def named(**over):
    """A made-up named data set of two files, `toy` and `toy.t`."""
    files = {
        part: {"names": [name], "url": f"http://127.0.0.1:9/{name}.xz"}
        for part, name in (("train", "toy"), ("test", "toy.t"))
    }
    source = {"kind": "files", "files": files}
    config = {**AS_FILED, "name": "toy", "task": "binary", "source": source}
    return merge(merge(BASE, config), over)


def one_file(**over):
    """A made-up named data set of one file, `toy`."""
    config = named(split={"kind": "random", "test_fraction": 0.25})
    config["source"] = {"kind": "files", "files": {"all": {"names": ["toy"], "url": None}}}
    return merge(config, over)


def libsvm_text(X, y):
    """LIBSVM text of dense X : (n, d), zeros left out."""
    return "".join(
        " ".join([f"{label:g}", *(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v)]) + "\n"
        for row, label in zip(X.tolist(), y, strict=True)
    )


def left_over(folder):
    """Names that begin with a dot, anywhere below: half-written things."""
    return [
        os.path.join(where, name)
        for where, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if name.startswith(".")
    ]
