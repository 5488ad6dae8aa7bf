"""Approximations of a clustered kernel matrix: block-diagonal (BKA) and MEKA."""
