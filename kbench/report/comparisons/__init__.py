"""From rows to comparisons: attempts become runs, runs that may be compared become tables.

`reading` finds the rows, `tables` groups them, `cells` makes texts of them. Comparisons of methods
over several data sets are in `statistics`, formats in `text`.
"""
