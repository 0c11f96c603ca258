"""Methods of PyTorch and Python that use a tensor's bytes without an operator.

`numpy`, `tolist`, pickling and others read memory directly. While a session runs, each of them is
patched, below its names where it is written in C: it restores the tensor first, and pins it for as
long as the bytes can be reached. Any other access to an offloaded tensor without an operator raises
an error that names it.
"""

import _thread
import concurrent.futures.thread
import functools
import threading
import weakref

import torch

from teraio import core
from teraio.escapes import address_pins, children, python_kernels
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


# The tensor or storage itself, and those among the positional arguments.
_pinned_until_return = _pinning(
    lambda *args: [value for value in args if isinstance(value, _TYPES_WITH_BYTES)]
)
# TorchScript writes a module in C++ code without operators.
_module_writer = _pinning(lambda module, *_: [*module.parameters(), *module.buffers()])


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


_PINNED_UNTIL_RETURN = {
    torch.Tensor: "tolist apply_ map_ map2_ __deepcopy__ __reduce_ex__",
    torch.UntypedStorage: "resize_ tolist __getitem__ __setitem__ copy_ fill_ byteswap _write_file "
    "_set_from_file",
    torch._C.StorageBase: "_share_fd_cpu_ _share_filename_cpu_ _swap_data_ptr_",
    torch._C.PyTorchFileWriter: "write_record",
    torch._C: "_is_alias_of _overlaps",
}
WRAPPERS = [
    (torch.Tensor, "numpy", _array),
    *(
        (owner, name, _pinned_until_return)
        for owner, names in _PINNED_UNTIL_RETURN.items()
        for name in names.split()
        if name != "_swap_data_ptr_" or hasattr(owner, name)  # only newer versions have it
    ),
    (torch.jit.RecursiveScriptModule, "save", _module_writer),
    (torch.jit.RecursiveScriptModule, "save_to_buffer", _module_writer),
    (threading.Thread, "_bootstrap_inner", _observed_thread),
    (_thread, "start_new_thread", _starts_observed_thread),
    (_thread, "start_new", _starts_observed_thread),
    (concurrent.futures.thread._WorkItem, "run", _observed_thread),
    *children.WRAPPERS,
    *python_kernels.WRAPPERS,
]
if torch.distributed.is_available():
    from teraio.escapes import ddp

    WRAPPERS += [
        *ddp.WRAPPERS,
        (torch.distributed.ProcessGroup, "_start_coalescing", _begins_coalescing),
        (torch.distributed.ProcessGroup, "_end_coalescing", _ends_coalescing),
    ]

_patches = Patches()


def install(session, directories):
    """Patches the methods, until remove() is called.

    Args:
        session: the `core.Session` that pins tensors.
        directories: where files for forked children may be.
    """
    address_pins.install(session)
    children.install(directories)
    for owner, name, wrap in WRAPPERS:
        if hasattr(owner, name):  # as versions of PyTorch that no test has seen may lack some
            _patches.wrap_function(owner, name, wrap)
    python_kernels.note_registered()
    core.forget_python_threads()
    core.observe_python_threads()


def remove():
    """Restores the original methods."""
    _patches.undo()
    children.remove()
    address_pins.remove()
