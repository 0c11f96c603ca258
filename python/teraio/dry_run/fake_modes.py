"""The modes in which a script's tensors are fake, and the patches that they need."""

import contextlib
import functools
import itertools
import os
import sys

import torch
import torch.utils.data.dataloader as dataloader
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.nn.parameter import is_lazy
from torch.optim import optimizer as optimizers
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only, tree_unflatten

from teraio import core
from teraio.dry_run.known_values import follow, known_value, set_data, set_known_value, sized
from teraio.dry_run.lazy_tensors import making_lazy
from teraio.dry_run.op_mode import OpMode
from teraio.dry_run.sized_results import with_elements
from teraio.hooks.import_hooks import PostImportHook
from teraio.hooks.patches import Patches

aten = torch.ops.aten
_ASKS_FOR_FAKES = "transformers.utils.import_utils"
_ADDRESS = "_teraio_address"  # the attribute of a fake storage that has its address
_FIRST_ADDRESS = 1 << 62
_ADDRESSES_BETWEEN = 1 << 44
_COPYING = torch.Tensor.__deepcopy__.__code__
# Functions that make tensors of lists, whose first argument after a tensor is the list.
_MAKING_FROM_LISTS = (
    (torch, "tensor"),
    (torch, "as_tensor"),
    (torch, "asarray"),
    (torch.Tensor, "new_tensor"),
)


def fake_of(fakes, tensor):
    """Returns a fake tensor of `fakes` for a real one, with its value if it is small."""
    if isinstance(tensor, FakeTensor):
        return tensor
    fake = fakes.from_tensor(tensor, static_shapes=True)
    if tensor.layout != torch.strided:
        return with_elements(fake, tensor._nnz(), tensor.is_sparse and tensor.is_coalesced())
    set_known_value(fake, tensor)
    return fake


def _is_unknown(tensor):
    return isinstance(tensor, FakeTensor) and known_value(tensor) is None


class _FakeTensorMode(FakeTensorMode):
    """Runs ops on fake tensors, with values where they are known: data loaders' ops, too."""

    def __init__(self):
        super().__init__(allow_non_fake_inputs=True)
        self._depth = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._depth += 1
        try:
            result = super().__torch_dispatch__(func, types, args, kwargs)
        except (DynamicOutputShapeException, DataDependentOutputException):
            real = sized(func, args, kwargs or {})
            if real is None:
                raise
            result = tree_map_only(torch.Tensor, self.fake_of_shape, real)
            if func is aten._pack_padded_sequence.default:
                result = (result[0], real[1])  # C++ reads the sizes of batches
        finally:
            self._depth -= 1
        if self._depth == 0 and result is not NotImplemented:  # and no part of another op
            follow(func, args, kwargs or {}, result)
        return result

    def fake_of_shape(self, tensor):
        return self.from_tensor(tensor, static_shapes=True)

    def __deepcopy__(self, memo):
        """Returns the mode itself.

        A deep copy of a tensor copies its attributes, and a fake tensor's mode is one of them. A
        tensor of a second mode would be taken for a new tensor at each op.
        """
        return self


