"""Estimators that divide the training rows: DC-SVM, cascades, bagging, subsampling, divided ridge.

Each part is a separate problem, and the parts' solutions are combined or start a larger problem.
Methods that divide rows only for fast predictions are in `fast_prediction`.
"""
