"""Charts of reports as SVG: axes and marks, and one module for each kind of chart."""