class FakeModes:
    """A context in which tensors are fake and ops are observed. Data loaders work as usual.

    Args:
        session: the `core.DrySession`, which runs while the context is entered.
        roofline: the `Roofline` that predicts times.
        value_policy: the `ValuePolicy` that gives values.
    """

    def __init__(self, session, roofline, value_policy):
        self._session = session
        self._roofline = roofline
        self._value_policy = value_policy
        self.has_mapped = False
        self.fakes = _FakeTensorMode()
        self.ops = OpMode(session, roofline, value_policy)
        self._stack = contextlib.ExitStack()
        self._patches = Patches()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self._install(stack)
            stack.enter_context(self.fakes)
            stack.enter_context(self.ops)
            self._session.start()
            stack.callback(self._session.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def real_tensors(self):
        """Returns a context for work on the host, in which new tensors are real."""
        return _disable_current_modes()

    def to_fake(self, tree, is_mapped=False):
        """Returns `tree`, a tensor or nested containers, with a fake tensor for each real one.

        What is mapped from a file on the host is no memory of the session, as in a run.
        """
        core.observe_this_thread(False)
        try:
            fakes = tree_map_only(torch.Tensor, lambda tensor: fake_of(self.fakes, tensor), tree)
        finally:
            core.observe_this_thread(True)
        if not self.leaves_out(is_mapped):
            self._session.add_births([t for t in tree_leaves(fakes) if isinstance(t, torch.Tensor)])
        return fakes

    def leaves_out(self, is_mapped):
        """Returns whether new tensors do not count, and notes that some do not."""
        is_left_out = is_mapped and self._roofline.is_host
        self.has_mapped |= is_left_out
        return is_left_out

    def _install(self, stack):
        patches = self._patches
        stack.callback(patches.undo)
        for supported in (
            optimizers._foreach_supported_types,
            _foreach_utils._foreach_supported_types,
        ):
            if FakeTensor not in supported:
                supported.append(FakeTensor)
                stack.callback(supported.remove, FakeTensor)
        # PyTorch's own constants cannot be copied. Known values take their place.
        patches.set(fake_tensor, "CONSTANT_NUMEL_LIMIT", -1)
        patches.wrap(fake_tensor, "run_fallback_kernel", _with_known_lengths)
        for owner, name in _MAKING_FROM_LISTS:
            patches.wrap(owner, name, _of_numbers)
        patches.wrap(torch, "sparse_coo_tensor", self._with_size)
        patches.wrap(torch.utils, "swap_tensors", _swapping)
        patches.wrap(FakeTensor, "__new__", _also_of_parameter)
        patches.wrap(torch.Tensor, "_make_subclass", making_lazy)
        patches.set(torch, "compile", _compile_nothing)
        patches.set(torch.nn.init, "_no_grad_trunc_normal_", _normal_without_bounds)
        patches.set(FakeTensor, "__format__", _format)
        patches.set(FakeTensor, "data", property(torch.Tensor.data.__get__, set_data))
        patches.set(FakeTensor, "tolist", lambda tensor: self._array(tensor).tolist())
        patches.wrap(torch.Tensor, "numpy", self._numpy)
        patches.wrap(torch.UntypedStorage, "resize_", self._resize)
        patches.wrap(torch.UntypedStorage, "data_ptr", _own_address)
        patches.wrap(torch.Tensor, "data_ptr", _address_in_storage)
        tracing = PostImportHook([_ASKS_FOR_FAKES], self._patch_transformers)
        tracing.install()
        stack.callback(tracing.remove)
        patches.wrap(dataloader.DataLoader, "__iter__", self._host_work)
        patches.wrap(dataloader._BaseDataLoaderIter, "__next__", self._loading)

    def _patch_transformers(self, module):
        """Lets transformers ask what it asks of real tensors where the answer is known: it makes an
        attention mask for every fake tensor, and none where all tokens take part."""
        self._patches.set(module, "is_fake_tensor", _is_unknown)
        os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = (
            "1"  # fake tensors are made by one thread at a time
        )

    def _array(self, tensor):
        with _disable_current_modes():
            return self._value_policy.array(tensor, known_value(tensor))

    def _with_size(self, make):
        """Wraps what makes a sparse tensor, whose size PyTorch reads from its indices."""

        @functools.wraps(make)
        def wrapper(indices, values, *args, **kwargs):
            if isinstance(indices, FakeTensor) and not args and kwargs.get("size") is None:
                lengths = self.ops.lengths("torch.sparse_coo_tensor", indices)
                kwargs["size"] = (*lengths, *values.shape[1:])
            return make(indices, values, *args, **kwargs)

        return wrapper

    def _numpy(self, method):
        @functools.wraps(method)
        def wrapper(tensor, *args, **kwargs):
            if isinstance(tensor, FakeTensor):
                return self._array(tensor)
            return method(tensor, *args, **kwargs)

        return wrapper

    def _resize(self, method):
        @functools.wraps(method)
        def wrapper(storage, *args, **kwargs):
            result = method(storage, *args, **kwargs)
            if storage.device.type == "meta":
                self._session.resize(storage)
            return result

        return wrapper

    def _host_work(self, method):
        @functools.wraps(method)
        def wrapper(*args, **kwargs):
            with self.real_tensors():
                return method(*args, **kwargs)

        return wrapper

    def _loading(self, method):
        @functools.wraps(method)
        def wrapper(iterator):
            with self.real_tensors():
                batch = method(iterator)
            return self.to_fake(batch)

        return wrapper


def _also_of_parameter(make):
    """Wraps what makes a fake tensor, so that `type(parameter)(tensor, ...)` makes a parameter.

    Libraries copy parameters so; accelerate passes the attributes of the old one, too.
    """

    @functools.wraps(make)
    def wrapper(cls, first, *args, **kwargs):
        if isinstance(first, torch.Tensor):
            return torch.nn.Parameter(first, *(args or [kwargs.get("requires_grad", True)]))
        return make(cls, first, *args, **kwargs)

    return wrapper


def _format(tensor, specification):
    """Formats a tensor without dimensions as its number, as real tensors do."""
    return format(tensor.item() if tensor.dim() == 0 else repr(tensor), specification)


def _of_numbers(make):
    """Wraps a function that makes a tensor of a list: it gets numbers for tensors in the list."""

    @functools.wraps(make)
    def wrapper(*args, **kwargs):
        found = []
        args = tuple(
            _numbers(each, found) if isinstance(each, list | tuple) else each for each in args
        )
        if found and kwargs.get("dtype") is None:
            kwargs["dtype"] = functools.reduce(torch.promote_types, found)
        return make(*args, **kwargs)

    return wrapper


def _numbers(value, dtypes):
    """Returns a value with numbers for the tensors in it, whose dtypes are added to `dtypes`."""
    if isinstance(value, FakeTensor):
        dtypes.append(value.dtype)
        return value.item() if value.dim() == 0 else value.tolist()
    if isinstance(value, list | tuple):
        return [_numbers(each, dtypes) for each in value]
    return value


def _with_known_lengths(run_fallback_kernel):
    """Wraps what runs an op that only knows real tensors, on zeros: zeros are no lengths."""

    @functools.wraps(run_fallback_kernel)
    def wrapper(mode, func, flat_args, args_spec, error):
        args, kwargs = tree_unflatten(flat_args, args_spec)
        real = None if func._schema.is_mutable else sized(func, args, kwargs)
        if real is None:
            return run_fallback_kernel(mode, func, flat_args, args_spec, error)
        return tree_map_only(torch.Tensor, mode.fake_of_shape, real)

    return wrapper


def _own_address(data_ptr):
    """Wraps a storage's address: that of a fake one is its own, which no memory has."""
    next_address = itertools.count(_FIRST_ADDRESS, _ADDRESSES_BETWEEN)

    @functools.wraps(data_ptr)
    def wrapper(storage):
        if storage.device.type != "meta" or storage.nbytes() == 0:
            return data_ptr(storage)
        if not hasattr(storage, _ADDRESS):
            setattr(storage, _ADDRESS, next(next_address))
        return getattr(storage, _ADDRESS)

    return wrapper


def _address_in_storage(data_ptr):
    @functools.wraps(data_ptr)
    def wrapper(tensor):
        if not isinstance(tensor, FakeTensor):
            return data_ptr(tensor)
        if tensor.numel() == 0 or sys._getframe(1).f_code is _COPYING:
            return 0  # a tensor without an address is cloned to copy it
        offset_bytes = tensor.storage_offset() * tensor.element_size()
        return tensor.untyped_storage().data_ptr() + offset_bytes

    return wrapper


def _swapping(swap_tensors):
    @functools.wraps(swap_tensors)
    def wrapper(first, second):
        """Swaps fake tensors, even those with weak references, which PyTorch's function refuses."""
        if not isinstance(first, FakeTensor):
            return swap_tensors(first, second)
        if not is_lazy(first):  # else it stays so, with another type
            first.__class__, second.__class__ = second.__class__, first.__class__
        first.__dict__, second.__dict__ = second.__dict__, first.__dict__
        torch._C._swap_tensor_impl(first, second)

    return wrapper


def _normal_without_bounds(tensor, mean, std, a, b, generator=None):
    """PyTorch 2.15 draws until all values are between the bounds, which it asks fakes forever."""
    with torch.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _compile_nothing(model=None, **options):
    """Returns the model itself, because a dry run does not predict how a compiler fuses ops."""
    return model if model is not None else lambda function: function
