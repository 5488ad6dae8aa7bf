"""Linear systems with a kernel matrix: exact kernel ridge and conjugate gradients.

Systems with a structured approximation are solved by the approximation itself
(`kbench.approximation.features.factored`, `kbench.approximation.hss.ulv`).
"""
