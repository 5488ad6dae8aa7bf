"""The web page: its views, the rows behind the views, and the page's HTML, style and script."""
