"""Fits to rows that are larger than memory: division, training cluster by cluster, checkpoints.

Passes over `ChunkedRows` that several families need live here. The passes of one family
(`divide/early_svc_chunks.py`, `fast_prediction/trained_leaf_chunks.py`) lie beside its estimators.
"""
