"""Metrics that are learned from labelled rows, as transformers in front of any estimator.

`LearnedMetric` learns the metric, in the rounds of `rounds.py`, after `columns.py` has mapped
single columns. `WithMetric` is an estimator that fits any other estimator to the transformed rows;
`method.metric=learned` on the command line puts it around the method. Estimators that decide by
themselves whether a metric helps (`metric="auto"`), and the recursive feature machine, an
estimator of its own, are in `kbench.methods.automatic`.
"""

from kbench.metric.learned import LearnedMetric
from kbench.metric.with_metric import WithMetric

__all__ = ["LearnedMetric", "WithMetric"]
