"""Addresses that are given away: a tensor stays where it is when somebody may use its address.

Nobody tells for how long. What is known to use addresses only to tell storages apart gets numbers
that do so instead, and of a writer of files it is known when it has written: neither makes tensors
stay.
"""

import functools
import sys
import threading

import torch

from teraio import core
from teraio.import_hooks import PostImportHook
from teraio.iterations import parameter_names
from teraio.units import format_size

# More than this share of the budget that is held for good is told, once.
_TOLD_SHARE = 0.1

# By module: functions and methods that compare addresses and do nothing else with them.
_TELL_APART = {
    "safetensors.torch": (
        "storage_ptr",
        "_end_ptr",
        "_find_shared_tensors",
        "_filter_shared_not_shared",
        "_is_complete",
    ),
    "transformers.pytorch_utils": ("id_tensor_storage",),
    "transformers.modeling_utils": ("_end_ptr", "_find_disjoint", "_find_identical"),
    "accelerate.utils.modeling": ("id_tensor_storage",),
    "huggingface_hub.serialization._torch": ("_get_unique_id", "get_torch_storage_id"),
    "torch.distributed.fsdp._flat_param": ("_data_ptr_allocated", "_same_storage"),
    "torch.distributed.fsdp._runtime_utils": ("_catch_all_reshard",),
    "torch.distributed.fsdp._fully_shard._fsdp_param": ("FSDPParam.reset_sharded_param",),
}
# Functions that read at the addresses that they ask for, until they return.
_READ = {"safetensors.torch": ("_tobytes",)}
# Functions that ask for addresses, and those that are done with all of them when they return.
_BORROW = {"safetensors.torch": ("_to_ndarray",)}
_GIVE_BACK = {"safetensors.torch": ("serialize", "serialize_file")}


class _Thread(threading.local):
    tells_apart = False
    borrowed = None  # pins, while a function that borrows runs
    to_give_back = ()


_this_thread = _Thread()


def _number(storage):
    """Differs from the address of every other byte of every other storage. It does not change when
    the storage moves, and nobody could read there."""
    return storage._cdata << 40 if storage.nbytes() and storage.device.type != "meta" else 0


def of_storage(method):
    @functools.wraps(method)
    def wrapper(self):
        if _this_thread.tells_apart:
            return _number(self)
        _keep(self)
        return method(self)

    return wrapper


def of_tensor(method):
    @functools.wraps(method)
    def wrapper(self):
        if _this_thread.tells_apart and self.layout is torch.strided:
            start = _number(self.untyped_storage())
            return start and start + self.storage_offset() * self.element_size()
        _keep(self)
        return method(self)

    return wrapper


def for_good(method):
    """The address goes to somebody of whom we hear nothing more."""

    @functools.wraps(method)
    def wrapper(self, *args, **kwargs):
        _keep(self)
        return method(self, *args, **kwargs)

    return wrapper


def _keep(tensor_or_storage):
    if _this_thread.borrowed is not None:
        _this_thread.borrowed.append(core.Pin(tensor_or_storage))
    elif core.pin_address(tensor_or_storage) and _pins is not None:
        _pins.note(tensor_or_storage)


def tells_storages_apart(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        before, _this_thread.tells_apart = _this_thread.tells_apart, True
        try:
            return function(*args, **kwargs)
        finally:
            _this_thread.tells_apart = before

    return wrapper


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


class _Pins:
    """What is held for good in a session, so that a user hears of it before memory gets tight."""

    def __init__(self, session):
        self._session = session
        self._size_bytes = {}  # by storage
        self._is_told = False

    def note(self, tensor_or_storage):
        if self._is_told:
            return
        is_tensor = isinstance(tensor_or_storage, torch.Tensor)
        storage = tensor_or_storage.untyped_storage() if is_tensor else tensor_or_storage
        self._size_bytes[storage._cdata] = storage.nbytes()
        held_bytes = self._session.held_for_good_bytes()
        budget_bytes = self._session.budget_bytes()
        if held_bytes >= _TOLD_SHARE * budget_bytes:
            self._is_told = True
            self._tell(held_bytes, budget_bytes)

    def _tell(self, held_bytes, budget_bytes):
        names = _storage_names()
        largest = sorted(self._size_bytes.items(), key=lambda entry: -entry[1])[:3]
        texts = [f"{names.get(key, 'unnamed')} ({format_size(size)})" for key, size in largest]
        print(
            f"teraio: {format_size(held_bytes)} of the {format_size(budget_bytes)} budget stay on "
            "the device for good, since the program asked for addresses (data_ptr(), DLPack). "
            f"The largest: {', '.join(texts)}",
            file=sys.stderr,
        )


def _storage_names():
    try:
        return {p.untyped_storage()._cdata: name for p, name in parameter_names().items()}
    except Exception:  # of somebody else's module: names are not worth the program's end
        return {}


_pins = None
_changed = []


def _change(module):
    for table, wrap in (
        (_TELL_APART, tells_storages_apart),
        (_READ, _reads),
        (_BORROW, _borrows),
        (_GIVE_BACK, _gives_back),
    ):
        for path in table.get(module.__name__, ()):
            owner_name, _, name = path.rpartition(".")
            owner = getattr(module, owner_name, None) if owner_name else module
            function = getattr(owner, name, None)
            if callable(function):
                _changed.append((owner, name, function))
                setattr(owner, name, wrap(function))


_import_hook = PostImportHook(sorted(_TELL_APART), _change)


def install(session):
    global _pins
    _pins = _Pins(session)
    _import_hook.install()


def remove():
    global _pins
    _pins = None
    _import_hook.remove()
    while _changed:
        owner, name, function = _changed.pop()
        setattr(owner, name, function)
