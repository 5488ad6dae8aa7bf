"""Default numbers of clusters, leaves and ensemble members, from the number of training rows."""

# Least mean number of rows of a default group. More rows cost training time; fewer cost accuracy,
# and models of few rows may be worse than a linear model. On the first 4,000 rows of a9a and
# pendigits (2,000 test rows), the accuracy of early DC-SVM is 83.4 and 97.2 % with 8 groups of 500
# rows, 81.7 and 94.1 % with 64 groups of 62; that of a bagged model 82.8 and 92.3 % with 8, 78.0
# and 82.5 % with 64; that of LinearSVC 82.7 and 88.6 %. Set by hand.
_MIN_MEAN_ROWS = 500
# Largest default number of groups, unless these would have more than `_MAX_MEAN_ROWS` rows each.
# Hsieh, Si and Dhillon (ICML 2014) use 64 groups for up to half a million rows.
MAX_GROUPS = 64
# Largest mean number of rows of a default group, because training time grows faster than the rows.
# Smaller groups lose some accuracy: early DC-SVM of 1,000,000 rows takes 8.5 CPU seconds with 250
# clusters of 4,000 rows (91.07 %), and 16.3 with 64 (91.32 %; docs/scale.md). Set by hand.
_MAX_MEAN_ROWS = 4000
# Largest mean number of rows of a default leaf. Leaves may have more rows than other groups because
# they predict by a few landmarks. With this bound the 494,021 rows of kddcup99 keep the 64 leaves
# of the reference rows (`dcpred_table1` in scripts/reference.yaml). Set by hand.
MAX_MEAN_LEAF_ROWS = 8000
# If the user sets more groups than there are rows, the number of groups is reduced until each has
# this mean number of rows, because models of one row ignore C. Set by hand.
CLIPPED_GROUP_ROWS = 10


def number_of_groups(
    n_groups: int | None, n: int, max_groups: int = MAX_GROUPS, max_rows: int = _MAX_MEAN_ROWS
) -> int:
    """Return the number of groups (clusters, leaves, ensemble members) of n rows.

    It is `n_groups` unless that is None. The default is one group for each `_MIN_MEAN_ROWS` rows,
    but at most `max_groups`, or one for each `max_rows` rows if that is more.
    """
    if n_groups is not None:
        return n_groups
    return max(1, min(max_groups, n // _MIN_MEAN_ROWS), n // max_rows)
