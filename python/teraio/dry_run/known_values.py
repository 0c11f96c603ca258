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
# Ops with results that are not followed: they have other memory, or none that bytes describe.
_OTHERS = {
    *(aten.set_, aten.resize_, aten.resize_as_, aten._efficientzerotensor),
    *(aten._empty_affine_quantized, aten._empty_per_channel_affine_quantized),
}
# Ops whose results depend on the form of their argument, and not on its contents.
_BY_FORM = {
    *(aten.empty_like, aten.full_like, aten.ones_like, aten.zeros_like),
    *(aten.new_empty, aten.new_full, aten.new_ones, aten.new_zeros),
}


class _Memory:
    """What views of one storage share: whether its contents are known.

    Args:
        other: None, or a storage with the same contents but for elements that no op has written.
            Results that do not depend on these are equal in both.
    """

    def __init__(self, other=None):
        self.is_known = True
        self._other = other

    def other(self, tensor):
        """Returns a real tensor in the memory as it is in the other storage, if there is one."""
        if self._other is None:
            return tensor
        place = tensor.storage_offset(), tensor.shape, tensor.stride()
        return tensor.new_empty(0).set_(self._other, *place)

    def knows(self, tensor):
        """Returns whether the contents of a real tensor in the memory are known."""
        if not self.is_known or self._other is None:
            return self.is_known
        with real_ops():
            is_equal = torch.equal(tensor, self.other(tensor))
        if is_equal and tensor.is_contiguous() and tensor.nbytes == self._other.nbytes():
            self._other = None
        return is_equal

    def split(self, tensor):
        """Lets ops write what is not known to a real tensor in the memory."""
        if self._other is None:
            with real_ops():
                self._other = tensor.untyped_storage().clone()


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
    value = _value(tensor)
    return value.tensor if value is not None and value.is_known() else None


def _value(tensor):
    return getattr(tensor, _VALUE, None)


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
    results = tensors_in(result)
    is_small = all(_is_small(each) or func.overloadpacket is aten.rand for each in results)
    real, other = _computed(func, args, kwargs) if is_small else (_UNKNOWN, None)
    if real is _UNKNOWN:
        for value in _written(func, args, kwargs):
            value.memory.is_known = False
        return
    sources = tensors_in((args, kwargs))
    for fake, *both in zip(results, tensors_in(real), tensors_in(other), strict=True):
        if isinstance(fake, FakeTensor):
            setattr(fake, _VALUE, _Value(both[0], _memory_of(*both, sources)))


def set_data(fake, data):
    """Gives a fake tensor the memory of another one, as an assignment to its `data` does."""
    torch.Tensor.data.__set__(fake, data)
    setattr(fake, _VALUE, _value(data))


def sized(func, args, kwargs):
    """Returns the real result of an op on integers that are known, or None if one of them is not.

    Unknown fractions count as 1 where integers are among the arguments, such as lengths, which
    decide the sizes of results. The contents of such a result mean nothing.
    """
    tensors = tensors_in((args, kwargs))
    has_integers = not all(each.is_floating_point() or each.is_complex() for each in tensors)
    result = _run(func, args, kwargs, _real_or_ones if has_integers else _real)
    return None if result is _UNKNOWN else result


def _computed(func, args, kwargs):
    """Returns the real result of an op, and that of other numbers in elements that no op has
    written. The first is _UNKNOWN if an argument is not known or decides the shape of results."""
    if getattr(func, "namespace", None) not in _NAMESPACES or func.overloadpacket in _OTHERS:
        return _UNKNOWN, None
    if any(map(_is_part_known, tensors_in((args, kwargs)))):
        return _computed_twice(func, args, kwargs)
    read = _of_its_form if func.overloadpacket in _BY_FORM else _real
    real = _run(func, args, kwargs, read)
    if real is _UNKNOWN or not func.overloadpacket.__name__.startswith(_MAKING_EMPTY):
        return real, real
    with real_ops():
        return real.zero_(), _run(func, args, kwargs, read).fill_(1)


def _computed_twice(func, args, kwargs):
    """Returns what _computed() does for an op that may read such elements."""
    for value in _written(func, args, kwargs):
        value.memory.split(value.tensor)
    generator = kwargs.get("generator") or torch.default_generator
    state = generator.get_state()
    try:
        real = _run(func, args, kwargs, _part)
        generator.set_state(state)
        other = _run(func, args, kwargs, functools.partial(_part, is_other=True))
    except (IndexError, RuntimeError):  # such as for an index that no op has written
        return _UNKNOWN, None
    first, second = ([(e.shape, e.stride()) for e in tensors_in(each)] for each in (real, other))
    return (real, other) if first == second else (_UNKNOWN, None)


@functools.cache
def makes_view(func):
    """Returns whether a result of an operator is a view of an argument that it does not change."""
    return any(
        each.alias_info is not None and not each.alias_info.is_write
        for each in func._schema.returns
    )


def _run(func, args, kwargs, real):
    """Returns the result of an op on `real(tensor)` for each tensor among its arguments."""
    try:
        with real_ops():
            args, kwargs = tree_map_only(torch.Tensor, real, (tuple(args), kwargs))
            return func(*args, **_on_cpu(kwargs))
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


def _real(tensor):
    """Returns the known contents of a tensor, or raises _IsUnknown."""
    real = known_value(tensor)
    if real is None:
        raise _IsUnknown
    return real


def _of_its_form(tensor):
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise _IsUnknown
    if tensor.numel() > _INTEGERS_MAX:  # more than a result that is kept: it has another shape
        return torch.empty(0, dtype=tensor.dtype)
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _real_or_ones(tensor):
    if known_value(tensor) is None and tensor.is_floating_point() and not tensor.is_sparse:
        return torch.ones(tensor.shape, dtype=tensor.dtype)
    return _real(tensor)


def _is_part_known(tensor):
    value = _value(tensor)
    return value is not None and value.memory.is_known and not value.is_known()


def _part(tensor, is_other=False):
    """Returns the contents of a tensor of which some elements may be known."""
    value = _value(tensor)
    if value is None or not value.memory.is_known:
        return _real(tensor)
    return value.memory.other(value.tensor) if is_other else value.tensor


def _on_cpu(kwargs):
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    kwargs.pop("pin_memory", None)
    return kwargs


def _memory_of(tensor, other, sources):
    """Returns the `_Memory` of a real result: of a source whose bytes it shares, or its own."""
    address = tensor.untyped_storage()._cdata
    for value in map(_value, sources):
        if value is not None and value.tensor.untyped_storage()._cdata == address:
            return value.memory
    return _Memory(None if other is tensor else other.untyped_storage())


def _written(func, args, kwargs):
    """Returns the `_Value`s of the arguments that an op changes."""
    written = _written_arguments(func)
    if not written:
        return []
    names = [argument.name for argument in func._schema.arguments]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    tensors = tensors_in([value for name, value in given if name in written])
    return [value for value in map(_value, tensors) if value is not None]


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


def tensors_in(tree):
    """Returns the tensors in nested arguments. tree_leaves() of torch would be too slow here."""
    found = []
    _collect(tree, found)
    return found


def _collect(value, found):
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for element in value:
            _collect(element, found)
    elif isinstance(value, dict):
        for element in value.values():
            _collect(element, found)


def _is_small(tensor):
    dtype = tensor.dtype
    count_max = _FLOATS_MAX if dtype.is_floating_point or dtype.is_complex else _INTEGERS_MAX
    return tensor.layout is torch.strided and tensor.numel() <= count_max
