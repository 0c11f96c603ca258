"""The dispatch mode that reports a script's ops to the session, and answers reads of values."""

import functools
from math import prod

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from teraio import core
from teraio.dry_run.known_values import fill, known_value, real_ops
from teraio.dry_run.lazy_tensors import run_on_lazy
from teraio.dry_run.sized_results import (
    block_of,
    candidates,
    completed,
    compressed_result,
    grouped_product,
    has_sized_result,
    is_sparse_product,
    makes_sparse,
    result_of_size,
    sparse_product,
    with_elements,
)
from teraio.dry_run.sound_answers import note_answer, noted_answer
from teraio.dry_run.value_policy import unknown_data_message, unknown_shape_message
from teraio.dry_run.workspaces import with_reserve
from teraio.errors import Error
from teraio.hooks.source_location import script_location

aten = torch.ops.aten
_NO_DEVICE = (
    '{}: a tensor is on "{}", and PyTorch finds no such device: then it runs no backward pass, not '
    "even on fake tensors. Let the script use the CPU: the times are the accelerator's anyway"
)
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class OpMode(TorchDispatchMode):
    """Reports the results and the time of each op to the session, and answers reads of values.

    Args:
        session: the `core.DrySession`.
        roofline: the `Roofline` that predicts times.
        value_policy: the `ValuePolicy` that gives values.
    """

    def __init__(self, session, roofline, value_policy):
        super().__init__()
        self._session = session
        self._roofline = roofline
        self._value_policy = value_policy
        self._fresh_results = {}
        self._fingerprint = 0
        self._is_on_parts = False
        self.is_counting = True
        self.finds_unmovable = False  # which takes time for each op
        self.unmovable_peak_bytes = 0

    def take_fingerprint(self):
        """Returns a number for the ops since the last call, equal for equal ops on equal sizes.

        The numbers are comparable within one process.
        """
        fingerprint, self._fingerprint = self._fingerprint, 0
        return fingerprint

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # Dynamo does not run here, and its wrapper would slow down each op

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = _without_index_of_cpu(kwargs or {})
        if func is torch.ops.prim.device.default:
            return _device(args[0], func)
        if any(kind not in _PLAIN_TYPES for kind in types):
            return run_on_lazy(func, args, kwargs)  # others dispatch ops on their inner tensors
        if func is aten._local_scalar_dense.default:
            return self._read(args[0])
        running = core.running_op()
        adds_bias = running == "aten::linear" and func is aten.add.Tensor
        if adds_bias and args[0].dim() > args[1].dim():
            func = aten.add_.Tensor  # as without a subclass, unless vmap has swapped them
        is_inside = self._is_on_parts or running
        if not self.is_counting or is_inside or not core.is_this_thread_observed():
            return self._run_counted(func, args, kwargs)
        if func is aten.detach.default:
            return self._run_unobserved(func, args, kwargs)
        return self._run_on_parts(func, args, kwargs)

    def _run_unobserved(self, func, args, kwargs):
        """Runs an op unobserved: autograd calls detach only for subclasses such as fake tensors."""
        core.observe_this_thread(False)
        try:
            return self._run(func, args, kwargs)
        finally:
            core.observe_this_thread(True)

    def _run_counted(self, func, args, kwargs):
        result = self._run(func, args, kwargs)
        if self.is_counting:
            self._count(func, args, kwargs, result)
        return result

    def _run_on_parts(self, func, args, kwargs):
        """Runs an op on the local parts of DTensors so that it passes the observer on its way here.

        Their dispatch excludes the observer.
        """
        self._is_on_parts = True
        try:
            with self:
                return core.call_on_parts(func, *args, **kwargs)
        finally:
            self._is_on_parts = False

    def _read(self, tensor):
        is_fake = isinstance(tensor, FakeTensor)
        real = known_value(tensor) if is_fake else tensor
        with _disable_current_modes():
            number = None if real is None else real.item()
        if not is_fake:
            return number
        return self._value_policy.number(tensor.dtype, number, noted_answer(tensor))

    def _is_equal(self, left, right):
        """Returns whether two tensors are equal, of which one is not known: if of one shape."""
        return self._value_policy.number(torch.bool, guess=left.shape == right.shape)

    def _run(self, func, args, kwargs):
        if func is aten.sparse_compressed_tensor.comp_plain_value:
            args = (*args, self._size_of_compressed(func, *args[:2], kwargs["layout"]))
            func = aten.sparse_compressed_tensor.comp_plain_value_size
        if (compressed := compressed_result(func, args, kwargs)) is not None:
            return compressed
        if is_sparse_product(func, args):
            return sparse_product(args, functools.partial(self._value_policy.size, func))
        if func is aten._grouped_mm.default:
            return grouped_product(*args, **kwargs)
        try:
            result = func(*args, **kwargs)
        except DynamicOutputShapeException:
            result = self._sized_result(func, args, kwargs)
        except DataDependentOutputException:
            if func is not aten.equal.default:
                raise Error(unknown_data_message(func)) from None
            return self._is_equal(*args)
        if (sparse := self._sparse_result(func, args, result)) is not None:
            self._session.add_births([sparse])
            return sparse
        result = with_reserve(func, args, result)
        note_answer(func, args, result)
        if func.overloadpacket is aten.isin and known_value(result) is None:
            fill(result, self._value_policy.number(torch.bool, guess=kwargs.get("invert", False)))
        return result

    def _sparse_result(self, func, args, result):
        """Returns the sparse result of an op with its elements, or None where it has them."""
        if not makes_sparse(func, args):
            return completed(func, args, result)
        known = known_value(args[0])
        if known is None:
            count = self._value_policy.size(func, args[0].numel() // prod(block_of(result)))
        else:
            with real_ops():
                count = func(known, *args[1:])._nnz()
        return with_elements(result, count, is_coalesced=True)

    def lengths(self, func, indices):
        """Returns how long dimensions are at least, by the places in each that a tensor names."""
        known = known_value(indices)
        if known is None:
            return [self._value_policy.size(func, None) for _ in indices]
        with real_ops():
            return [max(row, default=-1) + 1 for row in known.tolist()]

    def _size_of_compressed(self, func, compressed, plain, layout):
        size = compressed.shape[-1] - 1, *self.lengths(func, plain[None])
        return size if layout == torch.sparse_csr else size[::-1]

    def _sized_result(self, func, args, kwargs):
        """Returns the result of an op whose size depends on unknown data, or raises an `Error`."""
        if not has_sized_result(func, args):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            raise Error(unknown_shape_message(func)) from None
        return result_of_size(
            func, args, kwargs, self._value_policy.size(func, candidates(func, args))
        )

    def _count(self, func, args, kwargs, result):
        self._fingerprint = hash((self._fingerprint, func, _shapes(args), _shapes((result,))))
        born = self._born(func, result)
        if born and not (func is aten.lift_fresh.default and _is_foreign(args[0])):
            self._session.add_births(born)
        workspace_bytes = self._roofline.workspace_bytes(func, args, kwargs, result)
        if self.finds_unmovable:
            unmovable_bytes = self._session.unmovable_bytes() + workspace_bytes
            self.unmovable_peak_bytes = max(self.unmovable_peak_bytes, unmovable_bytes)
        self._session.spend(self._roofline.duration_ns(func, args, kwargs, result), workspace_bytes)

    def _born(self, func, result):
        """Returns the results that are on the training device and do not alias arguments."""
        is_fresh = self._fresh_results.get(func)
        if is_fresh is None:
            is_fresh = self._fresh_results[func] = _fresh_results(func)
        results = result if isinstance(result, (list, tuple)) else (result,)
        if len(is_fresh) == 1:
            is_fresh *= len(results)  # the result is a list of tensors
        return [
            tensor
            for tensor, fresh in zip(_flat(results), is_fresh, strict=False)
            if fresh and isinstance(tensor, FakeTensor) and _is_on_device(tensor.fake_device)
        ]


def _device(tensor, func):
    """Returns a tensor's device faster than FakeTensorMode. Half of all dispatches ask for it."""
    if isinstance(tensor, FakeTensor) and not tensor.fake_mode.in_kernel_invocation:
        return tensor.fake_device
    return func(tensor)


def _without_index_of_cpu(kwargs):
    """Returns the arguments of an op with the device "cpu" for "cpu:0".

    Tensors of PyTorch's CPU have no index; fake tensors would keep it and differ from others.
    """
    device = kwargs.get("device")
    if device is None or device.type != "cpu" or device.index is None:
        return kwargs
    return {**kwargs, "device": torch.device("cpu")}


def _is_foreign(tensor):
    """Returns whether the tensor's memory belongs to other code, such as NumPy."""
    return not isinstance(tensor, FakeTensor) and not tensor.untyped_storage().resizable()


def _is_on_device(device):
    if device.type != "cpu" and not torch.accelerator.is_available():
        if device.type != "meta":
            raise Error(_NO_DEVICE.format(script_location(), device.type))
    return device.type != "meta"


def _fresh_results(func):
    if func is aten.lift_fresh.default:
        return (True,)
    return tuple(result.alias_info is None for result in func._schema.returns)


def _shapes(values):
    """Returns the shapes of the tensors among the values and in lists of them."""
    return tuple(
        value.shape if isinstance(value, torch.Tensor) else _shapes(value)
        for value in values
        if isinstance(value, (torch.Tensor, list, tuple))
    )


def _flat(results):
    return results[0] if len(results) == 1 and isinstance(results[0], (list, tuple)) else results
