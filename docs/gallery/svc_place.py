"""
In the place of SVC
===================

``KernelSVC`` takes the parameters of ``sklearn.svm.SVC``, solves the same problem to the same
tolerance and therefore finds the same machine. The picture shows what is left between the two:
the time.
"""

# %%
# A problem with overlapping classes, whose support vectors grow with the rows; a cross-validation
# would fit it dozens of times.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from kbench.methods import KernelSVC

X, y = make_moons(16000, noise=0.35, random_state=0)
parameters = {"C": 10.0, "gamma": 4.0}
for n in (500, 5000):  # compiles what the fits below need, once on a machine
    KernelSVC(**parameters).fit(X[:n], y[:n])

# %%
# Both machines on more and more rows. ``difference`` is the largest difference of their decision
# functions on new points, in units of the margin.

sizes = [500, 1000, 2000, 4000, 8000]
new = X[-2000:]
seconds = {"SVC": [], "KernelSVC": []}
difference = []
for n in sizes:
    values = []
    for model in (SVC(**parameters), KernelSVC(**parameters)):
        fits = []
        for _ in range(3):
            start = time.process_time()
            model.fit(X[:n], y[:n])
            fits.append(time.process_time() - start)
        seconds[type(model).__name__].append(min(fits))
        values.append(model.decision_function(new))
    difference.append(np.abs(values[0] - values[1]).max())
print("rows      ", *(f"{n:8,}" for n in sizes))
print("difference", *(f"{value:8.1e}" for value in difference))

# %%
# On the left the boundary of both on 2,000 rows: they cannot be told apart. On the right CPU
# seconds of one fit.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(-1.8, 2.8, 150), np.linspace(-1.5, 2.0, 150)), axis=-1)
left.scatter(*X[:2000].T, c=y[:2000], s=3, cmap="coolwarm", alpha=0.5)
for model, style in ((SVC(**parameters), "solid"), (KernelSVC(**parameters), "dashed")):
    surface = model.fit(X[:2000], y[:2000]).decision_function(grid.reshape(-1, 2)).reshape(150, 150)
    colour = "black" if style == "solid" else "gold"
    left.contour(grid[..., 0], grid[..., 1], surface, [0.0], colors=colour, linestyles=style)
left.set(title="boundary: SVC black, KernelSVC gold", xticks=[], yticks=[])
for name, values in seconds.items():
    right.loglog(sizes, values, marker="o", label=name)
right.set(title="CPU seconds of a fit, the fastest of three", xlabel="rows")
right.set_xticks(sizes, labels=[f"{n:,}" for n in sizes])
right.minorticks_off()
right.legend()
right.grid(alpha=0.3)
