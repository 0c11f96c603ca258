"""What children that the program forks can reach.

A child can restore nothing: the threads of the tiers exist only in its parent. What its code can
reach is restored before the fork, as far as all of it fits within the budget. Otherwise it is
copied to a file on a drive, which the child maps: the system reads the pages that the child uses,
and drops them where memory is short. A file without a name is gone with the last process that has
it.
"""

import contextlib
import functools
import gc
import logging
import mmap
import multiprocessing.process
import os
import sys
import sysconfig
import tempfile
import types
import weakref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from teraio import core
from teraio.units import format_size

_log = logging.getLogger("teraio")

_NOT_FOLLOWED = (types.ModuleType, types.FrameType, str, bytes, int, float)
_POOLS = ("multiprocessing.pool", "concurrent.futures.process")
_ROWS = ("crow_indices", "col_indices", "values")
_COLUMNS = ("ccol_indices", "row_indices", "values")
_COMPONENTS = {
    torch.sparse_coo: ("_indices", "_values"),
    **dict.fromkeys((torch.sparse_csr, torch.sparse_bsr), _ROWS),
    **dict.fromkeys((torch.sparse_csc, torch.sparse_bsc), _COLUMNS),
}
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
    if isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ())):
        return value.ravel().tolist() if value.dtype.hasobject else []  # gc does not know them
    if isinstance(value, types.FunctionType):
        found = [value.__closure__, value.__defaults__, value.__kwdefaults__]
        if not _is_of_library(value.__module__):
            found += _used_globals(value.__code__, value.__globals__)
        return found
    if isinstance(value, type):
        is_of_library = _is_of_library(value.__module__)
        return [] if is_of_library else [*vars(value).values(), *value.__bases__]
    return gc.get_referents(value)


def _reachable_tensors(roots):
    """Returns the tensors that objects reach: also in closures, globals and classes."""
    seen, tensors, waiting = set(), [], roots
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _NOT_FOLLOWED):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor) and value.layout in _COMPONENTS:
            waiting += [getattr(value, name)() for name in _COMPONENTS[value.layout]]
        elif isinstance(value, torch.Tensor):
            tensors.append(value)
            waiting += vars(value).values()
        else:
            waiting += _referents(value)
    return tensors


def _functions_of_the_program():
    modules = [module for name, module in list(sys.modules.items()) if not _is_of_library(name)]
    values = [value for module in modules for value in list(vars(module).values())]
    return [value for value in values if isinstance(value, types.FunctionType)]


def _roots(process, method):
    """Returns what a child process begins with. Workers of a pool get their functions later."""
    target = getattr(process, "_target", None)
    is_of_pool = method == "fork" and getattr(target, "__module__", None) in _POOLS
    return [vars(process), *(_functions_of_the_program() if is_of_pool else ())]


class _File:
    """A file without a name, which is open as long as somebody has this object."""

    def __init__(self, directory, size_bytes):
        with tempfile.TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
            self.descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.descriptor)


class _Copies:
    """Copies of tensors in files. They serve all children that are forked until the bytes change.

    Args:
        directories: where a file may be. The first one with room has it.
    """

    def __init__(self, directories):
        self._directories = directories
        self._newest = WeakTensorKeyDictionary()  # of a tensor: its version, the file, the offset

    def missing(self, versions):
        """Returns those of the tensors, by their versions, of which there is no copy."""
        return {
            version: tensor
            for version, tensor in versions.items()
            if self._newest.get(tensor, (None,))[0] != version
        }

    def of(self, versions):
        """Returns a list of tuples (tensor, file, offset in bytes), or None if no drive has room.

        Raises:
            torch.OutOfMemoryError: a tensor cannot be restored.
        """
        missing = self.missing(versions)
        if missing:
            size_bytes = sum(map(_whole_pages, missing.values()))
            file = self._file_with_room(size_bytes)
            if file is None:
                return None
            self._write(missing, file)
            size = format_size(size_bytes)
            _log.debug("teraio: %s that a child process can reach are copied to a drive", size)
        return [(tensor, *self._newest[tensor][1:]) for tensor in versions.values()]

    def _write(self, versions, file):
        places, offset = [], 0
        for version, tensor in versions.items():
            core.write_copy(tensor, file.descriptor, offset)
            places.append((tensor, (version, file, offset)))
            offset += _whole_pages(tensor)
        os.fdatasync(file.descriptor)
        # Children read what they use.
        os.posix_fadvise(file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        for tensor, place in places:
            self._newest[tensor] = place

    def _file_with_room(self, size_bytes):
        for directory in self._directories:
            with contextlib.suppress(OSError):
                return _File(directory, size_bytes)
        return None


def _whole_pages(tensor):
    size_bytes = tensor.untyped_storage().nbytes()
    return -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


_copies = _Copies([])
_places = weakref.WeakKeyDictionary()  # of a process that is being forked: what copies.of() returns


def _release(pins):
    while pins:
        pins.pop().release()


def _pin_all(tensors, pins):
    try:
        pins.extend(map(core.Pin, tensors))
    except torch.OutOfMemoryError:
        return False
    return True


def _prepare(process, pins):
    """Pins what a child process can reach, or has copies of all of it.

    Without room on a drive, what finds none on the device stays offloaded: it is an error where the
    child uses it.
    """
    method = getattr(process, "_start_method", None) or multiprocessing.get_start_method()
    tensors = _reachable_tensors(_roots(process, method))
    versions = {version: each for each in tensors if (version := core.bytes_version(each))}
    has_copies = method == "fork" and not _copies.missing(versions)
    if not has_copies and (_pin_all(tensors, pins) or method != "fork"):
        return
    _release(pins)
    _places[process] = _copies.of(versions)
    if _places[process] is None:
        _places[process] = ()
        _pin_all(tensors, pins)


def _starts_child(start):
    @functools.wraps(start)
    def wrapper(process):
        pins = []
        try:
            _prepare(process, pins)
            return start(process)
        finally:
            _places.pop(process, None)
            _release(pins)

    return wrapper


def _is_child(bootstrap):
    """What a forked child runs first."""

    @functools.wraps(bootstrap)
    def wrapper(process, *args, **kwargs):
        for tensor, file, offset in _places.pop(process, ()):
            core.use_copy(tensor, file.descriptor, offset)
        return bootstrap(process, *args, **kwargs)

    return wrapper


WRAPPERS = [
    (multiprocessing.process.BaseProcess, "start", _starts_child),
    (multiprocessing.process.BaseProcess, "_bootstrap", _is_child),
]


def install(directories):
    """Has files in these directories for what the next children can reach."""
    global _copies
    _copies = _Copies(directories)


def remove():
    """Closes the files. A running child keeps its files open."""
    install([])
