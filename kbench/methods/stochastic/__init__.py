"""Estimators that visit rows or batches one after the other: doubly SGD, NORMA, SDCA, LaSVM,
and full kernel ridge by randomised steps (ASkotch, stochastic dual descent, EigenPro;
EigenPro 3 in the span of centres).

They make passes over the rows and can stop after any step. Exact estimators whose solvers visit
coordinates are in `exact`.
"""
