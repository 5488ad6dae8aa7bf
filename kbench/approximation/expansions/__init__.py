"""Few points in place of many: reduced sets of an expansion, representative sets of the rows.

These functions approximate a given function or set of rows, not a kernel matrix; that is in the
other rooms.
"""
