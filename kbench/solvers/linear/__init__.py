"""Linear support vector machines: dual coordinate descent on explicit features."""
