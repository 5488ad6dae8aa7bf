"""ADMM for the dual of the support vector machine: on a factored matrix, and by random blocks."""
