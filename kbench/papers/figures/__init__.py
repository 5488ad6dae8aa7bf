"""Figures of the papers: panels and lines read from the rows, and the charts drawn of them."""
