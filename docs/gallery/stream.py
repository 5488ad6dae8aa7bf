"""
Learning from a stream
======================

``DoublySGDClassifier`` draws both rows and random features and keeps neither: features are made
again from their seed. ``partial_fit`` takes one chunk after the other, of which nothing is kept.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import SGDClassifier

from kbench.methods import DoublySGDClassifier

rng = np.random.default_rng(0)


def chunk(n):
    """Rows of three rings with noise: (n, 5), of which two features matter, and labels."""
    X = rng.normal(size=(n, 5)).astype(np.float32)
    radius = np.hypot(X[:, 0], X[:, 1])
    return X, np.digitize(radius + 0.1 * rng.normal(size=n), [0.8, 1.5])


X_test, y_test = chunk(4000)
kernel = DoublySGDClassifier(gamma=0.3, random_state=0)
linear = SGDClassifier(random_state=0)
rows, errors = [], {"doubly stochastic gradients": [], "linear SGD": []}
for number in range(1, 31):
    X, y = chunk(1000)
    kernel.partial_fit(X, y, classes=[0, 1, 2])
    linear.partial_fit(X, y, classes=[0, 1, 2])
    if number in (1, 2, 4, 8, 16, 30):
        rows.append(1000 * number)
        errors["doubly stochastic gradients"].append(1 - kernel.score(X_test, y_test))
        errors["linear SGD"].append(1 - linear.score(X_test, y_test))

# %%

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, values in errors.items():
    axes.loglog(rows, values, marker="o", label=name)
    print(f"{name:28}", *(f"{value:.3f}" for value in values))
axes.set(xlabel="rows seen", ylabel="error on new rows", title="one pass over a stream")
axes.grid(alpha=0.3, which="both")
axes.legend()
