"""Cells of the papers' tables: the runs that fill a cell, the cell's value and notes, sheets.

What the papers print is in `printed`. Claims about cells are in `claims`, curves in `figures`.
"""
