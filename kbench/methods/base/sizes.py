"""Sizes that follow from the number of training rows where the user sets none."""

# Least average number of rows of a group. Models of 62 rows (64 groups of 4,000) are worse than a
# linear model: on the first 4,000 rows of a9a and pendigits, early DC-SVM has 81.7 and 94.1 % with
# 64 groups, 83.4 and 97.2 % with 8; a bagged model 78.0 and 82.5 % with 64, 82.8 and 92.3 % with 8;
# LinearSVC 82.7 and 88.6 % (2,000 test rows). Set by hand.
_MIN_ROWS = 500
# Number of groups, if the user sets none, beyond which they grow; Hsieh, Si and Dhillon (ICML 2014)
# use it for up to half a million rows.
MAX_GROUPS = 64
# Training rows of a group from there on: the seconds of a group grow faster than its rows. Early
# DC-SVM of 4,000,000 rows (docs/scale.md) takes 142 CPU seconds with 64 clusters and 31 with 1,000,
# at the same accuracy. Set by hand.
_MAX_ROWS = 4000
# Training rows of a leaf from there on. Leaves predict by a few landmarks whatever their rows are:
# the 494,021 rows of kddcup99 keep the 64 leaves of the committed comparison. Set by hand.
LEAF_ROWS = 8000
# Rows of each group if there are more groups than rows. Models of one row ignore C. Set by hand.
FEW_ROWS = 10


def number_of_groups(
    given: int | None, n: int, max_groups: int = MAX_GROUPS, max_rows: int = _MAX_ROWS
) -> int:
    """Clusters, leaves or members that the user set, or one for each `_MIN_ROWS` of n rows.

    A number that is not set is at most `max_groups`, until groups have more than `max_rows` rows.
    """
    if given is not None:
        return given
    return max(1, min(max_groups, n // _MIN_ROWS), n // max_rows)
