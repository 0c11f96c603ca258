"""The process group of a program that a dry run executes without a launcher: one process."""

import contextlib

import torch.distributed as dist

from teraio.hooks.patches import Patches

# Where the functions that make a process group are looked up.
_NAMES = ("init_process_group", "init_device_mesh")


class GroupOfOne:
    """A context in which a program that makes a process group gets a fake one of one process.

    What that needs is imported only then, because it takes seconds.

    Args:
        modes: the `FakeModes` of the dry run.
    """

    def __init__(self, modes):
        self._modes = modes
        self._stack = contextlib.ExitStack()
        self._patches = Patches()

    def __enter__(self):
        if dist.is_available():
            from torch.distributed import device_mesh, distributed_c10d

            for module in (dist, distributed_c10d, device_mesh):
                for name in _NAMES:
                    if hasattr(module, name):
                        self._patches.set(module, name, self._making_group(module, name))
        return self

    def __exit__(self, *error):
        self._patches.undo()
        return self._stack.__exit__(*error)

    def _making_group(self, module, name):
        def make(*args, **kwargs):
            if self._patches:
                self._patches.undo()
                with self._modes.real_tensors():
                    from teraio.dry_run.fake_process_group import FakeProcessGroup
                self._stack.enter_context(FakeProcessGroup(1, 0, self._modes))
            return getattr(module, name)(*args, **kwargs)

        return make
