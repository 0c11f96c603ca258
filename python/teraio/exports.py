"""Exports: tensors whose addresses the program has taken before a session.

A session moves the bytes of tensors, so a tensor that other code reaches by its address must stay
where it is. From `import teraio` on, the methods that give an address away (`data_ptr`, DLPack,
slices of a storage) record the storage. The session keeps the recorded storages in place, and those
in which it finds aliases itself (pytorch/aliases.h): exports from before the import, and storages
that share memory.

While a session runs, `teraio.addresses` also pins what is exported.
"""

import functools
import logging
import sys

from teraio import address_users
from teraio.import_hooks import PostImportHook

_log = logging.getLogger("teraio")

# How many callers are looked at to find the function that wants the address.
_CALLERS = 3


def _functions(*tables):
    return {
        (module, path.rpartition(".")[2])
        for table in tables
        for module, paths in table.items()
        for path in paths
    }


_HARMLESS = _functions(
    address_users.COMPARE, address_users.READ, address_users.BORROW, address_users.SERIALIZE
)
_HARMLESS_IN_OPS = _functions(address_users.IN_OPS)
_KEEPING = _functions(address_users.USE)
_OPERATORS = "torch._ops"  # the module whose functions Python calls operators by


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

    def storages(self):
        """Returns the storages that are alive."""
        import torch

        references = list(self._references.values())  # so that their addresses are not used anew
        found = [torch.UntypedStorage._new_with_weak_ptr(each.cdata) for each in references]
        return [storage for storage in found if storage is not None]


_registry = _Registry()


def _is_harmless_caller():
    """Whether the address is for a function that does not keep it."""
    frame = sys._getframe(2)  # of the method's caller
    for _ in range(_CALLERS):
        if frame is None:
            return False
        function = (frame.f_globals.get("__name__"), frame.f_code.co_name)
        if function in _KEEPING:
            return False
        if function in _HARMLESS:
            return True
        if function in _HARMLESS_IN_OPS:
            return _is_in_operator(frame)
        frame = frame.f_back
    return False


def _is_in_operator(frame):
    """Whether a function runs for the kernel of an operator that Python has called."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _OPERATORS:
            return True
        frame = frame.f_back
    return False


def _record(tensor_or_storage):
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        is_tensor = isinstance(tensor_or_storage, torch.Tensor)
        try:
            storage = tensor_or_storage.untyped_storage() if is_tensor else tensor_or_storage
            _registry.add(storage)
        except (NotImplementedError, RuntimeError):
            return  # a tensor without a storage


def _recorded(method):
    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        result = method(self, *args, **kwargs)
        if not _is_harmless_caller():
            _record(self)
        return result

    return wrapper


def _recorded_slice(method):
    @functools.wraps(method)
    def wrapper(self, index):
        result = method(self, index)
        if isinstance(index, slice):
            _record(self)
        return result

    return wrapper


def _patch(torch):
    for owner, name, wrap in (
        (torch.Tensor, "data_ptr", _recorded),
        (torch.Tensor, "__dlpack__", _recorded),
        (torch.utils.dlpack, "to_dlpack", _recorded),
        (torch, "to_dlpack", _recorded),
        (torch.UntypedStorage, "data_ptr", _recorded),
        (torch.UntypedStorage, "__getitem__", _recorded_slice),
    ):
        if hasattr(owner, name):  # newer versions of PyTorch have no torch.to_dlpack
            setattr(owner, name, wrap(getattr(owner, name)))


_import_hook = PostImportHook(["torch"], _patch)


def install():
    """Records exports from now on, or from the import of torch on if that comes later."""
    _import_hook.install()


def keep_in_place(session, aliases, is_complete):
    """Keeps exported storages from before the session where they are, and logs how many.

    Call it when the session has started and its first operator has not run.

    Args:
        session: a `core.Session`.
        aliases: the storages that its `find_aliases()` has returned.
        is_complete: the other result of `find_aliases()`.
    """
    from teraio import core

    for storage in aliases:
        _registry.add(storage)  # for later sessions
    sizes = [(core.keep_in_place(storage), storage) for storage in _registry.storages()]
    kept = [(size_bytes, storage._cdata) for size_bytes, storage in sizes if size_bytes > 0]
    if kept:
        _log_kept(session, kept)
    if not is_complete:
        _log.warning(
            "teraio: it is not known whether libraries share memory with tensors from before "
            "`import teraio`, because the process's memory could not be searched. Such memory is "
            "not valid after an operator of the session has used the tensor. Import teraio before "
            "tensors are shared"
        )


def _log_kept(session, kept):
    from teraio.addresses import WARNING_SHARE, names_of_largest
    from teraio.units import format_size

    kept_bytes = sum(size_bytes for size_bytes, _ in kept)
    is_much = kept_bytes >= WARNING_SHARE * session.budget_bytes()
    _log.log(
        logging.WARNING if is_much else logging.INFO,
        "teraio: %d storages from before the session (%s) stay on the device, because other code "
        "knows their addresses (data_ptr(), DLPack): other tensors have less room. The largest: %s",
        len(kept),
        format_size(kept_bytes),
        names_of_largest(kept),
    )
