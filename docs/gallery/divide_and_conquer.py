"""
Divide and conquer
==================

``DCSVC`` trains a machine for each cluster of rows. Stopped there, a new row is classified by the
machine of its own cluster (early prediction); continued, the clusters' solutions are the start of
the exact one. The more rows, the more the early machine saves.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from kbench.methods import DCSVC, KernelSVC

rng = np.random.default_rng(0)


X = rng.uniform(-1, 1, size=(25000, 2)).astype(np.float32)
y = np.sin(9 * X[:, 0]) * np.cos(11 * X[:, 1] + 3 * X[:, 0]) > 0
y ^= rng.uniform(size=len(y)) < 0.2  # labels that no machine can know
X_test, y_test = X[-5000:], y[-5000:]
parameters = {"C": 10.0, "gamma": 20.0}
early = DCSVC(n_clusters=32, combine="early", random_state=0, **parameters)
exact = KernelSVC(**parameters)
sizes = [2500, 5000, 10000, 20000]
seconds, scores = {"early DCSVC": [], "KernelSVC": []}, {"early DCSVC": [], "KernelSVC": []}
for name, model in (("early DCSVC", early), ("KernelSVC", exact)):
    model.fit(X[:5000], y[:5000])  # compiles, once on a machine
    for n in sizes:
        start = time.process_time()
        model.fit(X[:n], y[:n])
        seconds[name].append(time.process_time() - start)
        scores[name].append(model.score(X_test, y_test))
    print(
        f"{name:12}",
        *(f"{n:,} rows: {value:.4f};" for n, value in zip(sizes, scores[name], strict=True)),
    )

# %%
# Left: the clusters of the early machine and its decision. Right: CPU seconds of a fit.

line = np.linspace(-1, 1, 250, dtype=np.float32)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
left.scatter(*X[:4000].T, c=y[:4000], s=2, cmap="coolwarm", alpha=0.5)
values = early.decision_function(grid).reshape(250, 250)
left.contour(line, line, values, [0.0], colors="black", linewidths=1)
left.set(title="early DCSVC: a machine for each of 32 clusters", xticks=[], yticks=[])
for name, values in seconds.items():
    right.plot(sizes, values, marker="o", label=f"{name}, accuracy {scores[name][-1]:.3f}")
right.set(title="CPU seconds of a fit", xlabel="rows", xscale="log", yscale="log")
right.set_xticks(sizes, labels=[f"{n:,}" for n in sizes])
right.minorticks_off()
right.grid(alpha=0.3)
right.legend()
