"""A screen of a terminal as SVG, in characters that need no font from the network."""

import io
import re
from itertools import groupby

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.color import Color, ColorParseError
from rich.console import Console
from rich.style import Style
from rich.text import Text

_FONTS = "DejaVu Sans Mono, Liberation Mono, monospace"
_FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", _FONTS
)
_NAMES = {"brown": "yellow", "default": "default"}  # pyte calls ANSI's yellow brown


def svg_of(screen, title):
    """Returns the text of an SVG file that shows a `pyte.Screen`, without empty rows at its end."""
    rows = [_row(screen, number) for number in range(screen.lines)]
    while rows and not rows[-1].plain.strip():
        rows.pop()
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    for row in rows:
        console.print(row, no_wrap=True, crop=True)
    return console.export_svg(title=title, code_format=_FORMAT, unique_id="terminal")


def _row(screen, number):
    text = Text()
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    for style, run in groupby(cells, _style):  # a run is one element of the SVG
        text.append("".join(cell.data for cell in run), style)
    if not any(cell.reverse for cell in cells):
        text.rstrip()
    return text


def _style(cell):
    return Style(
        color=_color(cell.fg), bgcolor=_color(cell.bg), bold=cell.bold, reverse=cell.reverse
    )


def _color(name):
    name = _NAMES.get(name, name)
    try:
        return Color.parse(name)
    except ColorParseError:
        return Color.parse(f"#{name}")  # of the 256 colours, or a true colour
