"""Known values: the contents of small tensors that no parameter and no activation decides.

The tensors of a dry run have no contents. But data is loaded for real, and programs compute with
numbers of their own: lengths, masks, positions, ranks. A fake tensor of this kind keeps a real one
beside it, on the CPU, and the ops that read only such tensors run on these as well. What a program
asks about them has its true answer, and results such as nonzero's have their true size.

An op that changes such a tensor by unknown values, or that the CPU does not know, makes its value
unknown, and that of all tensors with the same memory. The elements of a tensor that is made without
contents, as by torch.empty(), are unknown until an op writes them.
"""

import contextlib
import functools

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from teraio import core

aten = torch.ops.aten
_VALUE = "_teraio_value"  # the attribute of a fake tensor that has its `_Value`
# The most elements of tensors whose values are kept. Floating-point numbers of more elements are
# what a model computes with, and no program decides by them.
_INTEGERS_MAX = 1 << 20
_FLOATS_MAX = 4096
_NAMESPACES = ("aten", "prims")
_UNKNOWN = object()  # the result of an op that is not known
_MAKING_EMPTY = ("empty", "new_empty")  # what the names of ops begin with that write no result
_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}
# Ops that write all of their first argument and do not read it.
_OVERWRITING = {
    *(aten.bernoulli_, aten.copy_, aten.exponential_, aten.fill_, aten.normal_),
    *(aten.random_, aten.uniform_, aten.zero_),
}
# Ops with results that are not followed: they have other memory, or none that bytes describe.
_OTHERS = {
    *(aten.set_, aten.resize_, aten.resize_as_),
    *(aten._empty_affine_quantized, aten._empty_per_channel_affine_quantized),
}


