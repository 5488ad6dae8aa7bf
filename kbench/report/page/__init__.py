"""The web page: its views, the rows behind them, and the HTML, style and script it is made of."""
