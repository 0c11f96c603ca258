"""Draws the figures of TERAIO with matplotlib, from tables and timelines in JSON.

`python -m teraio_figures TABLES.json` draws the tables that `teraio characterize` or
`teraio what-if` wrote, as SVG and PNG files beside them. The package needs neither PyTorch nor the
extension.
"""
