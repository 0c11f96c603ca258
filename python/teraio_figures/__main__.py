"""python -m teraio_figures TABLES.json: draws the figures of a file of tables, in its folder.

Exits with 0; with 2 when the file cannot be read or its format is unknown; with NO_PLOTTING_LIBRARY
when this Python has no matplotlib. A message on stderr gives the reason.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path

NO_PLOTTING_LIBRARY = 3  # the exit code that cli/python.cpp knows


def main(arguments):
    parser = argparse.ArgumentParser(
        "python -m teraio_figures", description="Draws the figures of a file of tables, beside it."
    )
    parser.add_argument("tables", metavar="TABLES.json", type=Path, help="the file of tables")
    path = parser.parse_args(arguments).tables
    if importlib.util.find_spec("matplotlib") is None:
        print(
            f"teraio: no figures: {sys.executable} has no matplotlib: install it there, or set "
            f"TERAIO_PYTHON to an interpreter that has it; the tables are in {path}",
            file=sys.stderr,
        )
        return NO_PLOTTING_LIBRARY
    from teraio_figures import characterization, what_if

    drawers = {"teraio-characterization/1": characterization.draw, "teraio-what-if/1": what_if.draw}
    try:
        tables = _read(path, drawers)
    except ValueError as error:
        print(f"teraio: {error}", file=sys.stderr)
        return 2
    drawers[tables["format"]](tables, path.parent)
    return 0


def _read(path, formats):
    """Returns the content of a file of tables. Raises ValueError if it has none of the formats."""
    try:
        tables = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if not isinstance(tables, dict) or tables.get("format") not in formats:
        raise ValueError(f'{path}: field "format": expected {" or ".join(formats)}')
    return tables


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
