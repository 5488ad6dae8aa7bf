"""Statistics over data sets and seeds: paired differences, bootstrap intervals, mean ranks."""
