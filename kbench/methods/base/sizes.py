"""Sizes that follow from the number of training rows where the user sets none."""

# Least average number of rows of a group. Models of 62 rows (64 groups of 4,000) are worse than a
# linear model: on the first 4,000 rows of a9a and pendigits, early DC-SVM has 81.7 and 94.1 % with
# 64 groups, 83.4 and
# 97.2 % with 8; a bagged model 78.0 and 82.5 % with 64, 82.8 and 92.3 % with 8; LinearSVC 82.7
# and 88.6 % (2,000 test rows).
_MIN_ROWS = 500
# Maximal number of groups if the user sets none: that of Hsieh, Si and Dhillon (ICML 2014).
MAX_GROUPS = 64


def number_of_groups(given: int | None, n: int, max_groups: int = MAX_GROUPS) -> int:
    """Clusters, leaves or members that the user set, or one for each `_MIN_ROWS` of n rows.

    `max_groups` limits the number that is not set, for large n.
    """
    if given is not None:
        return given
    return max(1, min(max_groups, n // _MIN_ROWS))
