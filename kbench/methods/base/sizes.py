"""Default numbers of clusters, leaves and members, from the number of training rows."""

# Least average number of rows of a group. Models of 62 rows (64 groups of 4,000) are worse than a
# linear model: on the first 4,000 rows of a9a and pendigits, early DC-SVM has 81.7 and 94.1 % with
# 64 groups, 83.4 and 97.2 % with 8; a bagged model 78.0 and 82.5 % with 64, 82.8 and 92.3 % with 8;
# LinearSVC 82.7 and 88.6 % (2,000 test rows). Set by hand.
_MIN_ROWS = 500
# Largest default number of groups until the groups have `_MAX_ROWS` rows; Hsieh, Si and Dhillon
# (ICML 2014) use 64 for up to half a million rows.
MAX_GROUPS = 64
# Largest mean number of rows of a default group, because training time grows faster than the rows.
# Early DC-SVM of 4,000,000 rows (docs/scale.md) takes 142 CPU seconds with 64 clusters and 31 with
# 1,000, at the same accuracy. Set by hand.
_MAX_ROWS = 4000
# Largest mean number of rows of a default leaf, which may have more rows than a group because it
# predicts by a few landmarks: the 494,021 rows of kddcup99 have 64 leaves. Set by hand.
LEAF_ROWS = 8000
# Rows of a group if more groups than rows are set. Models of one row ignore C. Set by hand.
FEW_ROWS = 10


def number_of_groups(
    n_groups: int | None, n: int, max_groups: int = MAX_GROUPS, max_rows: int = _MAX_ROWS
) -> int:
    """Clusters, leaves or members that the user set, or one for each `_MIN_ROWS` of n rows.

    A default is at most `max_groups`, unless groups would then have more than `max_rows` rows.
    """
    if n_groups is not None:
        return n_groups
    return max(1, min(max_groups, n // _MIN_ROWS), n // max_rows)
