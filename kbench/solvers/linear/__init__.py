"""Linear support vector machines: dual coordinate descent on explicit features.

The features come in blocks of rows, so that they need not be in memory. Kernel duals are in
`box_dual` and `small`.
"""
