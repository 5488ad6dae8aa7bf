"""Sizes that follow from the number of training rows where the user sets none."""

# Training rows of a group, on average, at least. Machines of 62 rows lose to a linear one. On the
# first 4,000 rows of a9a and pendigits, early DC-SVM has 81.7 and 94.1 % with 64 groups, 83.4 and
# 97.2 % with 8; a bagged machine 78.0 and 82.5 % with 64, 82.8 and 92.3 % with 8; LinearSVC 82.7
# and 88.6 % (2,000 test rows).
_LEAST_ROWS = 500
# Groups that are not set, at most: the 64 clusters of Hsieh, Si and Dhillon (ICML 2014).
MOST_GROUPS = 64


def number_of_groups(given: int | None, n: int, most: int = MOST_GROUPS) -> int:
    """The number of clusters, leaves or members that the user set, or one for each 500 of n rows.

    `most` limits the number that is not set, for large n.
    """
    if given is not None:
        return given
    return max(1, min(most, n // _LEAST_ROWS))
