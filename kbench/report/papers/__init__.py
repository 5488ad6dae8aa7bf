"""The tables, claims and figures of five papers, the printed numbers beside measured ones.

Everything about the papers is data: `<paper>.csv` holds the printed numbers, `<paper>.yaml` the
layout of its tables. The code knows no paper and no method.
"""
