"""
Prediction under a budget
=========================

An exact kernel machine evaluates every support vector for a new row. ``DCPredClassifier`` has
machines of few landmarks in the leaves of a tree, so that a new row meets one leaf only. The
picture shows what accuracy costs in time.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import LinearSVC

from kbench.methods import DCPredClassifier, KernelSVC

rng = np.random.default_rng(0)
X = rng.uniform(size=(26000, 4)).astype(np.float32)
y = np.sin(9 * X[:, 0]) + np.sin(11 * X[:, 1]) * X[:, 2] + X[:, 3] > 0.6
y ^= rng.uniform(size=len(y)) < 0.03  # labels that no machine can know
X_train, y_train, X_test, y_test = X[:6000], y[:6000], X[6000:], y[6000:]


def measured(model):
    """Microseconds to predict a row, the fastest of three passes, and accuracy."""
    model.fit(X_train, y_train).predict(X_test[:256])
    passes = []
    for _ in range(3):
        start = time.process_time()
        predicted = model.predict(X_test)
        passes.append(time.process_time() - start)
    return 1e6 * min(passes) / len(X_test), np.mean(predicted == y_test)


# %%
# A linear machine, the exact one, and leaves by landmarks in between.

parameters = {"C": 10.0, "gamma": 8.0, "random_state": 0}
linear = measured(LinearSVC())
exact = measured(KernelSVC(**parameters))
fronts = {}
for n_leaves in (1, 4, 16):
    fronts[n_leaves] = np.transpose(
        [
            measured(DCPredClassifier(n_leaves=n_leaves, n_landmarks=m, **parameters))
            for m in (4, 8, 16, 32)
        ]
    )
    print(n_leaves, "leaves:", *(f"{us:.2f} us {score:.3f};" for us, score in fronts[n_leaves].T))
print("exact machine: {:.2f} us {:.3f}; linear: {:.2f} us {:.3f}".format(*exact, *linear))

# %%
# ``target_cost=20`` would choose the sizes: the best by validation among those that cost at most 20
# predictions of a linear model on this computer.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for n_leaves, (microseconds, scores) in fronts.items():
    axes.plot(microseconds, scores, marker="o", label=f"DCPredClassifier, leaves: {n_leaves}")
axes.plot(*exact, "k*", markersize=14, label="KernelSVC")
axes.plot(*linear, "ks", label="LinearSVC")
axes.set(xscale="log", xlabel="microseconds of a prediction", ylabel="accuracy on 20,000 new rows")
axes.set_title("what a budget for predictions buys: 4, 8, 16, 32 landmarks a leaf")
axes.minorticks_off()
axes.grid(alpha=0.3)
axes.legend()
