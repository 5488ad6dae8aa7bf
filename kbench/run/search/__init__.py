"""Choice of a method's parameters on training rows: cross-validation and successive halving."""
