"""Estimators that choose their parameters on the training rows: tuned estimators, learned metrics.

The search itself is in `kbench.width_search`, learned metrics in `kbench.metric`. An estimator with
one value left to the data (`C="loo"`, `gamma="scale"`) is in the room of its method.
"""
