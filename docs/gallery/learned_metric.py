"""
A metric that is learned
========================

A Gaussian kernel treats all features alike. ``RecursiveFeatureClassifier`` looks at the gradients
of the function that it has learned, and stretches the directions along which the function changes.
On images of digits its weights are a picture: the pixels that tell digits apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kbench.methods import KernelSVC, RecursiveFeatureClassifier
from kbench.metric import LearnedMetric

X, y = load_digits(return_X_y=True)
pairs = [(3, 8), (4, 9), (1, 7)]

# %%
# One machine for each pair of digits; the weights are the diagonal of its metric.

figure, axes = plt.subplots(3, 3, figsize=(7, 6.5), layout="constrained")
for row, pair in zip(axes, pairs, strict=True):
    rows = np.isin(y, pair)
    model = RecursiveFeatureClassifier(random_state=0).fit(X[rows], y[rows])
    importances = model.metric_.feature_importances_.reshape(8, 8)
    for panel, digit in zip(row, pair, strict=False):
        panel.imshow(X[y == digit].mean(axis=0).reshape(8, 8), cmap="gray_r")
        panel.set_title(f"mean {digit}")
    row[2].imshow(importances, cmap="magma")
    row[2].set_title(f"what tells {pair[0]} and {pair[1]} apart")
for panel in axes.flat:
    panel.set(xticks=[], yticks=[])

# %%
# The metric is a transformer and works for other machines too. Here two of twenty features matter.

rng = np.random.default_rng(0)
Z = rng.normal(size=(2000, 20))
labels = Z[:, 0] * Z[:, 1] > 0
Z_train, Z_test, t_train, t_test = train_test_split(Z, labels, random_state=0)
metric = LearnedMetric(random_state=0).fit(Z_train, t_train)
plain = KernelSVC(C=10).fit(Z_train, t_train).score(Z_test, t_test)
learned = KernelSVC(C=10).fit(metric.transform(Z_train), t_train)
print(f"accuracy {plain:.3f}, in the metric {learned.score(metric.transform(Z_test), t_test):.3f}")
print("features that matter:", np.argsort(-metric.feature_importances_)[:2])
