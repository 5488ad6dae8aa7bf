"""Estimators that choose their parameters on the training rows: tuned estimators, learned metrics.

The search itself is in `kbench.width_search`, learned metrics in `kbench.metric`.
"""
