"""What children that the program forks can reach: a child can restore nothing after the fork."""

import contextlib
import functools
import gc
import multiprocessing.process
import sys
import sysconfig
import types

import torch

from teraio import core

_NOT_FOLLOWED = (types.ModuleType, types.FrameType, str, bytes, int, float)
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def _is_of_library(module_name):
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return module_name == "builtins" or (file or "").startswith(_LIBRARIES)


def _used_globals(code, module):
    """Returns what a function's code finds by the names in it: globals, and those of modules."""
    found = [module[name] for name in code.co_names if name in module]
    for each in [each for each in found if isinstance(each, types.ModuleType)]:
        found += [vars(each)[name] for name in code.co_names if name in vars(each)]
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found += _used_globals(inner, module)
    return found


def _referents(value):
    """Returns what an object refers to. Code of libraries is not looked into."""
    if isinstance(value, types.FunctionType):
        found = [value.__closure__, value.__defaults__, value.__kwdefaults__]
        if not _is_of_library(value.__module__):
            found += _used_globals(value.__code__, value.__globals__)
        return found
    if isinstance(value, type):
        is_of_library = _is_of_library(value.__module__)
        return [] if is_of_library else [*vars(value).values(), *value.__bases__]
    return gc.get_referents(value)


def _reachable_tensors(root):
    """Returns the tensors that an object reaches: also in closures, globals and classes."""
    seen, tensors, waiting = set(), [], [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _NOT_FOLLOWED):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        else:
            waiting += _referents(value)
    return tensors


def _process_start(start):
    """Pins what a child process can reach, because it can restore nothing after the fork.

    What finds no room stays away, and is an error where the child uses it.
    """

    @functools.wraps(start)
    def wrapper(process):
        pins = []
        try:
            with contextlib.suppress(torch.OutOfMemoryError):
                pins.extend(core.Pin(tensor) for tensor in _reachable_tensors(vars(process)))
            return start(process)
        finally:
            for pin in pins:
                pin.release()

    return wrapper


WRAPPERS = [(multiprocessing.process.BaseProcess, "start", _process_start)]
