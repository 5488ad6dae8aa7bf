"""The config of a data set: keys, checks, and keys that follow from a user's own file."""
