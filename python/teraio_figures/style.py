"""What all figures have in common: colours, sizes, shapes of lines, and how they are written.

Importing this module sets matplotlib's defaults for the process.
"""

import matplotlib
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED = "#4c78a8", "#f58518", "#54a24b", "#b03030"
OCHRE, VIOLET, GREY, PINK = "#b79a20", "#8a63a8", "#9a9a9a", "#d98a8a"
TEAL, BROWN = "#3a9a95", "#8c6a45"
LINES = [BLUE, ORANGE, GREEN, VIOLET, OCHRE, RED, GREY]

# The kinds of tensors that a trace has.
KINDS = {
    "parameter": BLUE,
    "gradient": ORANGE,
    "optimizer_state": GREEN,
    "activation": VIOLET,
    "input": OCHRE,
    "workspace": RED,
    "other": GREY,
}

# Text in SVG files stays text, and the same tables give the same bytes.
matplotlib.rcParams |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "teraio",
    "font.sans-serif": ["DejaVu Sans"],  # each text of an SVG file repeats the list
    "savefig.dpi": 110,
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.fontsize": 7,
    "legend.frameon": False,
}


def grid(rows, columns, width=4.2, height=2.6, **options):
    """Makes a figure with rows x columns panels of `width` x `height` inches each.

    `options` are those of matplotlib's Figure.subplots. Returns the figure, and its panels (Axes)
    as an array of shape [rows, columns].
    """
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def points(axes, x, y, color, **options):
    """Draws a line through marked points; `options` are those of matplotlib's Axes.plot."""
    axes.plot(x, y, marker="o", markersize=3, color=color, **options)


def powers_of_two(axes, ticks):
    """Makes the x axis logarithmic, with the ticks given, each written in full."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])


def save(figure, folder, name):
    """Writes NAME.svg and NAME.png into the folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png")


def short(name, length=44):
    """The name, cut to `length` characters with an ellipsis at the end."""
    return name if len(name) <= length else name[: length - 1] + "…"
