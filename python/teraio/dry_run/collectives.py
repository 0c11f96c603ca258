"""Predicts the time of collectives between devices: ring algorithms with one link per device."""

import torch

from teraio.accelerator import Accelerator

# By what a collective's name begins with, two functions of the number of devices: the share of its
# bytes that crosses each device's link, and the number of steps of the ring.
_RINGS = {
    "allreduce": (lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1)),
    "allgather": (lambda n: (n - 1) / n, lambda n: n - 1),
    "reducescatter": (lambda n: (n - 1) / n, lambda n: n - 1),
    "alltoall": (lambda n: (n - 1) / n, lambda n: n - 1),
    "broadcast": (lambda n: 1, lambda n: 1),
    "reduce": (lambda n: 1, lambda n: 1),
    "send": (lambda n: 1, lambda n: 1),
    "recv": (lambda n: 1, lambda n: 1),
    "gather": (lambda n: (n - 1) / n, lambda n: 1),
    "scatter": (lambda n: (n - 1) / n, lambda n: 1),
    "barrier": (lambda n: 0, lambda n: n - 1),
}


class Links:
    """Predicts the time of collectives on the links of an accelerator.

    Args:
        accelerator: the device, whose link has a rate and a latency per step.
        world_size: the number of devices of the job, and the size of a collective whose process
            group cannot be found.
    """

    def __init__(self, accelerator: Accelerator, world_size: int):
        share = accelerator.efficiency.get("link", 1.0)
        self._bytes_per_second = share * accelerator.link_bytes_per_second
        self._latency_ns = accelerator.link_latency_ns
        self._world_size = world_size

    def duration_ns(self, func, args, inputs, outputs) -> int:
        """Returns the time of a collective in nanoseconds, or 0 for an unknown collective.

        The size of the collective is the sum over its inputs or over its outputs, whichever is
        larger: a gather has larger outputs, and a scatter has larger inputs.

        Args:
            func: the operator.
            args: the operator's arguments, which name the process group.
            inputs: the list of input tensors. Only their sizes matter.
            outputs: the list of result tensors. Only their sizes matter.
        """
        ring = _ring_of(func.overloadpacket.__name__)
        count = _group_size(args, self._world_size)
        if ring is None or count < 2:
            return 0
        share, steps = ring
        whole_bytes = max(_size_bytes(inputs), _size_bytes(outputs))
        seconds = whole_bytes * share(count) / self._bytes_per_second
        return int(seconds * 1e9) + steps(count) * self._latency_ns


def _ring_of(name):
    plain = name.replace("_", "")
    matches = [key for key in _RINGS if plain.startswith(key)]
    return _RINGS[max(matches, key=len)] if matches else None


def _size_bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _group_size(args, world_size):
    for value in args:
        if isinstance(value, torch.ScriptObject):
            group = _boxed_group(value)
            if group is not None:
                return group.size()
    if args and isinstance(args[-1], str):  # the functional collectives name their group
        from torch.distributed.distributed_c10d import _resolve_process_group

        return _resolve_process_group(args[-1]).size()
    return world_size


def _boxed_group(value):
    try:
        return torch.distributed.ProcessGroup.unbox(value)
    except (RuntimeError, TypeError):
        return None  # the object is a reduce operation and not a group
