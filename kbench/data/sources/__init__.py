"""Sources of rows: files, downloads, bundled tables, generators; read in bounded memory.

These modules do not interpret the content of a file: `formats` does, and `preparation` scales and
splits the rows.
"""
