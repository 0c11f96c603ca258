"""Device memory over one step against the budget, by kind of tensor."""

import numpy

from teraio.report import change_points
from teraio.report.figures import style

LIMIT = 1000  # moments


def memory(levels, directory):
    """Returns the figure.

    Args:
        levels: a MemoryLevels, or None without a predicted step.
        directory: the RunDirectory.
    """
    run = directory.run
    measured = numpy.array(run["memory_timeline"], dtype=float).reshape(-1, 2)
    if levels is None and len(measured) == 0:
        return None
    figure = style.figure(380, xaxis=style.time_axis(), yaxis=style.size_axis("device memory"))
    end_s = max([0.0, *measured[:, 0]])
    if levels is not None:
        end_s = max(end_s, levels.times[-1])
        _add_kinds(figure, levels)
    if len(measured):
        kept = change_points.peaks(measured[:, 1][None], LIMIT)
        measured_line = (*measured[kept].T, "measured in the last step", "#8a8f98")
        figure.add_trace(style.line(*measured_line))
    budget = [run["device_budget_bytes"]] * 2
    figure.add_trace(style.line([0, end_s], budget, "device budget", style.LINE, dash="dash"))
    return figure


def _add_kinds(figure, levels):
    kept = change_points.peaks(levels.of_kind, LIMIT)
    for kind, level in zip(levels.kinds, levels.of_kind, strict=True):
        if not level.any():
            continue
        color = style.KINDS[kind]
        options = {"stackgroup": "kinds", "fillcolor": color}
        area = style.line(levels.times[kept], level[kept], style.label(kind), color, **options)
        area.line.width = 0
        figure.add_trace(area)
    kept = change_points.peaks(levels.natural[None], LIMIT)
    natural = (levels.times[kept], levels.natural[kept], "all tensors, if nothing moved")
    figure.add_trace(style.line(*natural, style.REPLAY, dash="dot"))
