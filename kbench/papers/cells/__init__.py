"""Cells of the papers' tables: the runs that fill a cell, the cell's value and notes, sheets."""
