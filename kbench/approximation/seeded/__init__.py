"""Random features that are drawn again from a seed instead of being stored.

`philox.py` are the counter-based random numbers, the other modules blocks of features and images of
filters made of them. Maps that store their frequencies are in `features`.
"""
