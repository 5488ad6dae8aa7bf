"""The tables, claims and figures of five papers, with printed numbers beside measured numbers.

Everything about the papers is data: `<paper>.csv` holds the printed numbers, `<paper>.yaml` the
layout of its tables; `claims.yaml`, `systems.yaml` and `figures.yaml` hold further questions that
rows answer. The code knows no method, and only the names of the papers. Comparisons and charts
of any rows are in `kbench.report`, which imports nothing of this package.
"""
