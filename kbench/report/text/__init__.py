"""Reports as text: terminal, Markdown, LaTeX, CSV and JSON, with the escaping of each format.

What the cells say is decided in `comparisons`, HTML is in `page`.
"""
