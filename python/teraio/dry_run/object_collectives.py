"""Collectives of Python objects in a dry run, in which only one process of the job exists.

The functions have the signatures of those in `torch.distributed` that they replace.
"""

import torch.distributed as dist

from teraio.errors import Error
from teraio.hooks.source_location import script_location

_ELSEWHERE = (
    "{}: {} gets an object from rank {}, but a dry run executes rank {} only: let each process "
    "make the object, or dry-run that rank"
)
_RECEIVED = (
    "{}: recv_object_list gets an object from another rank, but a dry run executes one rank only. "
    "(A PipelineStage asks its predecessor for shapes this way: give it input_args and output_args)"
)


def all_gather_object(object_list, obj, group=None):
    """Fills the list with the object of this process, which stands for those of all others."""
    object_list[:] = [obj] * len(object_list)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    if object_gather_list:
        all_gather_object(object_gather_list, obj)


def broadcast_object_list(
    object_list, src=None, group=None, device=None, group_src=None, **options
):
    _check_source("broadcast_object_list", src, group, group_src)


def scatter_object_list(
    scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None
):
    _check_source("scatter_object_list", src, group, group_src)
    scatter_object_output_list[0] = scatter_object_input_list[dist.get_rank(group)]


def send_object_list(object_list, *where, **options):
    pass


def recv_object_list(object_list, *where, **options):
    raise Error(_RECEIVED.format(script_location()))


def _check_source(name, src, group, group_src):
    """Checks that this process is the source, which is rank 0 by default.

    Raises:
        teraio.Error: another process is the source.
    """
    if src is None and group_src is not None:
        src = dist.get_global_rank(group or dist.group.WORLD, group_src)
    if (src or 0) != dist.get_rank():
        raise Error(_ELSEWHERE.format(script_location(), name, src or 0, dist.get_rank()))


COLLECTIVES = (
    all_gather_object,
    gather_object,
    broadcast_object_list,
    scatter_object_list,
    send_object_list,
    recv_object_list,
)
