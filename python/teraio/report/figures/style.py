"""What all charts have in common: colours that stand out on light and on dark ground, and axes.

The page sets the colours of text and grid lines, because they follow the reader's colour scheme.
"""

import plotly.graph_objects as go

KINDS = {
    "parameter": "#4c8fd6",
    "gradient": "#e8871e",
    "optimizer_state": "#3fa35b",
    "activation": "#9a6bd0",
    "input": "#b79a20",
    "workspace": "#8a8f98",
    "other": "#c76a8a",
}
CAUSES = {"read": "#d9503f", "memory": "#c04fb0", "write": "#c98a00"}
MODES = {"planned": "#3fa35b", "on demand": "#4c8fd6", "deviated": "#e8871e"}
PLACES = {
    "does not exist": "rgba(0,0,0,0)",
    "device": "#4c8fd6",
    "on its way out": "#e8871e",
    "on its way in": "#c9ac1f",
    "drives": "#8a8f98",
    "host": "#3fa35b",
    "discarded": "#c76a8a",
}
SHOWN_PLACES = {place: color for place, color in PLACES.items() if place != "does not exist"}
COMPUTE, REPLAY = "#3fa35b", "#9a6bd0"
READ, WRITE = PLACES["on its way in"], PLACES["on its way out"]  # of drives
HOST_READ, HOST_WRITE = "#4fb3bf", "#4c8fd6"
RUNS = ("#4c8fd6", "#e8871e")
LINE = "#d9503f"  # a limit


def figure(height, **layout):
    """Returns an empty figure of `height` pixels."""
    return go.Figure(
        layout=go.Layout(
            template="none",
            height=height,
            margin={"l": 80, "r": 16, "t": 8, "b": 48},
            paper_bgcolor="rgba(0,0,0,0)",
            plot_bgcolor="rgba(0,0,0,0)",
            hovermode="x unified",
            legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
            **layout,
        )
    )


def label(kind):
    """Returns a kind of tensors as a person writes it."""
    return kind.replace("_", " ")


def size_axis(title):
    return {"title": title, "tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}


def time_axis(title="time in the step"):
    return {"title": title, "ticksuffix": " s"}


def line(x, y, name, color, **options):
    """Returns a trace that keeps each value until the next time."""
    options.setdefault("hovertemplate", "%{y:.3s}B")
    stroke = {"color": color, "width": 1.5, "shape": "hv", "dash": options.pop("dash", "solid")}
    return go.Scatter(x=x, y=y, name=name, mode="lines", line=stroke, **options)
