"""From raw rows to prepared arrays: targets, split, scaling, and the same steps for later rows."""
