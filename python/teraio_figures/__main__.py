"""python -m teraio_figures TABLES.json: draws the figures of a file of tables, in its folder.

Exits with 0; with 2 when the format of the file is unknown; with NO_PLOTTING_LIBRARY when this
Python has no matplotlib. A message on stderr gives the reason.
"""

import importlib.util
import json
import sys
from pathlib import Path

NO_PLOTTING_LIBRARY = 3  # the exit code that cli/python.cpp knows


def main(arguments):
    path = Path(arguments[0])
    if importlib.util.find_spec("matplotlib") is None:
        print(
            f"teraio: no figures: {sys.executable} has no matplotlib: install it there, or set "
            f"TERAIO_PYTHON to an interpreter that has it; the tables are in {path}",
            file=sys.stderr,
        )
        return NO_PLOTTING_LIBRARY
    from teraio_figures import characterization, what_if

    drawers = {"teraio-characterization/1": characterization.draw, "teraio-what-if/1": what_if.draw}
    tables = json.loads(path.read_text())
    if tables["format"] not in drawers:
        known = " or ".join(drawers)
        print(f'teraio: {path}: field "format": expected {known}', file=sys.stderr)
        return 2
    drawers[tables["format"]](tables, path.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
