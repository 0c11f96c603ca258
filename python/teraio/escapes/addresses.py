"""Addresses of tensors that the program takes, from `import teraio` on.

A session moves the bytes of tensors, so a tensor that other code reaches by its address must stay
where it is. The functions that give an address away are replaced below their names when torch is
imported, and stay replaced: those in C (pytorch/escapes/c_functions.h), and slices of a storage.

- While a session runs, they pin the tensor (`address_pins.py`).
- They record the storage, unless the address is known to be used for a limited time only. The next
  session keeps the recorded storages in place, and those that share memory with others
  (pytorch/escapes/aliases.h). What was exported before the import is not known.
"""

import atexit
import contextlib
import functools
import operator

from teraio import extension
from teraio.escapes import address_users
from teraio.hooks.import_hooks import PostImportHook


class _Registry:
    """Weak references to storages. Any thread may call; no lock can be held across a fork."""

    def __init__(self):
        self._references = {}  # by the address of PyTorch's storage object
        self._pruned_size = 1000

    def add(self, storage):
        if storage._cdata in self._references:
            return
        from torch.multiprocessing.reductions import StorageWeakRef

        self._references.setdefault(storage._cdata, StorageWeakRef(storage))
        if len(self._references) > 2 * self._pruned_size:
            self._prune()

    def _prune(self):
        for key, reference in list(self._references.items()):
            if reference.expired():
                self._references.pop(key, None)
        self._pruned_size = max(1000, len(self._references))

    def clear(self):
        """Releases the references, which need PyTorch for that."""
        self._references.clear()

    def storages(self):
        """Returns the storages that are alive."""
        import torch

        references = list(self._references.values())  # so that their addresses are not used anew
        found = [torch.UntypedStorage._new_with_weak_ptr(each.cdata) for each in references]
        return [storage for storage in found if storage is not None]


_registry = _Registry()

_pins = None  # the `address_pins.AddressPins` of the session that runs


def set_pins(pins):
    """Pins what is exported from now on, or nothing more.

    Args:
        pins: the `address_pins.AddressPins` of a session that begins, or None when it ends.
    """
    global _pins
    _pins = pins


def _record(tensor_or_storage):
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        is_tensor = isinstance(tensor_or_storage, torch.Tensor)
        try:
            storage = tensor_or_storage.untyped_storage() if is_tensor else tensor_or_storage
            _registry.add(storage)
        except (NotImplementedError, RuntimeError):
            return  # a tensor without a storage


def _may_outlive_call(table):
    """Whether an address that was asked for outside of a session may be used for any time."""
    if table is address_users.IN_OPS:
        return not address_users.is_in_operator()
    return table is None or table is address_users.KEEP


def _exporting(method, is_comparable=False):
    """Wraps a method of a tensor or storage whose result refers to its address.

    Args:
        method: the method.
        is_comparable: whether, in a session, a number takes the place of an address for functions
            that only compare addresses.
    """

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        pins, table = _pins, address_users.table_of_caller()
        if is_comparable and pins is not None and table is address_users.COMPARE:
            number = pins.unique_number(self, method)
            if number is not None:
                return number
        is_kept = _may_outlive_call(table) if pins is None else pins.add(self, table)
        result = method(self, *args, **kwargs)
        if is_kept:
            _record(self)
        return result

    return wrapper


def _exporting_slices(method):
    export = _exporting(method)

    @functools.wraps(method)
    def wrapper(self, index):
        return (export if isinstance(index, slice) else method)(self, index)

    return wrapper


_data_ptr = functools.partial(_exporting, is_comparable=True)

# The functions of torch._C that give an address away. What else gives one away calls these.
EXPORTS = {
    "TensorBase.data_ptr": _data_ptr,
    "TensorBase.const_data_ptr": _data_ptr,
    "StorageBase.data_ptr": _data_ptr,
    "_data_address": _exporting,
    "_to_dlpack": _exporting,
    "_to_dlpack_versioned": _exporting,
    "_gds_register_buffer": _exporting,
}
# The functions of torch._C that return DLPack's tables of C functions.
EXCHANGE_TABLES = ("_dlpack_exchange_api", "_const_dlpack_exchange_api")


def _patch(torch):
    atexit.register(_registry.clear)
    try:
        compiled = extension.load()
    except ImportError:
        return  # there will be no session, because no extension serves this PyTorch
    for name, wrap in EXPORTS.items():
        with contextlib.suppress(AttributeError):  # of another version, or of one with CUDA
            compiled.replace_c_function(operator.attrgetter(name)(torch._C), wrap)
    for name in EXCHANGE_TABLES:
        if hasattr(torch._C, name):
            table = getattr(torch._C, name)()
            compiled.watch_exchange_table(table, _exporting(lambda tensor: None))
    slices = torch.UntypedStorage.__getitem__
    torch.UntypedStorage.__getitem__ = _exporting_slices(slices)


_import_hook = PostImportHook(["torch"], _patch)


def install():
    """Watches exports from now on, or from the import of torch on if that comes later."""
    _import_hook.install()


def noted_storages(aliases):
    """Notes further storages, and returns all that are alive: other code may use their addresses.

    Args:
        aliases: storages that share memory with noted ones. Later sessions know them, too.
    """
    for storage in aliases:
        _registry.add(storage)
    return _registry.storages()
