"""What a simulated step does over time, from the events of `teraio simulate --timeline`."""

COMPUTE, SSD_READ, SSD_WRITE = 1, 3, 5
CHANNELS = (3, 4, 5, 6)


class Timeline:
    """Events of one step in steady state; what passes its ends is folded back into it."""

    def __init__(self, events, step_s):
        self.events = [event for event in events if event["ph"] == "X"]
        self.step_s = step_s
        first = [e["ts"] for e in self.events if e["tid"] <= 2]
        self.start_us = min(first, default=0)

    def spans(self, rows):
        """(start, end, bytes) in seconds within the step; a span over its end becomes two."""
        for event in self.events:
            if event["tid"] in rows and event["dur"] > 0:
                start = (event["ts"] - self.start_us) / 1e6
                yield from self._folded(start, event["dur"] / 1e6, event["args"].get("bytes", 0))

    def _folded(self, start, length, size):
        rate = size / length
        start %= self.step_s
        while length > 1e-12:
            end = min(start + length, self.step_s)
            yield start, end, rate * (end - start)
            length -= end - start
            start = 0.0

    def overlapped_s(self):
        """How long ops run while at least one transfer does."""
        transfers = united((start, end) for start, end, _ in self.spans(CHANNELS))
        ops = united((start, end) for start, end, _ in self.spans((COMPUTE,)))
        return common_s(transfers, ops)

    def rates(self, row, slices):
        """Per slice of the step, the bytes per second that the row moves."""
        moved = [0.0] * slices
        slice_s = self.step_s / slices
        for start, end, size in self.spans((row,)):
            last = min(slices - 1, int(end / slice_s))
            for index in range(min(slices - 1, int(start / slice_s)), last + 1):
                part = min(end, (index + 1) * slice_s) - max(start, index * slice_s)
                moved[index] += size * max(0.0, part) / (end - start)
        return [size / slice_s for size in moved]


def united(spans):
    """Disjoint spans in order that cover the same times."""
    joined = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def common_s(some, others):
    """The length of what two lists of disjoint spans in order have in common."""
    total, at = 0.0, 0
    for start, end in some:
        while at < len(others) and others[at][1] <= start:
            at += 1
        index = at
        while index < len(others) and others[index][0] < end:
            total += min(end, others[index][1]) - max(start, others[index][0])
            index += 1
    return total
