"""What all figures have in common: colours, sizes, how they are written."""

import matplotlib
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, RED = "#4c78a8", "#f58518", "#54a24b", "#b03030"
OCHRE, VIOLET, GREY, PINK = "#b79a20", "#8a63a8", "#9a9a9a", "#d98a8a"
LINES = [BLUE, ORANGE, GREEN, VIOLET, OCHRE, RED, GREY]

KINDS = {
    "parameter": BLUE,
    "gradient": ORANGE,
    "optimizer_state": GREEN,
    "activation": VIOLET,
    "input": OCHRE,
    "workspace": RED,
    "other": GREY,
}

# Text stays text, and the same tables give the same bytes.
matplotlib.rcParams |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "teraio",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.fontsize": 7,
    "legend.frameon": False,
}


def grid(rows, columns, width=4.2, height=2.6, **options):
    """A figure, and its panels as a list of rows; sizes in inches per panel."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def save(figure, folder, name):
    """Writes NAME.svg and NAME.png into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    figure.savefig(folder / f"{name}.png", dpi=110)


def short(name, length=44):
    return name if len(name) <= length else name[: length - 1] + "…"
