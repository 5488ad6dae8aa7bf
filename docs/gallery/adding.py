"""
Adding a method and a data set
==============================

Both are YAML files in the working directory: no registration, no code for a class that exists. This
program does what a reader would do in a terminal, in a folder of its own.
"""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_circles

folder = Path(tempfile.mkdtemp())
os.environ["NO_COLOR"] = "1"


def kbench(words):
    """Run a kbench command in the folder and return what it prints."""
    command = ["kbench", *shlex.split(words)]
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=True)
    return done.stdout


# %%
# A data set: a file of rows, and a few lines that say how to read it.

X, y = make_circles(1500, noise=0.15, factor=0.5, random_state=0)
table = pd.DataFrame(X, columns=["east", "north"]).assign(ring=y)
for name in ("datasets", "configs/dataset", "configs/method"):
    (folder / name).mkdir(parents=True)
table.to_csv(folder / "datasets" / "rings.csv", index=False)
(folder / "configs/dataset/rings.yaml").write_text(
    """
name: rings
about: two noisy rings
task: binary
source:
  kind: files
  format: csv
  files:
    all: {names: [rings.csv]}
  columns: {target: ring}
split: {kind: random, test_fraction: 0.3, seed: 0}
facts: {n: 1500, n_features: 2}
"""
)

# %%
# A method: a class of scikit-learn, its parameters and what the class itself does not say.

(folder / "configs/method/trees.yaml").write_text(
    """
name: trees
estimator: sklearn.ensemble.ExtraTreesClassifier
meta: {about: extremely randomised trees, tasks: [binary, multiclass], role: baseline}
n_estimators: 50
min_samples_leaf: 1
"""
)
print(kbench("data check rings"))

# %%
# They are words of the command line like all others. Every run is one row.

kbench("-m method=trees method.min_samples_leaf=1,2,4,8,16 dataset=rings seed=0,1")
kbench("-m method=kernel_svc,tuned_svc dataset=rings")
print(kbench("report"))

# %%

rows = pd.read_parquet(folder / "results")
trees = rows[rows.method == "trees"]
leaves = trees.params.str.extract(r'"min_samples_leaf":\s*(\d+)')[0].astype(int)
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.semilogx(leaves, trees.accuracy, "o", base=2, label="trees, two seeds")
for method, colour in (("kernel_svc", "tab:orange"), ("tuned_svc", "tab:green")):
    axes.axhline(rows[rows.method == method].accuracy.mean(), color=colour, label=method)
axes.set(xlabel="min_samples_leaf", ylabel="accuracy", title="a method and a data set of one's own")
axes.legend()
