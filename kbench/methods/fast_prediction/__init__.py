"""Estimators made for cheap predictions: DC-Pred++, trained landmarks, LDKL, reduced sets.

They bound the multiplications of a prediction. The evaluation of what they fit is in
`kbench.prediction`.
"""