class _Memory:
    """What views of one storage share: whether its contents are known.

    Args:
        empty: None, or a real tensor whose memory no op has written yet.
    """

    def __init__(self, empty=None):
        self.is_known = True
        self._unwritten = None  # or a tensor of bytes: 1 where the memory has no contents
        if empty is not None:
            with real_ops():
                self._unwritten = torch.ones(empty.untyped_storage().nbytes(), dtype=torch.uint8)

    def knows(self, tensor):
        """Returns whether the contents of a real tensor in the memory are known."""
        if not self.is_known or self._unwritten is None:
            return self.is_known
        with real_ops():
            return not self._part(tensor).any()

    def write(self, tensor):
        """Notes that all elements of a real tensor in the memory are written."""
        if self._unwritten is not None:
            with real_ops():
                self._part(tensor).zero_()

    def _part(self, tensor):
        size = tensor.element_size()
        whole = self._unwritten[: self._unwritten.numel() // size * size].view(_OF_SIZE[size])
        return whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _Value:
    """The real tensor that has the contents of a fake one."""

    def __init__(self, tensor, memory):
        self.tensor = tensor
        self.memory = memory

    def is_known(self):
        return self.memory.knows(self.tensor)

    def __deepcopy__(self, memo):
        if not self.is_known():
            return None
        with real_ops():
            return _Value(self.tensor.clone(), _Memory())


def known_value(tensor):
    """Returns the real tensor with the contents of a tensor, or None if these are not known.

    The caller does not change it.
    """
    if not isinstance(tensor, FakeTensor):
        return tensor if _is_small(tensor) and tensor.device.type == "cpu" else None
    value = getattr(tensor, _VALUE, None)
    return value.tensor if value is not None and value.is_known() else None


def set_known_value(fake, tensor):
    """Gives a fake tensor with a memory of its own the contents of a real one, if it is small.

    The real tensor is copied.
    """
    if _is_small(tensor):
        with real_ops():
            copy = tensor.detach().cpu().clone()
        setattr(fake, _VALUE, _Value(copy, _Memory()))


def fill(fake, number):
    """Gives each element of a fake tensor with a memory of its own this value, if it is small."""
    with real_ops():
        set_known_value(fake, torch.full(fake.shape, number))


def follow(func, args, kwargs, result):
    """Notes what an op's result contains, after the op has run on fake tensors.

    Args:
        func: an overload of an operator.
        args: its arguments.
        kwargs: its keyword arguments.
        result: what it has returned.
    """
    results = [each for each in _flat(result) if isinstance(each, torch.Tensor)]
    is_small = all(_is_small(each) or func.overloadpacket is aten.rand for each in results)
    real = _computed(func, args, kwargs) if is_small else _UNKNOWN
    if real is _UNKNOWN:
        _forget_written(func, args, kwargs)
        return
    sources = _tensors_in(args) + _tensors_in(kwargs.values())
    reals = [each for each in _flat(real) if isinstance(each, torch.Tensor)]
    for fake, tensor in zip(results, reals, strict=True):
        memory = _memory_of(func, tensor, sources)
        if func.overloadpacket in _OVERWRITING:
            memory.write(tensor)
        if isinstance(fake, FakeTensor):
            setattr(fake, _VALUE, _Value(tensor, memory))


def set_data(fake, data):
    """Gives a fake tensor the memory of another one, as an assignment to its `data` does."""
    torch.Tensor.data.__set__(fake, data)
    setattr(fake, _VALUE, getattr(data, _VALUE, None))


def sized(func, args, kwargs):
    """Returns the real result of an op on integers that are known, or None if one of them is not.

    Unknown fractions count as 1 where integers are among the arguments, such as lengths, which
    decide the sizes of results. The contents of such a result mean nothing.
    """
    tensors = _tensors_in(args) + _tensors_in(kwargs.values())
    has_integers = not all(each.is_floating_point() or each.is_complex() for each in tensors)
    result = _run(func, args, kwargs, fills=has_integers)
    return None if result is _UNKNOWN else result


def _computed(func, args, kwargs):
    """Returns the real result of an op on known values, or _UNKNOWN if one of them is not known."""
    if getattr(func, "namespace", None) not in _NAMESPACES or func.overloadpacket in _OTHERS:
        return _UNKNOWN
    if makes_view(func) or func.overloadpacket in _OVERWRITING:
        args = (_unread(args[0]), *args[1:])
    return _run(func, args, kwargs, fills=False)


@functools.cache
def makes_view(func):
    """Returns whether a result of an operator is a view of an argument that it does not change."""
    return any(
        each.alias_info is not None and not each.alias_info.is_write
        for each in func._schema.returns
    )


def _unread(tensor):
    """Returns the real tensor for one that an op does not read, even if no op has written it."""
    value = getattr(tensor, _VALUE, None)
    return value.tensor if value is not None and value.memory.is_known else tensor


def _run(func, args, kwargs, fills):
    try:
        with real_ops():
            return func(*_reals(args, fills), **_on_cpu(_reals(kwargs, fills)))
    except (NotImplementedError, _IsUnknown):  # the op has no kernel for the CPU
        return _UNKNOWN


@contextlib.contextmanager
def real_ops():
    """A context in which ops run on real tensors, and nobody observes them."""
    was_observed = core.is_this_thread_observed()
    core.observe_this_thread(False)
    try:
        with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
            yield
    finally:
        core.observe_this_thread(was_observed)


class _IsUnknown(Exception):
    """An argument of an op is not known."""


def _reals(values, fills):
    """Returns `values` with the known contents of each tensor, or with ones if `fills` is set.

    Raises:
        _IsUnknown: the contents of a tensor are not known.
    """
    return tree_map_only(torch.Tensor, lambda tensor: _real(tensor, fills), values)


def _real(tensor, fills):
    real = known_value(tensor)
    if real is None and fills and tensor.is_floating_point() and not tensor.is_sparse:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    if real is None:
        raise _IsUnknown
    return real


def _on_cpu(kwargs):
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    return kwargs


def _memory_of(func, tensor, sources):
    """Returns the `_Memory` of a real result: of a source whose bytes it shares, or its own."""
    address = tensor.untyped_storage()._cdata
    for source in sources:
        value = getattr(source, _VALUE, None)
        if value is not None and value.tensor.untyped_storage()._cdata == address:
            return value.memory
    is_empty = func.overloadpacket.__name__.startswith(_MAKING_EMPTY)
    return _Memory(tensor if is_empty else None)


def _forget_written(func, args, kwargs):
    written = _written_arguments(func)
    if not written:
        return
    names = [argument.name for argument in func._schema.arguments]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    for tensor in _tensors_in(value for name, value in given if name in written):
        value = getattr(tensor, _VALUE, None)
        if value is not None:
            value.memory.is_known = False


@functools.cache
def _written_arguments(func):
    """Returns the names of the arguments that an operator changes. One of higher order has none.

    Schemas of torch.distributed do not mark them.
    """
    schema = getattr(func, "_schema", None)
    is_marked = getattr(func, "namespace", None) != "c10d"
    return {
        argument.name
        for argument in (schema.arguments if schema else ())
        if not is_marked or (argument.alias_info is not None and argument.alias_info.is_write)
    }


def _tensors_in(values):
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [each for each in value if isinstance(each, torch.Tensor)]
    return found


def _flat(result):
    """Returns the tensors of a result, of which one may be a list."""
    results = result if isinstance(result, (list, tuple)) else (result,)
    return [
        each for part in results for each in (part if isinstance(part, (list, tuple)) else (part,))
    ]


def _is_small(tensor):
    dtype = tensor.dtype
    count_max = _FLOATS_MAX if dtype.is_floating_point or dtype.is_complex else _INTEGERS_MAX
    return tensor.layout is torch.strided and tensor.numel() <= count_max
