"""Few points in place of many: reduced sets of an expansion, representative sets of the rows.

These functions approximate a function or a set of rows. Kernel matrices are approximated in
`features`, `landmarks`, `clusters` and `hss`.
"""
