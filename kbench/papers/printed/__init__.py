"""Printed numbers and statements of five papers as data: layouts, settings, claims, causes.

A paper's numbers are in `<paper>.csv`, the layout of its tables in `<paper>.yaml`; the modules read
and check these files. Rows are read only in `cells`, `claims` and `figures`.
"""
