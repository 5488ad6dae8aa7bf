"""Estimators made for cheap predictions: DC-Pred++, trained landmarks, LDKL, reduced sets.

They bound the multiplications of a prediction. `kbench.prediction` evaluates their models.
"""
