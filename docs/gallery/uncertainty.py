"""
How sure a prediction is
========================

The posterior deviation of ``KernelRidge`` is that of a Gaussian process: it grows away from the
training rows, and is right if the noise has the variance alpha, which is too small here. Conformal
prediction (MAPIE) takes errors on rows that the model has not seen, and covers the stated fraction
of new targets whatever the noise is.
"""

import matplotlib.pyplot as plt
import numpy as np
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import CrossConformalRegressor

from kbench.methods import KernelRidge, KernelSVR

rng = np.random.default_rng(0)


def rows(n):
    """Rows of one feature with a gap, and targets whose noise has heavy tails."""
    x = np.concatenate([rng.uniform(0, 4, n // 2), rng.uniform(6, 10, n - n // 2)])
    return x[:, None], np.sin(x) + 0.3 * rng.standard_t(3, size=n)


X, y = rows(400)
X_test, y_test = rows(2000)
x = np.linspace(-2, 12, 500)[:, None]
ridge = KernelRidge(alpha=0.05, kernel="rbf", gamma=0.5).fit(X, y)
mean, std = ridge.predict(x, return_std=True)

# %%
# The band of the Gaussian process has the noise in it; the other two state a coverage of 90 %.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.5), sharey=True, layout="constrained")
half = 1.645 * np.sqrt(std**2 + ridge.alpha_)
found = ridge.predict(X_test, return_std=True)
inside = np.abs(y_test - found[0]) <= 1.645 * np.sqrt(found[1] ** 2 + ridge.alpha_)
bands = [("KernelRidge, posterior", mean, mean - half, mean + half, inside.mean())]
for model in (KernelRidge(alpha=0.05, kernel="rbf", gamma=0.5), KernelSVR(C=1.0, gamma=0.5)):
    conformal = CrossConformalRegressor(model, confidence_level=0.9, cv=10, random_state=0)
    conformal.fit_conformalize(X, y)
    middle, band = conformal.predict_interval(x)
    coverage = regression_coverage_score(y_test, conformal.predict_interval(X_test)[1])[0]
    name = f"{type(model).__name__}, conformal"
    bands.append((name, middle, band[:, 0, 0], band[:, 1, 0], coverage))
for ax, (name, middle, low, high, coverage) in zip(axes, bands, strict=True):
    ax.plot(X[:, 0], y, ".", color="grey", markersize=3)
    ax.plot(x[:, 0], middle)
    ax.fill_between(x[:, 0], low, high, alpha=0.2)
    ax.set(title=f"{name}\n{100 * coverage:.0f} % of new targets inside", xlabel="x", ylim=(-3, 3))
    print(f"{name:28} {100 * coverage:.1f} % of new targets inside")
