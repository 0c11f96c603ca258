"""Device memory over a predicted step, by kind of tensor."""

from dataclasses import dataclass

import numpy

from teraio.report.change_points import level
from teraio.report.residency import ON_DEVICE

KINDS = ("parameter", "gradient", "optimizer_state", "activation", "input", "other", "workspace")


@dataclass(frozen=True)
class MemoryLevels:
    """Bytes from each time on.

    - `times`: an array, in order. - `kinds`: names.
    - `of_kind`: the bytes on the device, an array of shape [kind, time].
    - `natural`: the bytes of all tensors that exist, wherever they are, and of workspaces.
    """

    times: numpy.ndarray
    kinds: tuple
    of_kind: numpy.ndarray
    natural: numpy.ndarray


def memory_levels(trace, timeline, places):
    """Returns the MemoryLevels of a step.

    Args:
        trace: the content of a trace file. timeline: a Timeline of it.
        places: what residency() returns.
    """
    row_of = {kind: row for row, kind in enumerate(KINDS)}
    changes = []  # (time, row, bytes); the last row is the natural level
    for tensor in trace["tensors"]:
        spans = places.get(tensor["id"], ())
        row, size = row_of[tensor["kind"]], tensor["bytes"]
        for start, end, place in spans:
            if place in ON_DEVICE:
                changes += ((start, row, size), (end, row, -size))
        if spans:
            changes += ((spans[0][0], len(KINDS), size), (spans[-1][1], len(KINDS), -size))
    times = zip(timeline.op_start_s.tolist(), timeline.op_end_s.tolist(), strict=True)
    for op, (start, end) in zip(trace["ops"], times, strict=True):
        if size := op["workspace_bytes"]:
            for row in (row_of["workspace"], len(KINDS)):
                changes += ((start, row, size), (end, row, -size))
    return _levels(numpy.array(changes, dtype=float).reshape(-1, 3))


def _levels(changes):
    times = numpy.unique(changes[:, 0])
    levels = numpy.zeros((len(KINDS) + 1, len(times)))
    for row in range(len(levels)):
        mine = changes[changes[:, 1] == row]
        if len(mine):
            at, values = level(mine[:, 0], mine[:, 2])
            known = numpy.searchsorted(at, times, side="right") - 1
            levels[row] = numpy.where(known >= 0, values[numpy.maximum(known, 0)], 0)
    if len(times) > 1:
        levels[:, -1] = levels[:, -2]  # at the end of the step, the next one begins
    return MemoryLevels(times, KINDS, levels[:-1], levels[-1])
