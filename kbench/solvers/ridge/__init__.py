"""Linear systems with a kernel matrix: exact kernel ridge and conjugate gradients."""
