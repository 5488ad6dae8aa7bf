"""Rows of a file or a generator in chunks, for fits to more rows than memory holds.

`stream` gives blocks for `partial_fit`, `chunked` the `ChunkedRows` that estimators take. The class
itself, which knows no file, is `kbench.chunked`; prepared rows in chunks are in
`kbench.run.execution.chunked`.
"""
