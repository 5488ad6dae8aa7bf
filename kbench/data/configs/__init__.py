"""The config of a data set: keys, checks, and keys that follow from a user's own file.

Files are opened here only to guess their form. The files of the data sets are in `configs/dataset`,
`kbench.config` composes them, and `preparation` applies the keys.
"""
