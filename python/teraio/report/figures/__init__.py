"""The charts of the page. Each function returns a Plotly figure, or None where there is no data."""
