"""Statistics over data sets and seeds: differences, intervals, ranks, orders of growth.

Means and spreads within one table are in `comparisons`. Scores of a run's predictions are in
`kbench.run.results`.
"""
