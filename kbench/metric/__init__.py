"""Metrics that are learned from labelled rows, as transformers in front of any estimator.

`LearnedMetric` learns the metric (`rounds.py` are its rounds, `columns.py` the maps of single
columns before it), and `WithMetric` puts any estimator behind it: the one way to use a metric.
`method.metric=learned` on the command line is `WithMetric` around the method. Estimators that
decide by themselves whether a metric helps (`metric="auto"`), and the recursive feature machine, an
estimator of its own, are in `kbench.methods.automatic`.
"""

from kbench.metric.learned import LearnedMetric
from kbench.metric.with_metric import WithMetric

__all__ = ["LearnedMetric", "WithMetric"]
