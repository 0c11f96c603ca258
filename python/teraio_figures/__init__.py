"""The figures of `teraio characterize`, `teraio what-if` and `make paper`, from tables in JSON.

python -m teraio_figures TABLES.json draws the figures of one file beside it, as SVG and PNG. A
package of its own: it needs matplotlib, and neither torch nor the extension.
"""
