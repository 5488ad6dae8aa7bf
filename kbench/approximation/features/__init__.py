"""Explicit feature maps, and kernel matrices that are products of features.

`feature_map.py` is the base of the maps, `factored.py` the algebra of matrices W L W'. Maps whose
features are kernel values of landmarks are in `landmarks`; features that are drawn again from a
seed instead of being stored are in `seeded`.
"""
