"""Metrics that are learned from labelled rows, as transformers in front of any machine."""

from kbench.metric.learned import LearnedMetric
from kbench.metric.with_metric import WithMetric

__all__ = ["LearnedMetric", "WithMetric"]
