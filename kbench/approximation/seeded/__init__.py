"""Random features that are drawn again from a seed instead of being stored."""
