"""Prepare arrays of raw rows: targets, split, scaling, and the same steps for later rows."""
