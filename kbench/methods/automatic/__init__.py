"""Estimators that choose their parameters on the training rows: tuned estimators, learned metrics.

The search itself is in `kbench.tuning`, learned metrics in `kbench.metric`.
"""
