"""The figure of one step under a plan: device memory, transfers and compute over time."""

from teraio_figures import style
from teraio_figures.timeline import (
    COMPUTE,
    HOST_READ,
    HOST_WRITE,
    REPLAY,
    SSD_READ,
    SSD_WRITE,
    STALL,
)

SLICES = 240


def step(timeline, capacity_bytes, title):
    """Draws a Timeline, with the capacity of the device as a line. Returns the figure."""
    figure, panels = style.grid(
        4, 1, width=9, height=1.5, sharex=True, height_ratios=[3, 1.4, 1.4, 1]
    )
    memory, writes, reads, compute = panels[:, 0]
    at = [(index + 0.5) * timeline.step_s / SLICES for index in range(SLICES)]
    draw_memory(memory, at, timeline, capacity_bytes)
    memory.set_title(title)
    draw_busy(writes, at, timeline, {"device to SSD": SSD_WRITE, "device to host": HOST_WRITE})
    draw_busy(reads, at, timeline, {"SSD to device": SSD_READ, "host to device": HOST_READ})
    writes.set_ylabel("writes, busy")
    reads.set_ylabel("reads, busy")
    draw_compute(compute, at, timeline)
    for axes in (writes, reads, compute):
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 1])
    compute.set_xlim(0, timeline.step_s)
    compute.set_xlabel("time in the step, seconds")
    figure.align_ylabels()
    return figure


def draw_memory(axes, at, timeline, capacity_bytes):
    used = [size_bytes / 1e9 for size_bytes in timeline.memory(SLICES)]
    axes.fill_between(at, used, step="mid", color=style.BLUE)
    axes.axhline(capacity_bytes / 1e9, color=style.RED, linewidth=1)
    axes.set_ylim(0, capacity_bytes / 1e9 * 1.08)
    axes.set_ylabel("device memory, GB")


def draw_busy(axes, at, timeline, rows):
    for (label, row), color in zip(rows.items(), [style.ORANGE, style.OCHRE], strict=True):
        busy = timeline.busy(row, SLICES)
        if any(busy):
            axes.fill_between(at, busy, step="mid", color=color, alpha=0.8, label=label)
    axes.legend(loc="upper right", frameon=True)


def draw_compute(axes, at, timeline):
    rows = {"ops": (COMPUTE, style.GREEN), "stall": (STALL, style.RED)}
    busy = {label: timeline.busy(row, SLICES) for label, (row, _) in rows.items()}
    colors = [color for _, color in rows.values()]
    if any(replays := timeline.busy(REPLAY, SLICES)):
        busy["replays"] = replays
        colors.append(style.VIOLET)
    axes.stackplot(at, *busy.values(), colors=colors, labels=list(busy), step="mid")
    axes.set_ylabel("compute")
    axes.legend(loc="lower right", frameon=True)
