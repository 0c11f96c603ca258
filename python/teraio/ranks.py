"""The ranks of a machine: several processes, one per device, that share drives and host memory.

torchrun and its like start and number them, all with the same command line. So what is said of
drives, host memory and write budgets is the machine's, and every rank has an equal share of it;
what has "{local_rank}" in its name is each rank's own.
"""

import os
from dataclasses import dataclass

from teraio.errors import Error

PLACEHOLDER = "{local_rank}"
_RANK, _COUNT = "LOCAL_RANK", "LOCAL_WORLD_SIZE"


@dataclass(frozen=True)
class Ranks:
    """This process's number among the machine's, from 0 on, and how many they are."""

    local_rank: int = 0
    count: int = 1

    def named(self, path):
        """`path`, a string or None, with this rank's number in its placeholders."""
        return path and str(path).replace(PLACEHOLDER, str(self.local_rank))

    def share_of(self, size_bytes):
        return size_bytes // self.count

    def all(self):
        return [Ranks(local_rank, self.count) for local_rank in range(self.count)]


def find_ranks(local_rank=None, local_world_size=None):
    """The ranks that are given, else those that $LOCAL_RANK and $LOCAL_WORLD_SIZE tell, else one.

    Raises teraio.Error for one without the other, and for numbers that cannot be.
    """
    if local_rank is None and local_world_size is None:
        names = (f"${_RANK}", f"${_COUNT}")
        values = (os.environ.get(_RANK), os.environ.get(_COUNT))
    else:
        names = ("the local rank", "the local world size")
        values = (local_rank, local_world_size)
    if values == (None, None):
        return Ranks()
    for name, value, other in zip(names, values, reversed(names), strict=True):
        if value is None:
            raise Error(f"{other} is given and {name} is not: expected both")
    local_rank, count = (_number(*pair) for pair in zip(names, values, strict=True))
    if local_rank >= max(count, 1):
        raise Error(f"{names[0]} is {local_rank}, expected less than {names[1]}, which is {count}")
    if count == 0:
        raise Error(f"{names[1]} is 0, expected 1 or more")
    return Ranks(local_rank, count)


def _number(name, value):
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        raise Error(f'{name} is "{value}", expected a number such as 0 or 1')
    return int(text)


def device_of_rank(device, ranks, count_gpus):
    """Of "cuda" the GPU with the rank's number, or the only one that the launcher lets it see.

    `count_gpus()` tells how many it sees. Raises teraio.Error where the rank has none.
    """
    if device != "cuda" or ranks.count == 1:
        return device
    visible_gpus = count_gpus()
    if visible_gpus == 1 and "CUDA_VISIBLE_DEVICES" in os.environ:
        return "cuda:0"
    if 0 < visible_gpus <= ranks.local_rank:
        raise Error(
            f"local rank {ranks.local_rank} of {ranks.count} has no GPU: {visible_gpus} can be "
            "seen, expected one per rank"
        )
    return f"cuda:{ranks.local_rank}"
