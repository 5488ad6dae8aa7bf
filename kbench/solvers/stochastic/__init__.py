"""Stochastic gradients: doubly stochastic descent, Adam, and what is trained with it."""
