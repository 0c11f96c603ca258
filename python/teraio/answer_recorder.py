"""Records what a program reads from tensors in its first steps, for dry runs of the program."""

import functools

import numpy as np
import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from teraio.answers import AnswerLog
from teraio.atomic_file import replace_file
from teraio.dry_run.sized_results import has_sized_result, size_of
from teraio.errors import Error
from teraio.source_location import calling_location, script_location, short_path

# The first step, and those that a dry run repeats in turn.
STEPS = 5
_ELEMENTS_MAX = 4096
_READERS = ("numpy", "tolist")
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


class AnswerRecorder(TorchDispatchMode):
    """Records the answers of the first STEPS steps, and writes them to a file.

    One thread calls its methods. What other threads read is not recorded.

    Args:
        path: the file to write.
    """

    def __init__(self, path):
        super().__init__()
        self._path = path
        self._log = AnswerLog()
        self._hooks = []
        self._open_steps = 0  # the step of an optimizer may make those of others
        self._methods = {}

    @classmethod
    def ignore_compile_internals(cls):
        return True  # compiled graphs stay compiled

    def start(self):
        """Begins to record."""
        for name in _READERS:
            self._methods[name] = getattr(torch.Tensor, name)
            setattr(torch.Tensor, name, self._reading(self._methods[name]))
        self._hooks = [
            register_optimizer_step_pre_hook(self._begin_step),
            register_optimizer_step_post_hook(self._end_step),
        ]
        self.__enter__()

    def save(self):
        """Ends the recording, if it still goes on, and writes the file.

        Raises:
            teraio.Error: no step has ended.
            OSError: the file cannot be written.
        """
        self._stop()
        if self._log.step_count() == 0:
            raise Error("no step of an optimizer has ended")
        replace_file(self._path, self._log.to_json().encode())

    def _stop(self):
        if not self._hooks:
            return
        self.__exit__(None, None, None)
        while self._hooks:
            self._hooks.pop().remove()
        for name, method in self._methods.items():
            setattr(torch.Tensor, name, method)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(kind not in _PLAIN_TYPES for kind in types):
            return NotImplemented  # the wrapper's own dispatch calls ops on its inner tensors
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._local_scalar_dense.default:
            self._note("numbers", calling_location(), result)
        elif has_sized_result(func, args):
            self._note("sizes", script_location(), size_of(func, args, result))
        return result

    def _note(self, kind, location, value):
        if kind == "sizes" or not location.is_in_torch:
            if not isinstance(value, complex):
                self._log.add(kind, f"{short_path(location.path)}:{location.line}", value)

    def _reading(self, method):
        """Wraps a method that gives the elements of a tensor."""

        @functools.wraps(method)
        def wrapper(tensor, *args, **kwargs):
            result = method(tensor, *args, **kwargs)
            self._note("arrays", calling_location(), _elements(tensor, result))
            return result

        return wrapper

    def _begin_step(self, optimizer, args, kwargs):
        self._open_steps += 1

    def _end_step(self, optimizer, args, kwargs):
        self._open_steps -= 1
        if self._open_steps > 0:
            return
        self._log.end_step()
        # A mode of the program above this one must end first.
        if self._log.step_count() >= STEPS and _get_current_dispatch_mode() is self:
            self._stop()


def _elements(tensor, values):
    """Returns a list of the numbers in an array or in nested lists, or None if there are many."""
    if tensor.numel() > _ELEMENTS_MAX or tensor.dtype.is_complex:
        return None
    return np.array(values).reshape(-1).tolist()
