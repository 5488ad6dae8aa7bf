"""Explicit feature maps, and kernel matrices that are products of features."""
