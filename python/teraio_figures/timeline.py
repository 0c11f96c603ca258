"""What happens over time in a simulated step, from the events of `teraio simulate --timeline`.

Times are in seconds, sizes in bytes. A slice is one of several equal parts of the step.
"""

# The rows of the timeline: the `tid` of an event.
COMPUTE, STALL, SSD_READ, HOST_READ, SSD_WRITE, HOST_WRITE = range(1, 7)
REPLAY = 8  # 7: drops and discards
TRANSFERS = (SSD_READ, HOST_READ, SSD_WRITE, HOST_WRITE)


class Timeline:
    """The events of one step in steady state.

    `events` is the list `traceEvents` of a timeline's file, `step_s` the length of the step. The
    step starts with its first op or stall. An event that passes the end of the step continues at
    its start, where the one of the previous step does.
    """

    def __init__(self, events, step_s):
        self.step_s = step_s
        self._events = [event for event in events if event["ph"] == "X"]
        starts = [event["ts"] for event in self._events if event["tid"] in (COMPUTE, STALL, REPLAY)]
        self._start_us = min(starts, default=0)

    def overlapped_s(self):
        """The time in which an op or a replay and at least one transfer run."""
        transfers = union((start, end) for start, end, _ in self._spans(TRANSFERS))
        ops = union((start, end) for start, end, _ in self._spans((COMPUTE, REPLAY)))
        return intersection_s(transfers, ops)

    def rates(self, row, slices):
        """The bytes per second that the row moves, for each slice."""
        slice_s = self.step_s / slices
        return [moved / slice_s for moved in self._per_slice(self._spans((row,)), slices)]

    def _seconds(self, time_us):
        return (time_us - self._start_us) / 1e6

    def _spans(self, rows):
        """(start, end, bytes) within the step; an event that passes its end gives two."""
        for event in self._events:
            if event["tid"] in rows and event["dur"] > 0:
                start = self._seconds(event["ts"])
                yield from self._folded(start, event["dur"] / 1e6, event["args"].get("bytes", 0))

    def _folded(self, start, length, size):
        rate = size / length
        start %= self.step_s
        while length > 1e-12:
            end = min(start + length, self.step_s)
            yield start, end, rate * (end - start)
            length -= end - start
            start = 0.0

    def _per_slice(self, spans, slices):
        """The amounts of spans (start, end, amount) that fall into each slice."""
        totals = [0.0] * slices
        slice_s = self.step_s / slices
        for start, end, amount in spans:
            last = min(slices - 1, int(end / slice_s))
            for index in range(min(slices - 1, int(start / slice_s)), last + 1):
                part = min(end, (index + 1) * slice_s) - max(start, index * slice_s)
                totals[index] += amount * max(0.0, part) / (end - start)
        return totals


def union(spans):
    """Disjoint spans [start, end] in order, which cover the same times as the spans given."""
    joined = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def intersection_s(some, others):
    """The length of the times that two unions have in common."""
    total, at = 0.0, 0
    for start, end in some:
        while at < len(others) and others[at][1] <= start:
            at += 1
        index = at
        while index < len(others) and others[index][0] < end:
            total += min(end, others[index][1]) - max(start, others[index][0])
            index += 1
    return total
