"""
Rows and pandas
===============

Every run is one row of a Parquet folder, so that pandas, Polars or DuckDB are the analysis tools.
Here a small sweep, then the question which methods nobody beats in both accuracy and time.
"""

import os
import subprocess
import tempfile

import matplotlib.pyplot as plt

import kbench

folder = tempfile.mkdtemp()
os.environ["NO_COLOR"] = "1"
methods = "svc,kernel_svc,dcsvm_early,knn,linear_svc,random_forest,dummy"
command = ["kbench", "-m", f"method={methods}", "dataset=digits", "seed=0,1"]
subprocess.run([*command, f"results_dir={folder}"], check=True, capture_output=True)
rows = kbench.read_rows(folder)
print(rows.groupby("method")[["accuracy", "fit_cpu_s", "predict_cpu_s"]].mean())

# %%
# ``params`` is JSON, ``phases`` a map from a phase of the fit to seconds. Failed runs have rows
# too, with a ``status`` and a ``message``.

print(rows[["method", "status", "params", "phases"]].head(3).to_string(max_colwidth=60))

# %%
# A method is on the front if no other is both more accurate and faster.

rows["seconds"] = rows.fit_cpu_s + rows.predict_cpu_s
means = rows[rows.method != "dummy"].groupby("method")[["seconds", "accuracy"]].mean()
means = means.sort_values("seconds")
front = means[means.accuracy > means.accuracy.cummax().shift(fill_value=0)]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.step(front.seconds, front.accuracy, where="post", color="tab:red", label="front")
axes.plot(means.seconds, means.accuracy, "o")
for method, point in means.iterrows():
    axes.annotate(method, point, textcoords="offset points", xytext=(6, -3))
axes.set(xscale="log", xlabel="CPU seconds to fit and predict", ylabel="accuracy", title="digits")
axes.margins(x=0.25, y=0.1)
axes.legend()
