"""Rows of a file or a generator in chunks, for fits to more rows than memory holds."""
