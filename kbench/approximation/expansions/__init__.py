"""Few points in place of many: reduced sets of an expansion, representative sets of the rows."""
