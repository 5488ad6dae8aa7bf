"""Reports as text: terminal, Markdown, LaTeX, CSV and JSON, with the escaping of each format."""
