"""The config of a data set: its keys, its check, and what a user's own file says of itself."""
