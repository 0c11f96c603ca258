"""Where each tensor is over a predicted step."""

from teraio_figures.timeline import HOST_READ, HOST_WRITE

# The places, in the order of their numbers in a chart. A tensor that is being written still takes
# device memory, and one that is being read takes it already.
ABSENT, DEVICE, WRITING, READING, DRIVES, HOST, DISCARDED = PLACES = (
    "does not exist",
    "device",
    "on its way out",
    "on its way in",
    "drives",
    "host",
    "discarded",
)
ON_DEVICE = {DEVICE, WRITING, READING}


class Lives:
    """From when to when each tensor of a trace exists: `spans` is a dict from ids to (start, end).

    A persistent tensor exists all of the step. Another one exists from the first op that touches it
    until the op that frees it, or the last one that touches it.
    """

    def __init__(self, trace, timeline):
        self.persistent = {each["id"] for each in trace["tensors"] if each["persistent"]}
        first, last, freed = {}, {}, {}
        for k, op in enumerate(trace["ops"]):
            for tensor in (*op["reads"], *op["writes"]):
                first.setdefault(tensor, k)
                last[tensor] = k
            for tensor in op["frees"]:
                freed[tensor] = k
        last |= freed
        starts, ends = timeline.op_start_s.tolist(), timeline.op_end_s.tolist()
        self.spans = {id: (0.0, timeline.step_s) for id in self.persistent}
        for tensor in first.keys() - self.persistent:
            self.spans[tensor] = (starts[first[tensor]], ends[last[tensor]])


def residency(trace, timeline):
    """Returns where each tensor is: a dict from ids to lists of (start, end, place) in order.

    Args:
        trace: the content of a trace file.
        timeline: a Timeline of the trace.
    """
    lives = Lives(trace, timeline)
    moves = _moves(trace, timeline)
    return {
        tensor: _places(span, moves.get(tensor, ()), tensor in lives.persistent)
        for tensor, span in lives.spans.items()
    }


def _moves(trace, timeline):
    """Returns a dict from ids to lists of (time, place that the tensor is at from then on)."""
    by_tensor = {}
    for each in timeline.transfers:
        by_tensor.setdefault(each.tensor, []).append(each)
    moves = {tensor: list(_moves_of(transfers))[::-1] for tensor, transfers in by_tensor.items()}
    for replay in timeline.replays:
        for tensor in trace["ops"][replay.op]["writes"]:
            if any(place == DISCARDED for _, place in moves.get(tensor, ())):
                moves[tensor].append((replay.start_s, DEVICE))
    step_s = timeline.step_s
    return {tensor: sorted(_wrapped(each, step_s), key=_time) for tensor, each in moves.items()}


def _moves_of(transfers):
    """The moves of one tensor, from the last one to the first one: what a drop leaves the tensor to
    is the tier that the next transfer, which may be in the next step, reads it from."""
    tier = _tier_of(transfers[0])
    for each in reversed(transfers):
        if each.action in ("offload", "prefetch"):
            tier = _tier_of(each)
        if each.action == "prefetch":
            yield from ((each.end_s, DEVICE), (each.start_s, READING))
        elif each.action == "offload":
            yield from ((each.end_s, tier), (each.start_s, WRITING))
        else:
            yield (each.end_s, DISCARDED if each.action == "discard" else tier)


def _tier_of(transfer):
    return HOST if transfer.row in (HOST_READ, HOST_WRITE) else DRIVES


def _wrapped(moves, step_s):
    """Moves before the step's start as those at the end of the step: steps repeat.

    Rounded to nanoseconds, they stay equal to the times of ops at the same nanosecond.
    """
    for time_s, place in moves:
        yield (round(time_s + step_s, 9) if time_s < 0 else min(time_s, step_s)), place


def _time(move):
    return move[0]


def _places(span, moves, is_persistent):
    """Returns the (start, end, place) of one tensor from its moves."""
    start_s, end_s = span
    place = moves[-1][1] if moves and is_persistent else DEVICE
    places = []
    for time_s, next_place in moves:
        if time_s > start_s:
            places.append((start_s, min(time_s, end_s), place))
        start_s, place = max(start_s, time_s), next_place
    places.append((start_s, end_s, place))
    return [each for each in places if each[1] > each[0]]
