"""Reports as text: terminal, Markdown, LaTeX, CSV and JSON, and the escaping that each needs."""
