"""Pins of addresses: in a session, a tensor whose address the program knows stays on the device.

PyTorch cannot tell how long a program uses an address that it has asked for, so the tensor stays on
the device until it dies. Three kinds of callers (`address_users`) are exceptions:

- Functions that only compare addresses, to find storages that tensors share. They get unique
  numbers in place of addresses, and nothing is pinned.
- Functions that write files. The tensors are pinned until they are written (`safetensors_writer`).
- Functions that kernels call. The tensors are pinned until the operator ends.
"""

import functools
import logging
import threading

import torch

from teraio import core
from teraio.escapes import address_users, addresses, safetensors_writer
from teraio.hooks.import_hooks import PostImportHook
from teraio.hooks.iterations import parameter_names
from teraio.hooks.module_names import outermost_modules
from teraio.hooks.patches import Patches
from teraio.units import format_size

# One warning is logged, when permanent pins take this share of the budget.
_WARNING_SHARE = 0.1

_log = logging.getLogger("teraio")


class _Thread(threading.local):
    is_in_kernel = False  # addresses are for the kernel of the operator that runs, if one does
    borrowed = ()  # the pins of tensors whose addresses have been borrowed


_this_thread = _Thread()


def for_kernels(launch):
    """Wraps a function that launches the kernel of an operator, and asks for addresses for it."""

    @functools.wraps(launch)
    def wrapper(*args, **kwargs):
        before, _this_thread.is_in_kernel = _this_thread.is_in_kernel, True
        try:
            return launch(*args, **kwargs)
        finally:
            _this_thread.is_in_kernel = before

    return wrapper


def _giving_back(function):
    """Wraps a function after whose return no borrowed address is used any more."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        finally:
            for pin in _this_thread.borrowed:
                pin.release()
            _this_thread.borrowed = ()

    return wrapper


class AddressPins:
    """The pins of a session for addresses that the program has asked for.

    One warning is logged, before permanent pins fill the budget. Any thread may call.

    Args:
        session: the `core.Session`.
    """

    def __init__(self, session):
        self._session = session
        self._size_bytes = {}  # of permanent pins, by storage
        self._has_warned = False

    def add(self, tensor_or_storage, table):
        """Pins a tensor or storage for as long as its address is used.

        Args:
            tensor_or_storage: what has the address.
            table: that of `address_users` which has the caller, or None.

        Returns:
            Whether the pin is permanent.
        """
        is_for_op = _this_thread.is_in_kernel or table is address_users.IN_OPS
        if is_for_op and core.pin_until_op_ends(tensor_or_storage):
            return False
        if table is address_users.BORROW:
            _this_thread.borrowed = (*_this_thread.borrowed, core.Pin(tensor_or_storage))
            return False
        if core.pin_address(tensor_or_storage) and not self._has_warned:
            self._count(tensor_or_storage)
        return True

    def unique_number(self, tensor_or_storage, data_ptr):
        """Returns a number in place of an address, to be compared with other such numbers.

        The numbers of two storages differ by more than the size of any storage, and a number
        remains the same when the storage moves. It is not a readable address. It is 0 where the
        address is 0, and None for a tensor that is not strided.
        """
        if not isinstance(tensor_or_storage, torch.Tensor):
            return _unique_number(tensor_or_storage)
        if tensor_or_storage.layout is not torch.strided:
            return None
        if _is_hollow(tensor_or_storage, data_ptr):
            return 0
        start = _unique_number(tensor_or_storage.untyped_storage())
        offset = tensor_or_storage.storage_offset() * tensor_or_storage.element_size()
        return start and start + offset

    def _count(self, tensor_or_storage):
        is_tensor = isinstance(tensor_or_storage, torch.Tensor)
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor_or_storage.untyped_storage() if is_tensor else tensor_or_storage
        self._size_bytes[storage._cdata] = storage.nbytes()
        pinned_bytes = self._session.held_for_good_bytes()
        budget_bytes = self._session.budget_bytes()
        if pinned_bytes >= _WARNING_SHARE * budget_bytes:
            self._has_warned = True
            self._warn(pinned_bytes, budget_bytes)

    def _warn(self, pinned_bytes, budget_bytes):
        _log.warning(
            "teraio: %s of the %s budget stay on the device permanently, because the program asked "
            "for addresses (data_ptr(), DLPack): other tensors have less room. Avoid that for "
            "large tensors, or raise the device budget. The largest: %s",
            format_size(pinned_bytes),
            format_size(budget_bytes),
            _names_of_largest((size, key) for key, size in self._size_bytes.items()),
        )


def _unique_number(storage):
    return storage._cdata << 40 if storage.nbytes() and storage.device.type != "meta" else 0


def _is_hollow(tensor, data_ptr):
    """Whether a tensor's storage never has bytes, as that of a DTensor, which holds tensors."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        return False
    try:
        return data_ptr(tensor) == 0
    except RuntimeError:  # its bytes are offloaded
        return False


def _names_of_largest(storages):
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


def keep_in_place(session, aliases):
    """Keeps storages whose addresses are known from before the session, and logs how many.

    Call it when the session has started and its first operator has not run.

    Args:
        session: a `core.Session`.
        aliases: the storages that its `find_aliases()` has returned.
    """
    sizes = [(core.keep_in_place(each), each) for each in addresses.noted_storages(aliases)]
    kept = [(size_bytes, storage._cdata) for size_bytes, storage in sizes if size_bytes > 0]
    if kept:
        _log_kept(session, kept)


def _log_kept(session, kept):
    kept_bytes = sum(size_bytes for size_bytes, _ in kept)
    is_much = kept_bytes >= _WARNING_SHARE * session.budget_bytes()
    _log.log(
        logging.WARNING if is_much else logging.INFO,
        "teraio: %d storages from before the session (%s) stay on the device, because other code "
        "knows their addresses (data_ptr(), DLPack): other tensors have less room. The largest: %s",
        len(kept),
        format_size(kept_bytes),
        _names_of_largest(kept),
    )


_patches = Patches()


def _patch(module):
    for name in address_users.GIVE_BACK[module.__name__]:
        if hasattr(module, name):
            _patches.wrap(module, name, _giving_back)
    for name, function in safetensors_writer.wrappers(module, _giving_back):
        _patches.set(module, name, function)


_import_hook = PostImportHook(sorted(address_users.GIVE_BACK), _patch)


def install(session):
    """Pins tensors whose addresses the program asks for, until remove() is called.

    Args:
        session: the `core.Session` that pins them.
    """
    addresses.set_pins(AddressPins(session))
    _import_hook.install()


def remove():
    """Undoes install()."""
    addresses.set_pins(None)
    _import_hook.remove()
    _patches.undo()
