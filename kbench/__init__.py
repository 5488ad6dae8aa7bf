"""kbench: experiments with large-scale kernel machines."""

__version__ = "0.1.0"
