"""`python -m kbench.kernels` shows the kernels that estimators take by name."""

from kbench.kernels.registry import table

if __name__ == "__main__":
    print(table())
