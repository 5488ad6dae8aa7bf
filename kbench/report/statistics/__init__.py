"""Statistics over data sets and seeds: differences, intervals, ranks, orders of growth."""
