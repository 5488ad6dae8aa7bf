"""
A compressed kernel matrix as an operator
=========================================

``HSSMatrix`` compresses the kernel matrix of n points without forming it. Afterwards products,
solutions and the determinant cost about as much as reading its few numbers: what Gaussian processes
need to choose their kernel by the marginal likelihood.
"""

import matplotlib.pyplot as plt
import numpy as np

from kbench.approximation import HSSMatrix
from kbench.methods import HSSKernelRidge

rng = np.random.default_rng(0)
X = rng.uniform(size=(4000, 2))
y = np.sin(8 * X[:, 0]) * np.cos(6 * X[:, 1] ** 2) + 0.1 * rng.normal(size=4000)

K = HSSMatrix(gamma=50.0, preset="accurate", random_state=0).fit(X)
print(f"{K.nbytes_ / 1e6:.1f} MB; the matrix itself has {4 * 4000**2 / 1e6:.0f} MB in float32")
print(f"relative error {K.relative_error(n_rows=100, random_state=0):.1e}")
inverse = K.factorise(0.01)
x = inverse.solve(y)
print(f"residual of a solution {np.linalg.norm(K @ x + 0.01 * x - y) / np.linalg.norm(y):.1e}")
print(f"log-determinant {inverse.logdet:.1f}")

# %%
# One compression for each width, one factorisation for each noise variance.

widths, noises = [3.0, 10.0, 30.0, 100.0], [0.003, 0.01, 0.03, 0.1]
likelihood = np.empty((len(widths), len(noises)))
for i, gamma in enumerate(widths):
    matrix = HSSMatrix(gamma=gamma, preset="precise", random_state=0)
    model = HSSKernelRidge(matrix, warm_start=True)
    for j, alpha in enumerate(noises):
        model.set_params(alpha=alpha).fit(X, y)
        likelihood[i, j] = model.log_marginal_likelihood_
best = np.unravel_index(likelihood.argmax(), likelihood.shape)
print("gamma", widths[best[0]], "noise variance", noises[best[1]], "(the noise has 0.01)")

# %%

model = HSSKernelRidge(
    HSSMatrix(gamma=widths[best[0]], preset="precise", random_state=0), alpha=noises[best[1]]
).fit(X, y)
line = np.linspace(0, 1, 100)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for k, gamma in enumerate(widths):
    left.plot(noises, likelihood[k], marker="o", label=f"gamma {gamma:g}")
left.axvline(0.01, color="black", linestyle="dotted", label="true variance")
left.set(xscale="log", xlabel="noise variance", title="log marginal likelihood of 4,000 points")
left.legend()
surface = right.contourf(line, line, model.predict(grid).reshape(100, 100), 20, cmap="terrain")
right.set(title="the function at the maximum", xticks=[], yticks=[], aspect="equal")
figure.colorbar(surface)
