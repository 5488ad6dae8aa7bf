"""Figures of the papers: panels and lines that are read from rows, and their charts."""
