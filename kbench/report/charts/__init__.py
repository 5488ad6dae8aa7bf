"""Charts of reports: axes and marks as SVG for the pages, and one module for each kind of chart.

`plots` alone is drawn by matplotlib, for `kbench report plot` and notebooks. The pages that show
charts are in `page`, the statistics behind them in `statistics`, figures of papers in
`kbench.papers.figures`.
"""
