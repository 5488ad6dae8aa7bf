"""Random features that are drawn again from a seed instead of being stored.

`philox.py` has the counter-based random numbers, the other modules blocks of random features. Maps
that store their frequencies are in `features`.
"""
