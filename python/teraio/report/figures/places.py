"""Where the largest tensors are over one step: a row per tensor."""

import numpy
import plotly.graph_objects as go

from teraio.report import change_points
from teraio.report.figures import style
from teraio.report.memory_levels import KINDS
from teraio.report.residency import PLACES

ROWS = 240
LIMIT = 1000  # parts that the step is divided into
USES = 400  # of a tensor, at most
_NAME_LENGTH = 30


def largest_tensors(trace, places):
    """Returns the ROWS largest tensors of a trace that exist in the step, by kind and first use.

    Of tensors with the same size, those that exist longest are taken.
    """

    def lifetime_s(tensor):
        spans = places[tensor["id"]]
        return spans[-1][1] - spans[0][0]

    known = [tensor for tensor in trace["tensors"] if places.get(tensor["id"])]
    largest = sorted(known, key=lambda each: (-each["bytes"], -lifetime_s(each)))[:ROWS]
    return sorted(
        largest, key=lambda each: (KINDS.index(each["kind"]), places[each["id"]][0][0], each["id"])
    )


def places_of_tensors(trace, timeline, places, modules):
    """Returns the figure.

    Args:
        trace: the content of a trace file. timeline: a Timeline of it.
        places: what residency() returns. modules: the Modules of the trace.
    """
    tensors = largest_tensors(trace, places)
    if not tensors:
        return None
    spans = [places[tensor["id"]] for tensor in tensors]
    times = numpy.array([start for each in spans for start, _, _ in each])
    at = change_points.edges(times, 0, timeline.step_s, LIMIT)
    figure = style.figure(
        max(220, min(640, 100 + 8 * len(tensors))),
        xaxis=style.time_axis() | {"range": [0, timeline.step_s]},
        yaxis={"autorange": "reversed", "type": "category", "showgrid": False, "automargin": True},
        meta=_details(tensors, trace, timeline, modules),
    )
    figure.update_layout(hovermode="closest", showlegend=False)
    figure.add_trace(
        go.Heatmap(
            x=at,
            y=[f"{row + 1}: {short_name(tensor)}" for row, tensor in enumerate(tensors)],
            z=numpy.array([_place_at_middle(each, at) for each in spans], dtype=numpy.int8),
            zmin=-0.5,
            zmax=len(PLACES) - 0.5,
            colorscale=_colorscale(),
            showscale=False,
            hoverinfo="none",
        )
    )
    return figure


def short_name(tensor):
    name = tensor.get("name") or f"{style.label(tensor['kind'])} {tensor['id']}"
    return name if len(name) <= _NAME_LENGTH else "…" + name[1 - _NAME_LENGTH :]


def _place_at_middle(spans, at):
    """Returns the number of the place in the middle of each part of the step."""
    middles = (at[:-1] + at[1:]) / 2
    starts = numpy.array([start for start, _, _ in spans])
    numbers = numpy.array([PLACES.index(place) for _, _, place in spans])
    row = numpy.searchsorted(starts, middles, side="right") - 1
    exists = (row >= 0) & (middles < spans[-1][1])
    return numpy.where(exists, numbers[numpy.maximum(row, 0)], 0)


def _colorscale():
    colors = list(style.PLACES.values())
    count = len(colors)
    return [(edge / count, colors[i]) for i in range(count) for edge in (i, i + 1)]


def _details(tensors, trace, timeline, modules):
    """Returns what the page tells about a tensor when the pointer is on its row."""
    wanted = {tensor["id"]: ([], []) for tensor in tensors}
    op_names = {}
    for op, start in zip(trace["ops"], timeline.op_start_s.tolist(), strict=True):
        for tensor in (*op["reads"], *op["writes"]):
            if tensor in wanted and len(wanted[tensor][0]) < USES:
                wanted[tensor][0].append(round(start, 7))
                wanted[tensor][1].append(op_names.setdefault(op["name"], len(op_names)))
    rows = [
        {
            "name": tensor.get("name") or f"tensor {tensor['id']}",
            "kind": style.label(tensor["kind"]),
            "module": modules.of_tensor.get(tensor["id"], ""),
            "bytes": tensor["bytes"],
            "uses": wanted[tensor["id"]][0],
            "ops": wanted[tensor["id"]][1],
        }
        for tensor in tensors
    ]
    return {"rows": rows, "ops": list(op_names), "places": PLACES, "step": timeline.step_s}
