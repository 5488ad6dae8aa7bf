"""Cells of the papers' tables: the runs that fill a cell, its value, its notes, and their sheets."""
