"""Which ops and modules of a predicted step wait, for what, and how long."""

from dataclasses import dataclass, field

from teraio.report.timeline import CAUSES


@dataclass
class Share:
    """The time of ops that have something in common; `by_cause` has seconds per cause."""

    name: str
    ops: int = 0
    compute_s: float = 0.0
    by_cause: dict = field(default_factory=lambda: dict.fromkeys(CAUSES, 0.0))

    @property
    def stall_s(self):
        return sum(self.by_cause.values())


def stall_by_op(trace, timeline):
    """Returns a Share per name of op, those that wait longest first."""
    return _shares(trace, timeline, [op["name"] for op in trace["ops"]])


def stall_by_module(trace, timeline, modules):
    """Returns a Share per module, those that wait longest first."""
    return _shares(trace, timeline, modules.of_op)


def _shares(trace, timeline, names):
    shares = {name: Share(name) for name in names}
    for op, name in zip(trace["ops"], names, strict=True):
        shares[name].ops += 1
        shares[name].compute_s += op["duration_ns"] / 1e9
    for stall in timeline.stalls:
        shares[names[stall.op]].by_cause[stall.cause] += stall.end_s - stall.start_s
    return sorted(shares.values(), key=lambda share: (-share.stall_s, -share.compute_s, share.name))
