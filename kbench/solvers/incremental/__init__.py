"""Solvers that grow an expansion point by point: LaSVM, and SpSVM's greedy basis."""
