"""A fake process group: this process acts as rank R of N, and collectives return at once."""

import os

import torch
import torch.distributed as dist
import torch.distributed._tools.fake_collectives  # noqa: F401  collectives of fake tensors
from torch.distributed import device_mesh, distributed_c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from teraio import core
from teraio.dry_run import object_collectives
from teraio.hooks.patches import Patches

_MESH_METHODS = ["__init__", "__getitem__", "_flatten", "get_local_rank", "get_coordinate"]


class FakeProcessGroup:
    """A context in which `torch.distributed` treats this process as rank `rank` of `world_size`.

    The backend that the script asks for is ignored. The environment variables are those that a
    launcher such as torchrun sets.

    Args:
        world_size: the number of processes.
        rank: the rank of this process.
        modes: the `FakeModes` of the dry run.
    """

    def __init__(self, world_size, rank, modes):
        self._world_size = world_size
        self._rank = rank
        self._modes = modes
        self._patches = Patches()
        self._environment = {}

    def __enter__(self):
        self._set_environment()
        patches = self._patches
        self._init = distributed_c10d.init_process_group
        for module in (dist, distributed_c10d, device_mesh):
            patches.set(module, "init_process_group", self._init_process_group)
        for module in (dist, distributed_c10d):
            patches.wrap(module, "new_group", _without_backend)
            for collective in object_collectives.COLLECTIVES:
                patches.set(module, collective.__name__, collective)
        for module in (dist, device_mesh):
            patches.wrap(module, "init_device_mesh", self._real)
        for name in _MESH_METHODS:
            patches.wrap(DeviceMesh, name, self._real)
        patches.wrap(DistributedDataParallel, "__init__", _with_hook)
        # The function compares the parameters of all processes, and only this process exists.
        patches.set(dist, "_verify_params_across_processes", lambda *args: None)
        patches.wrap(ShardingPropagator, "_propagate_tensor_meta_non_cached", self._uncounted)
        return self

    def __exit__(self, *error):
        self._patches.undo()
        for name, value in self._environment.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        if dist.is_initialized():
            dist.destroy_process_group()

    def _set_environment(self):
        for name, value in {
            "RANK": self._rank,
            "LOCAL_RANK": self._rank,
            "WORLD_SIZE": self._world_size,
            "LOCAL_WORLD_SIZE": self._world_size,
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": 29500,
        }.items():
            self._environment[name] = os.environ.get(name)
            os.environ[name] = str(value)

    def _init_process_group(self, *args, **kwargs):
        self._init(backend="fake", store=FakeStore(), rank=self._rank, world_size=self._world_size)

    def _real(self, method):
        """Wraps a method of a device mesh, which computes with real tensors of rank numbers."""

        def wrapper(*args, **kwargs):
            with self._modes.real_tensors():
                return method(*args, **kwargs)

        return wrapper

    def _uncounted(self, method):
        """Wraps DTensor's shape inference, which runs an op on fake tensors of the global size.

        No rank executes such an op, so it is neither observed nor timed.
        """

        def wrapper(*args, **kwargs):
            ops = self._modes.ops
            is_counting, ops.is_counting = ops.is_counting, False
            core.observe_this_thread(False)
            try:
                return method(*args, **kwargs)
            finally:
                core.observe_this_thread(True)
                ops.is_counting = is_counting

        return wrapper


class _Reducer:
    """A DDP reducer that keeps its first buckets. Rebuilding them would broadcast data."""

    def __init__(self, reducer):
        self._reducer = reducer

    def __getattr__(self, name):
        return getattr(self._reducer, name)

    def _rebuild_buckets(self):
        return False


def _with_hook(init):
    """Wraps DDP's constructor so that a communication hook reduces the buckets.

    Without a hook the reducer waits in C++ for the Work of each collective, and fake collectives
    have none. The hook executes the same ops.
    """

    def wrapper(ddp, *args, **kwargs):
        init(ddp, *args, **kwargs)
        ddp.register_comm_hook(ddp.process_group, _reduce_bucket)
        ddp.reducer = _Reducer(ddp.reducer)

    return wrapper


def _reduce_bucket(group, bucket):
    gradients = bucket.buffer().div_(group.size())
    dist.all_reduce(gradients, group=group)
    future = torch.futures.Future()
    future.set_result(gradients)
    return future


def _without_backend(new_group):
    def wrapper(ranks=None, timeout=None, backend=None, **options):
        return new_group(ranks=ranks, timeout=timeout, backend="fake")

    return wrapper
