"""
A machine without parameters
============================

``TunedKernelSVC`` finds kernel width and C on the training rows alone. The picture shows where it
has looked: cheap machines of few rows everywhere, larger ones only where they can win.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.ensemble import HistGradientBoostingClassifier

from kbench.methods import TunedKernelSVC

X, y = make_moons(6000, noise=0.3, random_state=0)
X = np.hstack([X, np.random.default_rng(0).normal(scale=0.3, size=(6000, 3))])  # nothing in these
X_train, y_train, X_test, y_test = X[:3000], y[:3000], X[3000:], y[3000:]

machine = TunedKernelSVC(random_state=0).fit(X_train, y_train)
boosting = HistGradientBoostingClassifier(random_state=0).fit(X_train, y_train)
print(machine.reason_)
print(f"error on new rows: {1 - machine.score(X_test, y_test):.4f}")
print(f"estimated in the search: {machine.cv_error_:.4f}, interval {machine.cv_error_interval_}")
print(f"gradient boosting: {1 - boosting.score(X_test, y_test):.4f}")

# %%
# ``search_results_`` has a line for each machine of the search.

tried = pd.DataFrame(machine.search_results_)
print(tried.head())

# %%

figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
points = axes.scatter(
    tried["gamma"],
    tried["C"],
    c=tried["error"],
    s=tried["n_rows"] / 10,
    cmap="viridis_r",
    alpha=0.8,
    edgecolors="white",
)
axes.plot(machine.gamma_, machine.C_, "r*", markersize=16, label="chosen")
axes.set(xscale="log", yscale="log", xlabel="gamma", ylabel="C")
axes.set_title("held-out error of every machine tried; area: training rows")
figure.colorbar(points, label="held-out error")
axes.legend()
