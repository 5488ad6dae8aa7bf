"""Claims of the papers: each is a query over cells, which the rows answer with a verdict.

The claims themselves are data in `printed`; the values of cells are read in `cells`.
"""
