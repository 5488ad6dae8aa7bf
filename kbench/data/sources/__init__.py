"""Sources of rows: files, downloads, bundled tables, generators; read in bounded memory.

Nothing here interprets what a file holds: that is in `formats`, and what becomes of the rows in
`preparation`.
"""
