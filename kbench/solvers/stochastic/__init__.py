"""Stochastic gradients: doubly stochastic descent, Adam, and models that Adam trains.

Losses and their gradients are here, too. Passes over rows that update one dual variable at a time
are in `linear` and `kbench.methods.stochastic`.
"""
