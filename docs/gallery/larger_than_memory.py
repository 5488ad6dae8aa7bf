"""
More rows than memory
=====================

``ChunkedRows`` take the place of X and y: the early DC-SVM machine divides them on disk and trains
a cluster at a time. This program fits up to 40,000 rows; the same lines serve millions, since
memory holds a block of rows and the clusters in training.
"""

import time

import matplotlib.pyplot as plt

from kbench.data import chunked_generator
from kbench.methods import DCSVC

warm = chunked_generator("covtype_like", 5_000, d=54, memory_mb=200)
DCSVC(2, C=8, gamma=4, n_levels=1, random_state=0).fit(warm)  # compiles, once on a machine
test = chunked_generator("covtype_like", 4_000, d=54, part="test")
sizes = [5_000, 10_000, 20_000, 40_000]
seconds, scores = [], []
for n in sizes:
    rows = chunked_generator("covtype_like", n, d=54, memory_mb=200)
    model = DCSVC(n // 2500, C=8, gamma=4, n_levels=1, random_state=0)
    start = time.process_time()
    model.fit(rows)
    seconds.append(time.process_time() - start)
    scores.append(model.score(test))
    print(f"{n:6,} rows: {seconds[-1]:5.1f} CPU s, accuracy {scores[-1]:.3f}")

# %%
# About 2,500 rows a cluster at every size: the time grows with the rows, not with their square.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(sizes, seconds, marker="o")
left.set(title="CPU seconds of a fit", xlabel="rows")
right.semilogx(sizes, scores, marker="o", color="tab:green")
right.set(title="accuracy on 4,000 new rows", xlabel="rows")
right.set_xticks(sizes, labels=[f"{n:,}" for n in sizes])
right.minorticks_off()
for axes in (left, right):
    axes.grid(alpha=0.3)
