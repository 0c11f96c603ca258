"""Ranks that run the same program, each at its own speed, and wait for each other at collectives.

A collective starts when every rank has issued it and the one before it has ended, and takes as long
for one rank as for another. A rank that waits for its result goes on when it has ended.
"""

from dataclasses import dataclass

import numpy as np

_MOST_STEPS = 1_000
_STEADY_NS = 1


@dataclass(frozen=True)
class Point:
    """A place of the program where ranks meet: one issues collective `collective` or waits."""

    op: int
    collective: int
    waits: bool


@dataclass(frozen=True)
class Lockstep:
    """A step in steady state. `waits_ns[r, p]` is the wait of rank r at point p."""

    step_ns: float
    waits_ns: np.ndarray


def points_of(collectives):
    """Returns the points of the collectives in the order of the program."""
    issues = [Point(each.issue_op, k, False) for k, each in enumerate(collectives)]
    waits = [Point(each.wait_op, k, True) for k, each in enumerate(collectives)]
    return sorted([*issues, *waits], key=lambda point: point.op)


def steady(points, durations_ns, segments_ns):
    """Returns the step that ranks repeat.

    Args:
        points: the points of the program, in order.
        durations_ns: how long each collective takes once all ranks have issued it.
        segments_ns: an array [ranks, points + 1] of the time that each rank needs between two
            points, from the start of the step to the first one, and from the last one to its end.

    Raises ArithmeticError when steps do not come to repeat.
    """
    clock, network_ns = np.zeros(len(segments_ns)), 0.0
    before = np.inf
    for _ in range(_MOST_STEPS):
        clock, network_ns, waits = _one_step(points, durations_ns, segments_ns, clock, network_ns)
        step_ns = clock.max()
        if np.abs(waits - before).max(initial=0) <= _STEADY_NS:
            return Lockstep(step_ns, waits)
        clock, network_ns, before = clock - step_ns, network_ns - step_ns, waits
    raise ArithmeticError(f"the waits of {len(segments_ns)} ranks do not repeat")


def _one_step(points, durations_ns, segments_ns, clock, network_ns):
    """Returns the clocks of the ranks and of the network after a step, and the ranks' waits."""
    ends, waits = {}, np.zeros((len(segments_ns), len(points)))
    for p, point in enumerate(points):
        clock = clock + segments_ns[:, p]
        if point.waits:
            waits[:, p] = np.maximum(0, ends[point.collective] - clock)
            clock = clock + waits[:, p]
        else:
            network_ns = max(network_ns, clock.max()) + durations_ns[point.collective]
            ends[point.collective] = network_ns
    return clock + segments_ns[:, -1], network_ns, waits
