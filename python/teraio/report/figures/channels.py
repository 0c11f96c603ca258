"""Compute with its stalls, reads and writes on one time axis."""

import numpy
from plotly.subplots import make_subplots

from teraio.report import change_points
from teraio.report.figures import style
from teraio.report.timeline import TRANSFER_ROWS, within_step
from teraio_figures.timeline import HOST_READ, HOST_WRITE, SSD_READ, SSD_WRITE

LIMIT = 1200  # parts that the step is divided into
_READS = {SSD_READ: style.READ, HOST_READ: style.HOST_READ}
_WRITES = {SSD_WRITE: style.WRITE, HOST_WRITE: style.HOST_WRITE}


def channels(timeline):
    """Returns the figure of a Timeline."""
    figure = style.figure(460)
    figure = make_subplots(
        rows=3, shared_xaxes=True, row_heights=[0.4, 0.3, 0.3], vertical_spacing=0.06, figure=figure
    )
    at = change_points.edges(_times(timeline), 0, timeline.step_s, LIMIT)
    _add_compute(figure, timeline, at)
    for row, rates, title in ((2, _READS, "reads"), (3, _WRITES, "writes")):
        for channel, color in rates.items():
            _add_rate(figure, row, timeline, at, channel, color)
        figure.update_yaxes(row=row, **style.size_axis(title) | {"ticksuffix": "B/s", "nticks": 4})
    figure.update_yaxes(row=1, title="share of time", tickformat=".0%", range=[0, 1])
    figure.update_xaxes(row=3, **style.time_axis())
    figure.update_xaxes(range=[0, timeline.step_s], hoverformat=".4~s")
    return figure


def _times(timeline):
    spans = (*timeline.stalls, *timeline.replays, *timeline.transfers)
    return numpy.array([time for each in spans for time in (each.start_s, each.end_s)], dtype=float)


def _add_compute(figure, timeline, at):
    shares = {
        f"waits: {cause}": (_share(at, _of_cause(timeline, cause)), color)
        for cause, color in style.CAUSES.items()
    }
    shares["replays"] = (_share(at, timeline.replays), style.REPLAY)
    idle = sum(share for share, _ in shares.values())
    shares = {"compute": (1 - idle, style.COMPUTE)} | shares
    for name, (share, color) in shares.items():
        if name == "compute" or share.any():
            _add_area(figure, 1, at, share, name, color, "%{y:.0%}")


def _of_cause(timeline, cause):
    return [stall for stall in timeline.stalls if stall.cause == cause]


def _share(at, spans):
    starts = numpy.array([each.start_s for each in spans])
    ends = numpy.array([each.end_s for each in spans])
    return change_points.means(at, starts, ends, numpy.ones(len(spans)))


def _add_rate(figure, row, timeline, at, channel, color):
    parts = [
        (start, end, each.size_bytes / (each.end_s - each.start_s))
        for each in timeline.transfers
        if each.row == channel and each.end_s > each.start_s
        for start, end in within_step(each.start_s, each.end_s, timeline.step_s)
    ]
    if parts:
        rate = change_points.means(at, *numpy.array(parts).T)
        _add_area(figure, row, at, rate, TRANSFER_ROWS[channel], color, "%{y:.3s}B/s")


def _add_area(figure, row, at, values, name, color, hover):
    options = {"stackgroup": f"row {row}", "fillcolor": color, "hovertemplate": hover}
    area = style.line(at, numpy.append(values, values[-1]), name, color, **options)
    area.line.width = 0
    figure.add_trace(area, row=row, col=1)
