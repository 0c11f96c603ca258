"""Addresses of tensors: a tensor whose address the program knows is pinned permanently.

PyTorch cannot tell how long a program uses an address that it has asked for, so the tensor stays on
the device until it dies. Three kinds of callers are exceptions:

- Functions that only compare addresses, to find storages that tensors share. They get unique
  numbers in place of addresses, and nothing is pinned.
- Functions that write files. The tensors are pinned until they are written (`safetensors_writer`).
- Functions that kernels call. The tensors are pinned until the operator ends.
"""

import functools
import logging
import threading

import torch

from teraio import address_users, core, safetensors_writer
from teraio.import_hooks import PostImportHook
from teraio.iterations import parameter_names
from teraio.module_names import outermost_modules
from teraio.patches import Patches
from teraio.units import format_size

# One warning is logged, when permanent pins take this share of the budget.
WARNING_SHARE = 0.1

_log = logging.getLogger("teraio")


class _Thread(threading.local):
    compares_addresses = False
    is_in_kernel = False  # addresses are for the kernel of the operator that runs, if one does
    borrowed = None  # the pins of the borrowing function that runs, or None
    to_give_back = ()  # the pins of borrowing functions that have returned


_this_thread = _Thread()


def _unique_number(storage):
    """Returns a number in place of the storage's address, or 0 for an empty or meta storage.

    The numbers of two storages differ by more than the size of any storage, and a number remains
    the same when the storage moves. It is not a readable address.
    """
    return storage._cdata << 40 if storage.nbytes() and storage.device.type != "meta" else 0


def of_storage(method):
    """Wraps `UntypedStorage.data_ptr`: pins the storage, or returns its unique number."""

    @functools.wraps(method)
    def wrapper(self):
        if _this_thread.compares_addresses:
            return _unique_number(self)
        _pin(self)
        return method(self)

    return wrapper


def of_tensor(method):
    """Wraps `Tensor.data_ptr`: pins the tensor, or returns the unique number of its first byte."""

    @functools.wraps(method)
    def wrapper(self):
        if _this_thread.compares_addresses and self.layout is torch.strided:
            if _is_hollow(self, method):
                return 0
            start = _unique_number(self.untyped_storage())
            return start and start + self.storage_offset() * self.element_size()
        _pin(self)
        return method(self)

    return wrapper


def _is_hollow(tensor, data_ptr):
    """Whether a tensor's storage never has bytes, as that of a DTensor, which holds tensors."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    try:
        return data_ptr(tensor) == 0
    except RuntimeError:  # its bytes are offloaded
        return False


def given_away(method):
    """Wraps a method of a tensor or storage whose result refers to the address for any time."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        _pin(self)
        return method(self, *args, **kwargs)

    return wrapper


def _pin(tensor_or_storage):
    if _this_thread.is_in_kernel and core.pin_until_op_ends(tensor_or_storage):
        return
    if _this_thread.borrowed is not None:
        _this_thread.borrowed.append(core.Pin(tensor_or_storage))
    elif core.pin_address(tensor_or_storage) and _permanent_pins is not None:
        _permanent_pins.add(tensor_or_storage)


def _sets(flag, value=True):
    """Returns a decorator: while the function runs, the flag of its thread has the value."""

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            before = getattr(_this_thread, flag)
            setattr(_this_thread, flag, value)
            try:
                return function(*args, **kwargs)
            finally:
                setattr(_this_thread, flag, before)

        return wrapper

    return decorate


only_compared = _sets("compares_addresses")  # wraps a function that asks only to compare addresses
_used = _sets("compares_addresses", False)
for_kernels = _sets("is_in_kernel")  # wraps a function that launches the kernel of an operator


def _borrows(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        before, _this_thread.borrowed = _this_thread.borrowed, []
        try:
            return function(*args, **kwargs)
        finally:
            _this_thread.to_give_back = [*_this_thread.to_give_back, *_this_thread.borrowed]
            _this_thread.borrowed = before

    return wrapper


def _gives_back(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        finally:
            for pin in _this_thread.to_give_back:
                pin.release()
            _this_thread.to_give_back = ()

    return wrapper


def _reads(function):
    return _gives_back(_borrows(function))


class _PermanentPins:
    """The permanent pins of a session. It logs one warning, before they fill the budget."""

    def __init__(self, session):
        self._session = session
        self._size_bytes = {}  # by storage
        self._has_warned = False

    def add(self, tensor_or_storage):
        if self._has_warned:
            return
        is_tensor = isinstance(tensor_or_storage, torch.Tensor)
        storage = tensor_or_storage.untyped_storage() if is_tensor else tensor_or_storage
        self._size_bytes[storage._cdata] = storage.nbytes()
        pinned_bytes = self._session.held_for_good_bytes()
        budget_bytes = self._session.budget_bytes()
        if pinned_bytes >= WARNING_SHARE * budget_bytes:
            self._has_warned = True
            self._warn(pinned_bytes, budget_bytes)

    def _warn(self, pinned_bytes, budget_bytes):
        _log.warning(
            "teraio: %s of the %s budget stay on the device permanently, because the program asked "
            "for addresses (data_ptr(), DLPack): other tensors have less room. Avoid that for "
            "large tensors, or raise the device budget. The largest: %s",
            format_size(pinned_bytes),
            format_size(budget_bytes),
            names_of_largest((size, key) for key, size in self._size_bytes.items()),
        )


def names_of_largest(storages):
    """Returns the names and sizes of the three largest storages, as text.

    Args:
        storages: pairs of the size in bytes and the address of PyTorch's storage object.
    """
    names = _storage_names()
    largest = sorted(storages, reverse=True)[:3]
    return ", ".join(f"{names.get(key, 'unnamed')} ({format_size(size)})" for size, key in largest)


def _storage_names():
    try:
        names = parameter_names(outermost_modules())
        return {p.untyped_storage()._cdata: name for p, name in names.items()}
    except Exception:  # a module of the program raised it, and the program must not fail for names
        return {}


_permanent_pins = None
_patches = Patches()


def _patch(module):
    for table, wrap in (
        (address_users.COMPARE, only_compared),
        (address_users.USE, _used),
        (address_users.READ, _reads),
        (address_users.IN_OPS, for_kernels),
        (address_users.BORROW, _borrows),
        (address_users.GIVE_BACK, _gives_back),
    ):
        for path in table.get(module.__name__, ()):
            owner_name, _, name = path.rpartition(".")
            owner = getattr(module, owner_name, None) if owner_name else module
            if callable(getattr(owner, name, None)):
                _patches.wrap(owner, name, wrap)
    if module.__name__ == "safetensors.torch":
        for name, function in safetensors_writer.wrappers(module, _reads):
            _patches.set(module, name, function)


_import_hook = PostImportHook(sorted({*address_users.COMPARE, *address_users.IN_OPS}), _patch)


def install(session):
    """Patches the functions of other packages in the tables above, until remove() is called.

    Args:
        session: the `core.Session` whose permanent pins are watched.
    """
    global _permanent_pins
    _permanent_pins = _PermanentPins(session)
    _import_hook.install()


def remove():
    """Undoes install()."""
    global _permanent_pins
    _permanent_pins = None
    _import_hook.remove()
    _patches.undo()
