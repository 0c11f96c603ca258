"""The uninitialized parameters and buffers of lazy modules, such as `torch.nn.LazyLinear`."""

import functools

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedTensorMixin, is_lazy


def making_lazy(make_subclass):
    """Wraps what makes a tensor of another class: a fake one that is to be lazy stays fake."""

    @functools.wraps(make_subclass)
    def wrapper(kind, data, *args, **kwargs):
        if not isinstance(data, FakeTensor) or not issubclass(kind, UninitializedTensorMixin):
            return make_subclass(kind, data, *args, **kwargs)
        data.requires_grad_(*args, **kwargs)
        data._is_param = issubclass(kind, torch.nn.Parameter)
        data.__class__ = _fake_kind(kind)
        return data

    return staticmethod(wrapper)


@functools.cache
def _fake_kind(kind):
    if issubclass(kind, FakeTensor):
        return kind  # of a copy
    return type(kind)(kind.__name__, (kind, FakeTensor), {"cls_to_become": FakeTensor})


def run_on_lazy(func, args, kwargs):
    """Runs an op on a lazy tensor, such as a conversion. The result for a buffer is a lazy one.
    Returns NotImplemented if the first argument is no lazy tensor."""
    if not args or not is_lazy(args[0]):
        return NotImplemented
    kind, args[0].__class__ = type(args[0]), FakeTensor
    try:
        result = func(*args, **kwargs)
    finally:
        args[0].__class__ = kind
    if not issubclass(kind, torch.nn.Parameter):
        result.__class__ = kind
    return result
