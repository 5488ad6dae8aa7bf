"""What five papers print and state, as data: numbers, layouts, settings, claims, causes.

A paper's numbers are in `<paper>.csv`, the layout of its tables in `<paper>.yaml`; the modules read
these files and check them. Nothing here reads rows.
"""
