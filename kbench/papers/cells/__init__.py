"""Cells of the papers' tables: the runs that fill a cell, its value and notes, and the sheets."""
