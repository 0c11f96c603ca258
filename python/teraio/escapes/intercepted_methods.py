"""Methods of PyTorch and Python that use a tensor's bytes without an operator.

`numpy`, `tolist`, pickling and others read memory directly. While a session runs, each of them is
patched, below its names where it is written in C: it restores the tensor first, and pins it for as
long as the bytes can be reached. Any other access to an offloaded tensor without an operator raises
an error that names it.
"""

import _thread
import concurrent.futures.thread
import contextlib
import functools
import gc
import multiprocessing.process
import sys
import sysconfig
import threading
import types
import weakref

import torch

from teraio import core
from teraio.escapes import address_pins
from teraio.hooks.patches import Patches

_TYPES_WITH_BYTES = (torch.Tensor, torch.UntypedStorage)


def _pinning(find_pinned):
    """Returns a decorator that pins what `find_pinned(*args)` returns while the method runs."""

    def decorate(method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            pins = []
            try:
                for value in find_pinned(*args):
                    pins.append(core.Pin(value))
                return method(*args, **kwargs)
            finally:
                for pin in pins:
                    pin.release()

        return wrapper

    return decorate


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


# The tensor or storage itself, and those among the positional arguments.
_pinned_until_return = _pinning(
    lambda *args: [value for value in args if isinstance(value, _TYPES_WITH_BYTES)]
)
# TorchScript writes a module in C++ code without operators.
_module_writer = _pinning(lambda module, *_: [*module.parameters(), *module.buffers()])


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


def _array(method):
    """Pins the tensor until the NumPy array dies, which shares its bytes.

    `force=True` copies a lazily conjugated or negated tensor. Then the copy is pinned.
    """

    @functools.wraps(method)
    def wrapper(self, *, force=False):
        if force and (self.is_conj() or self.is_neg()):
            self = self.detach().resolve_conj().resolve_neg()
        pin = core.Pin(self)
        try:
            array = method(self, force=force)
        except BaseException:
            pin.release()
            raise
        weakref.finalize(array, pin.release)
        return array

    return wrapper


def _observed_thread(method):
    """Observes the operators of a thread that Python starts."""

    @functools.wraps(method)
    def wrapper(self):
        core.observe_this_thread(True)
        return method(self)

    return wrapper


def _starts_observed_thread(start):
    """Observes the operators of a thread that is started below Python's module `threading`."""

    @functools.wraps(start)
    def wrapper(function, *arguments):
        @functools.wraps(function)
        def observed(*args, **kwargs):
            core.observe_this_thread(True)
            return function(*args, **kwargs)

        return start(observed, *arguments)

    return wrapper


def _begins_coalescing(method):
    """This thread's collectives form a group from now on, at whose end they start."""

    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        result = method(*args, **kwargs)
        core.begin_coalescing()
        return result

    return wrapper


def _ends_coalescing(method):
    """Tells the core the Work of the group."""

    @functools.wraps(method)
    def wrapper(*args, **kwargs):
        try:
            work = method(*args, **kwargs)
        except BaseException:
            core.fail_coalescing()
            raise
        core.end_coalescing(work)
        return work

    return wrapper


WRAPPERS = [
    (torch.Tensor, "numpy", _array),
    (torch.Tensor, "tolist", _pinned_until_return),
    (torch.Tensor, "apply_", _pinned_until_return),
    (torch.Tensor, "map_", _pinned_until_return),
    (torch.Tensor, "map2_", _pinned_until_return),
    (torch.Tensor, "__deepcopy__", _pinned_until_return),
    (torch.Tensor, "__reduce_ex__", _pinned_until_return),
    (torch.UntypedStorage, "resize_", _pinned_until_return),
    (torch.UntypedStorage, "tolist", _pinned_until_return),
    (torch.UntypedStorage, "__getitem__", _pinned_until_return),
    (torch.UntypedStorage, "__setitem__", _pinned_until_return),
    (torch.UntypedStorage, "copy_", _pinned_until_return),
    (torch.UntypedStorage, "fill_", _pinned_until_return),
    (torch.UntypedStorage, "byteswap", _pinned_until_return),
    (torch.UntypedStorage, "_write_file", _pinned_until_return),
    (torch.UntypedStorage, "_set_from_file", _pinned_until_return),
    (torch._C.StorageBase, "_share_fd_cpu_", _pinned_until_return),
    (torch._C.StorageBase, "_share_filename_cpu_", _pinned_until_return),
    (torch._C.PyTorchFileWriter, "write_record", _pinned_until_return),
    (torch._C, "_is_alias_of", _pinned_until_return),
    (torch._C, "_overlaps", _pinned_until_return),
    (torch.jit.RecursiveScriptModule, "save", _module_writer),
    (torch.jit.RecursiveScriptModule, "save_to_buffer", _module_writer),
    (threading.Thread, "_bootstrap_inner", _observed_thread),
    (_thread, "start_new_thread", _starts_observed_thread),
    (_thread, "start_new", _starts_observed_thread),
    (concurrent.futures.thread._WorkItem, "run", _observed_thread),
    (multiprocessing.process.BaseProcess, "start", _process_start),
]
if hasattr(torch._C.StorageBase, "_swap_data_ptr_"):
    WRAPPERS += [(torch._C.StorageBase, "_swap_data_ptr_", _pinned_until_return)]
if torch.distributed.is_available():
    from teraio.escapes import ddp

    WRAPPERS += [
        *ddp.WRAPPERS,
        (torch.distributed.ProcessGroup, "_start_coalescing", _begins_coalescing),
        (torch.distributed.ProcessGroup, "_end_coalescing", _ends_coalescing),
    ]

_patches = Patches()


def install(session):
    """Patches the methods, until remove() is called.

    Args:
        session: the `core.Session` that pins tensors.
    """
    address_pins.install(session)
    for owner, name, wrap in WRAPPERS:
        if hasattr(owner, name):  # as versions of PyTorch that no test has seen may lack some
            _patches.wrap_function(owner, name, wrap)
    core.forget_python_threads()
    core.observe_python_threads()


def remove():
    """Restores the original methods."""
    _patches.undo()
    address_pins.remove()
