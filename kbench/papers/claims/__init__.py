"""Claims of the papers: each is a query over cells, which the rows answer with a verdict."""
