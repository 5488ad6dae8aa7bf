"""Approximations on landmarks: Nystrom kinds, the choice of landmarks, pseudo landmarks."""
