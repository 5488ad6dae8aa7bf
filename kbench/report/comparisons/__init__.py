"""From rows to comparisons: attempts become runs, runs that may be compared become tables."""
