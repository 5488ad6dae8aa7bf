"""The web page: its views, the rows behind the views, and the page's HTML, style and script.

What is shown is computed elsewhere, in `comparisons` and `statistics`; charts are in `charts`.
"""
