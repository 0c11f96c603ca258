"""The ranks of a machine: processes, one per device, that share its drives and host memory.

Launchers such as torchrun start all ranks with the same command line and number them. Options about
drives, host memory and write budgets therefore refer to the machine, and every rank gets an equal
share. A path with "{local_rank}" in its name belongs to one rank.
"""

import os
from dataclasses import dataclass

from teraio.errors import Error

PLACEHOLDER = "{local_rank}"
_RANK, _COUNT = "LOCAL_RANK", "LOCAL_WORLD_SIZE"
_COUNT_MAX = 1024


@dataclass(frozen=True)
class Ranks:
    """The number of a process among the ranks of the machine, counted from 0, and their count."""

    local_rank: int = 0
    count: int = 1

    def named(self, path):
        """Returns a path as text, with this rank's number in its placeholders. None stays None.

        Raises:
            teraio.Error: `path` is not a path.
        """
        return None if path is None else path_text(path).replace(PLACEHOLDER, str(self.local_rank))

    def share_of(self, size_bytes):
        """Returns one rank's share of a size in bytes."""
        return size_bytes // self.count

    def all(self):
        """Returns the `Ranks` of every process, in the order of their numbers."""
        return [Ranks(local_rank, self.count) for local_rank in range(self.count)]


def path_text(path):
    """Returns a path as text.

    Raises:
        teraio.Error: `path` is not a path.
    """
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise Error(f'"{path}" is not a path: expected text that is not empty, or a Path')
    return str(path)


def find_ranks(local_rank=None, local_world_size=None):
    """Returns the `Ranks` of this process.

    Without arguments, the numbers are those of the environment variables $LOCAL_RANK and
    $LOCAL_WORLD_SIZE. Without these, the process is the only rank.

    Args:
        local_rank: the number of this process, as an int or a string.
        local_world_size: the number of ranks on the machine, as an int or a string.

    Raises:
        teraio.Error: only one of the two is given, or a value is not a valid number.
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
    if not 1 <= count <= _COUNT_MAX:
        raise Error(f"{names[1]} is {count}: expected 1 to {_COUNT_MAX}")
    if local_rank >= count:
        raise Error(f"{names[0]} is {local_rank}, expected less than {names[1]}, which is {count}")
    return Ranks(local_rank, count)


def _number(name, value):
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        raise Error(f'{name} is "{value}", expected a number such as 0 or 1')
    return int(text)


def default_device():
    """Returns the device that is used where none is named. Imports torch."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def device_of_rank(device, ranks, count_gpus):
    """Returns the device of this rank. For "cuda" it is the GPU with the rank's number.

    A rank that sees one GPU only, because the launcher set CUDA_VISIBLE_DEVICES, uses that one.

    Args:
        device: "cpu", "cuda", "cuda:1" and so on, as given for all ranks.
        ranks: this process and the number of its peers.
        count_gpus: a function that returns the number of GPUs that this process sees.

    Raises:
        teraio.Error: there is no GPU for this rank.
    """
    if device != "cuda" or ranks.count == 1:
        return device
    visible_gpus = count_gpus()
    if visible_gpus == 1 and "CUDA_VISIBLE_DEVICES" in os.environ:
        return "cuda:0"
    if 0 < visible_gpus <= ranks.local_rank:
        raise Error(
            f"local rank {ranks.local_rank} of {ranks.count} has no GPU: it sees {visible_gpus}, "
            "expected one per rank"
        )
    return f"cuda:{ranks.local_rank}"
