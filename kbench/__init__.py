"""kbench: experiments with large-scale kernel machines."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = ["read_rows"]


def __getattr__(name: str) -> Any:
    """Import `kbench.read_rows` at its first use, because kernels need no pandas."""
    if name != "read_rows":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("kbench.report").read_rows
