"""Linear systems with a kernel matrix: kernel ridge by conjugate gradients or randomised steps.

Systems with a structured approximation are solved by the approximation itself
(`kbench.approximation.features.factored`, `kbench.approximation.hss.ulv`).
"""
