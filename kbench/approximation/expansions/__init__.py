"""Few points in place of many: reduced sets of an expansion, representative sets of the rows.

These functions approximate a function or a set of rows, and the other rooms kernel matrices.
"""
