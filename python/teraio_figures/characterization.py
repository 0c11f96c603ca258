"""Figures of `teraio characterize`: memory per op, inactive periods, the migration roofline.

A trace is an entry of `traces` in the tables that `teraio characterize --out` writes
(docs/planning.md).
"""

import math

from teraio_figures import style

SLICES = 600  # points on a curve, at most
LONG_PERIOD_S = 0.01
MIDDLE_BYTES = (1e7, 1e9)


def draw(tables, folder):
    """Writes memory, idle-periods and, where there are rooflines, roofline as SVG and PNG."""
    traces = tables["traces"]
    style.save(memory(traces), folder, "memory")
    style.save(periods(traces), folder, "idle-periods")
    if any(trace["roofline"] for trace in traces):
        style.save(roofline(traces), folder, "roofline")


def memory(traces):
    """Draws all bytes and active bytes per op as shares of the capacity, a panel per trace."""
    figure, panels = style.grid(len(traces), 1, width=7, height=2.5)
    for (axes,), trace in zip(panels, traces, strict=True):
        draw_memory(axes, trace)
        axes.set_title(style.short(trace["name"], 70))
    panels[-1][0].set_xlabel("op of the step")
    panels[0][0].legend(loc="center right", ncols=3)
    return figure


def draw_memory(axes, trace):
    ops = trace["per_op"]
    whole = trace.get("capacity_bytes") or max(ops["all_bytes"], default=1)
    count = len(ops["all_bytes"])
    for key, color, label in [
        ("all_bytes", style.BLUE, "all tensors"),
        ("active_bytes", style.ORANGE, "active tensors"),
    ]:
        at, most = most_per_slice(ops[key])
        # A logarithmic axis has no place for zero.
        shares = [value / whole if value else math.nan for value in most]
        axes.plot(at, shares, color=color, linewidth=0.9, label=label)
    if "capacity_bytes" in trace:
        axes.axhline(1, color=style.RED, linewidth=0.9, label="capacity")
    axes.set_yscale("log")
    axes.set_ylabel("of capacity" if "capacity_bytes" in trace else "of peak")
    axes.set_xlim(0, max(count, 1))
    mark_phases(axes, trace["phases"][:-1])


def most_per_slice(values):
    """Divides the ops into at most SLICES runs of equal length.

    Returns the middle op of each run, and the largest of its values.
    """
    step = max(1, math.ceil(len(values) / SLICES))
    firsts = range(0, len(values), step)
    return [first + step / 2 for first in firsts], [max(values[i : i + step]) for i in firsts]


def mark_phases(axes, phases):
    """Shades every second phase of the step."""
    first = 0
    for index, phase in enumerate(phases):
        if index % 2:
            axes.axvspan(first, first + phase["ops"], color=style.GREY, alpha=0.12, linewidth=0)
        first += phase["ops"]


def periods(traces):
    """Draws inactive periods, a row per trace.

    On the left, how many there are by size and length; on the right, which share of them is longer
    than a time, by kind of tensor.
    """
    figure, panels = style.grid(len(traces), 2, width=4.6, height=2.9)
    for (places, curves), trace in zip(panels, traces, strict=True):
        draw_period_places(places, trace)
        draw_period_curves(curves, trace)
        places.set_title(style.short(trace["name"], 52))
    return figure


def draw_period_places(axes, trace):
    most = max((cell["periods"] for cell in trace["period_cells"]), default=1)
    for kind, color in style.KINDS.items():
        cells = [cell for cell in trace["period_cells"] if cell["kind"] == kind]
        if not cells:
            continue
        half = 10 ** (0.5 / 10)  # from the lower edge of a cell to its middle
        axes.scatter(
            [cell["idle_ns_from"] / 1e9 * half for cell in cells],
            [cell["bytes_from"] * half for cell in cells],
            s=[4 + 80 * cell["periods"] / most for cell in cells],
            color=color,
            alpha=0.6,
            linewidths=0,
        )
    axes.axvline(LONG_PERIOD_S, color=style.RED, linewidth=0.8)
    axes.axhspan(*MIDDLE_BYTES, color=style.GREY, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set(xlabel="inactive period, seconds", ylabel="tensor size, bytes")


def draw_period_curves(axes, trace):
    for kind, color in [*style.KINDS.items(), (None, "black")]:
        idle = sorted(
            (cell["idle_ns_from"] / 1e9, cell["periods"])
            for cell in trace["period_cells"]
            if kind in (None, cell["kind"])
        )
        if idle:
            draw_longer_than(axes, idle, color, (kind or "all").replace("_", " "))
    axes.axvline(LONG_PERIOD_S, color=style.RED, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    axes.set(xlabel="inactive period, seconds", ylabel="part of the periods that is longer")
    axes.legend(loc="lower left")


def draw_longer_than(axes, idle, color, label):
    """Draws a survival curve of (seconds, number of periods) in order."""
    total = sum(count for _, count in idle)
    left, parts = total, []
    for _, count in idle:
        parts.append(left / total)
        left -= count
    axes.step([seconds for seconds, _ in idle], parts, where="pre", color=color, label=label)


def roofline(traces):
    """Draws the largest fraction of ideal that any plan can reach, against bandwidth."""
    figure, ((axes,),) = style.grid(1, 1, width=6, height=3.4)
    with_roofline = [trace for trace in traces if trace["roofline"]]
    for index, trace in enumerate(with_roofline):
        draw_roofline(axes, trace, style.LINES[index % len(style.LINES)])
    finish_roofline(axes)
    return figure


def draw_roofline(axes, trace, color, **options):
    rates = [point["bytes_per_second"] / 1e9 for point in trace["roofline"]]
    bounds = [point["fraction_of_ideal"] for point in trace["roofline"]]
    options.setdefault("label", style.short(trace["name"]))
    style.points(axes, rates, bounds, color, **options)


def finish_roofline(axes):
    style.powers_of_two(axes, [1, 2, 4, 8, 16, 32, 64, 128])
    axes.set_ylim(0, 1.03)
    axes.set(xlabel="migration bandwidth, GB/s each way", ylabel="of ideal, at most")
    axes.legend(loc="lower right")
