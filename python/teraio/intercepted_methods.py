"""Where Python reaches a tensor's bytes without an operator, and how they are brought back first.

`numpy`, `tolist`, `data_ptr`, pickling and the like read memory directly. While a session runs,
each of these first brings the tensor back and keeps it for as long as the bytes can be reached.
Everything else that touches an away tensor past the operators raises an error that names it.
"""

import concurrent.futures.thread
import functools
import gc
import multiprocessing.process
import threading
import types
import weakref

import torch

from teraio import addresses, core

_OF_BYTES = (torch.Tensor, torch.UntypedStorage)


def _while_running(method):
    """The bytes of the object, and of those among its arguments, are needed until it returns."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        pins = [core.Pin(self)]
        try:
            pins += [core.Pin(value) for value in args if isinstance(value, _OF_BYTES)]
            return method(self, *args, **kwargs)
        finally:
            for pin in pins:
                pin.release()

    return wrapper


def _while_result_lives(method):
    """The result is an alias of the bytes: a NumPy array."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        pin = core.Pin(self)
        try:
            result = method(self, *args, **kwargs)
        except BaseException:
            pin.release()
            raise
        weakref.finalize(result, pin.release)
        return result

    return wrapper


def _storage_item(method):
    """A slice is another storage over the same bytes."""

    @functools.wraps(method)
    def wrapper(self, index):
        read = addresses.for_good if isinstance(index, slice) else _while_running
        return read(method)(self, index)

    return wrapper


def _array(method):
    """A lazily conjugated or negated tensor that is forced becomes an array of other bytes."""
    method = _while_result_lives(method)

    @functools.wraps(method)
    def wrapper(self, *, force=False):
        if force and (self.is_conj() or self.is_neg()):
            self = self.detach().resolve_conj().resolve_neg()
        return method(self, force=force)

    return wrapper


def _module_writer(method):
    """TorchScript writes the tensors of a module past everything that could bring them back."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        pins = []
        try:
            for tensor in (*self.parameters(), *self.buffers()):
                pins.append(core.Pin(tensor))
            return method(self, *args, **kwargs)
        finally:
            for pin in pins:
                pin.release()

    return wrapper


def _record_writer(method):
    """torch.save's writer: the storage is needed while its bytes are written."""

    @functools.wraps(method)
    def wrapper(self, name, data, size):
        if not isinstance(data, torch.UntypedStorage):
            return method(self, name, data, size)
        pin = core.Pin(data)
        try:
            return method(self, name, data, size)
        finally:
            pin.release()

    return wrapper


def _process_start(method):
    """A forked process reads what its arguments hold as it is now: it cannot bring tensors back."""

    @functools.wraps(method)
    def wrapper(self):
        pins = [core.Pin(tensor) for tensor in _reachable_tensors(vars(self))]
        try:
            return method(self)
        finally:
            for pin in pins:
                pin.release()

    return wrapper


_NOT_FOLLOWED = (type, types.ModuleType, types.FrameType, str, bytes, int, float)


def _reachable_tensors(root):
    """The tensors that an object leads to. Of functions, what they have closed over."""
    seen, tensors, waiting = set(), [], [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, _NOT_FOLLOWED):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, types.FunctionType):
            waiting += [value.__closure__, value.__defaults__]
        else:
            waiting += gc.get_referents(value)
    return tensors


def _observed_thread(method):
    """Threads that Python starts run operators like the one that started them."""

    @functools.wraps(method)
    def wrapper(self):
        core.observe_this_thread(True)
        return method(self)

    return wrapper


def _coalesces(is_on):
    """Between these two a library collects collectives, and begins them at the end."""

    def wrap(method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            try:
                return method(*args, **kwargs)
            finally:
                core.set_coalescing(is_on)

        return wrapper

    return wrap


_WRAPPERS = [
    (torch.Tensor, "numpy", _array),
    (torch.Tensor, "tolist", _while_running),
    (torch.Tensor, "apply_", _while_running),
    (torch.Tensor, "map_", _while_running),
    (torch.Tensor, "map2_", _while_running),
    (torch.Tensor, "data_ptr", addresses.of_tensor),
    (torch.Tensor, "__dlpack__", addresses.for_good),
    (torch.utils.dlpack, "to_dlpack", addresses.for_good),
    (torch, "to_dlpack", addresses.for_good),
    (torch.Tensor, "__deepcopy__", _while_running),
    (torch.Tensor, "__reduce_ex__", _while_running),
    (torch.Tensor, "share_memory_", _while_running),
    (torch.UntypedStorage, "data_ptr", addresses.of_storage),
    (torch.UntypedStorage, "resize_", _while_running),
    (torch.UntypedStorage, "tolist", _while_running),
    (torch.UntypedStorage, "__getitem__", _storage_item),
    (torch.UntypedStorage, "__setitem__", _while_running),
    (torch.UntypedStorage, "share_memory_", _while_running),
    (torch.UntypedStorage, "copy_", _while_running),
    (torch.UntypedStorage, "fill_", _while_running),
    (torch.UntypedStorage, "byteswap", _while_running),
    (torch.UntypedStorage, "_write_file", _while_running),
    (torch.UntypedStorage, "_set_from_file", _while_running),
    (torch.UntypedStorage, "_share_fd_cpu_", _while_running),
    (torch.UntypedStorage, "_share_filename_cpu_", _while_running),
    (torch.serialization, "_save", addresses.tells_storages_apart),
    (torch.serialization, "_legacy_save", addresses.tells_storages_apart),
    (torch.serialization, "_load", addresses.tells_storages_apart),
    (torch.serialization, "_legacy_load", addresses.tells_storages_apart),
    (torch._C.PyTorchFileWriter, "write_record", _record_writer),
    (torch.jit.RecursiveScriptModule, "save", _module_writer),
    (torch.jit.RecursiveScriptModule, "save_to_buffer", _module_writer),
    (threading.Thread, "_bootstrap_inner", _observed_thread),
    (concurrent.futures.thread._WorkItem, "run", _observed_thread),
    (multiprocessing.process.BaseProcess, "start", _process_start),
]
if torch.distributed.is_available():
    from teraio import ddp

    _WRAPPERS += [
        *ddp.WRAPPERS,
        (torch.distributed.ProcessGroup, "_start_coalescing", _coalesces(True)),
        (torch.distributed.ProcessGroup, "_end_coalescing", _coalesces(False)),
    ]

_MISSING = object()
_originals = []


def install(session):
    """Wraps the methods for the core's session. Undone by remove()."""
    addresses.install(session)
    for owner, name, wrap in _WRAPPERS:
        if hasattr(owner, name):  # torch.to_dlpack goes
            _originals.append((owner, name, owner.__dict__.get(name, _MISSING)))
            setattr(owner, name, wrap(getattr(owner, name)))


def remove():
    addresses.remove()
    while _originals:
        owner, name, original = _originals.pop()
        if original is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
