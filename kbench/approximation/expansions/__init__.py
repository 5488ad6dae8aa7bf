"""Few points in place of many: reduced sets of an expansion, representative sets of the rows.

These functions approximate a function or a set of rows; the other rooms approximate kernel
matrices.
"""
