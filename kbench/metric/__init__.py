"""Metrics that are learned from labelled rows and stand in front of any machine, as
transformers."""

from kbench.metric.learned import LearnedMetric

__all__ = ["LearnedMetric"]
