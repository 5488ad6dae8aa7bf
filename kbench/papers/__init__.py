"""The tables, claims and figures of five papers, the printed numbers beside measured ones.

Everything about the papers is data: `<paper>.csv` holds the printed numbers, `<paper>.yaml` the
layout of its tables, `claims.yaml`, `systems.yaml` and `figures.yaml` what else is asked of rows.
The code knows no method, and of the papers no more than their names.
"""
