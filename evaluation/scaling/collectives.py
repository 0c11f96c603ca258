"""Finds the collectives of a trace, and makes the waits for them ops of their own.

A rank issues a collective at its op, goes on, and waits where a later op first touches one of its
operands: FSDP2 gathers the parameters of a block while the block ahead of it computes. A trace has
the op alone, so that `with_waits` inserts the wait. Its time is not the rank's own.
"""

from dataclasses import dataclass

from evaluation.scaling import network

_KINDS = {
    "c10d::_allgather_base_": network.GATHER,
    "c10d::_reduce_scatter_base_": network.SCATTER,
    "c10d::allreduce_": network.SUM,
}
WAIT = "wait for a collective"


@dataclass(frozen=True)
class Collective:
    """A collective of a rank: the ops that issue it and wait for it, and the bytes of all of it."""

    kind: str
    size_bytes: int
    issue_op: int
    wait_op: int


def with_waits(trace):
    """Returns the trace (the JSON value of a trace file) with waits, and its collectives in order.

    Collectives and waits take no time in it. Raises ValueError for an unknown collective.
    """
    found = {op: _kind(trace["ops"][op]) for op in range(len(trace["ops"]))}
    found = {op: kind for op, kind in found.items() if kind}
    needed = {op: _first_use(trace["ops"], op, found) for op in found}
    ops, place, wait_of = [], {}, {}
    for number, op in enumerate([*trace["ops"], None]):
        for issued in (k for k in found if needed[k] == number):
            wait_of[issued] = len(ops)
            ops.append(_wait(trace["ops"][issued], op))
        place[number] = len(ops)
        if op is not None:
            ops.append(op | {"duration_ns": 0} if number in found else op)
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    return trace | {"ops": ops}, [
        Collective(kind, _size_bytes(trace["ops"][op], sizes), place[op], wait_of[op])
        for op, kind in found.items()
    ]


def _kind(op):
    if not op["name"].startswith("c10d::"):
        return None
    if op["name"] not in _KINDS:
        raise ValueError(f"{op['name']} in a trace: expected one of {', '.join(_KINDS)}")
    return _KINDS[op["name"]]


def _first_use(ops, issued, collectives):
    """Returns the first op after `issued` that touches an operand of it, or the end of the step.

    Another collective that does needs no wait: the network executes them in order.
    """
    operands = _touched(ops[issued])
    later = (k for k in range(issued + 1, len(ops)) if k not in collectives)
    return next((k for k in later if operands & _touched(ops[k])), len(ops))


def _touched(op):
    return {*op["reads"], *op["writes"]}


def _wait(collective, before):
    """Returns the op that waits: the operands that the next op uses stay on the device for it."""
    kept = _touched(collective) & _touched(before) if before else set()
    nothing = {"writes": [], "frees": [], "workspace_bytes": 0, "duration_ns": 0}
    return {"name": WAIT, "reads": sorted(kept), **nothing}


def _size_bytes(op, sizes):
    return max(sizes[tensor] for tensor in _touched(op))
