"""What happens when in a predicted step, from the events of `teraio simulate --timeline`."""

from dataclasses import dataclass

import numpy

from teraio_figures.timeline import (
    COMPUTE,
    HOST_READ,
    HOST_WRITE,
    REPLAY,
    SSD_READ,
    SSD_WRITE,
    STALL,
)

TRANSFER_ROWS = {
    SSD_READ: "drives to device",
    HOST_READ: "host to device",
    SSD_WRITE: "device to drives",
    HOST_WRITE: "device to host",
}
CAUSES = ("read", "memory", "write")


@dataclass(frozen=True)
class Transfer:
    """A migration, or a discard: `start_s` is negative when it began in the step before."""

    tensor: int  # the id
    action: str  # offload, prefetch, drop or discard
    row: int
    start_s: float
    end_s: float
    size_bytes: int


@dataclass(frozen=True)
class Stall:
    op: int  # that waits
    cause: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Replay:
    op: int  # that runs again
    start_s: float
    end_s: float


class Timeline:
    """One step in steady state.

    - `step_s`: its length. - `op_start_s`, `op_end_s`: arrays with the times of each op.
    - `transfers`, `stalls`, `replays`: in order of their starts.

    Times that are equal in nanoseconds are equal here.
    """

    def __init__(self, events, step_s):
        self.step_s = step_s
        spans = sorted((event for event in events if event["ph"] == "X"), key=_start)
        step_rows = (COMPUTE, STALL, REPLAY)
        origin_us = min((event["ts"] for event in spans if event["tid"] in step_rows), default=0)
        self.op_start_s = numpy.zeros(sum(event["tid"] == COMPUTE for event in spans))
        self.op_end_s = numpy.zeros_like(self.op_start_s)
        self.transfers, self.stalls, self.replays = [], [], []
        for event in spans:
            start_ns = _nanoseconds(event["ts"] - origin_us)
            self._add(event, start_ns / 1e9, (start_ns + _nanoseconds(event["dur"])) / 1e9)

    def _add(self, event, start_s, end_s):
        row, details = event["tid"], event["args"]
        if row == COMPUTE:
            self.op_start_s[details["op"]] = start_s
            self.op_end_s[details["op"]] = end_s
        elif row == STALL:
            self.stalls.append(Stall(details["op"], details["cause"], start_s, end_s))
        elif row == REPLAY:
            self.replays.append(Replay(details["op"], start_s, end_s))
        else:
            what = (details["tensor"], details["action"], row)
            self.transfers.append(Transfer(*what, start_s, end_s, details["bytes"]))


def _nanoseconds(time_us):
    return round(time_us * 1000)


def _start(event):
    return event["ts"]


def within_step(start_s, end_s, step_s):
    """Yields the parts of a span that lie within the step.

    A span that began in the step before continues at the end of this one, because steps repeat.
    """
    if start_s < 0:
        yield (max(start_s, -step_s) + step_s, step_s)
        start_s = 0
    if end_s > step_s:
        yield (0, min(end_s - step_s, step_s))
        end_s = step_s
    if end_s > start_s:
        yield (start_s, end_s)
