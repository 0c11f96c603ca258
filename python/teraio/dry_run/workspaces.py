"""The workspaces of ops: memory that an op allocates and frees while it runs on a CPU.

No formula knows what each kernel takes. Thus an op runs once for each combination of shapes, on
real tensors, of which large ones have a smaller batch.
"""

import functools

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from teraio import core
from teraio.dry_run.known_values import known_value, real_ops
from teraio.dry_run.sized_results import COMPRESSED

aten = torch.ops.aten
_NAMESPACES = ("aten", "mkldnn")  # what other operators do besides is not known
_LARGE_BYTES = 64 << 10  # the least that an op has that is worth a measurement
_MEASURED_BYTES_MAX = 16 << 20
_OF_FEW = 4  # times as many where the elements of a batch are large
# Ops that do not check the sizes of their weights.
_UNCHECKED = {aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default}
# Ops that take nothing, or only what one of many tensors needs.
_WITHOUT = ("_foreach_", "_fused_", "empty", "new_empty", "resize_", "set_")
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
_PRODUCT_TYPES = {torch.float32, torch.float64}  # of those that take no workspace


def workspaces(accelerator):
    """Returns a function from (func, args, kwargs, result) to the bytes of the op's workspace.

    Args:
        accelerator: the `Accelerator` whose library runs the ops. That of a CPU is measured here.
    """
    known = {}

    def workspace_bytes(func, args, kwargs, result):
        if accelerator.library != "onednn" or not _may_have_workspace(func):
            return 0
        key = (func, torch.is_grad_enabled(), _described((args, kwargs)))
        if key not in known:
            known[key] = _find(func, args, kwargs, result)
        return known[key]

    return workspace_bytes


def with_reserve(func, args, result):
    """Returns an op's fake result, which has the memory that the op keeps for the backward pass.

    PyTorch's fake result of an LSTM layer on the CPU has none of it.
    """
    if func is not aten.mkldnn_rnn_layer.default:
        return result
    size_bytes = _sized(_reserve, func, args, {}, result)
    return (*result[:3], result[3].new_empty((size_bytes,)))


@functools.cache
def _may_have_workspace(func):
    name = func.overloadpacket.__name__
    makes_views = any(
        each.alias_info is not None and not each.alias_info.is_write
        for each in func._schema.returns
    )
    return func.namespace in _NAMESPACES and not makes_views and not name.startswith(_WITHOUT)


def _described(value):
    """Returns a key for all that the workspace of an op with this argument depends on."""
    if isinstance(value, torch.Tensor):
        layout = value.stride() if value.layout == torch.strided else value._nnz()
        return (value.shape, layout, value.dtype)
    if isinstance(value, dict):
        return tuple((name, _described(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_described, value))
    return type(value) if isinstance(value, (float, torch.Generator)) else value


def _find(func, args, kwargs, result):
    given = _tensors((args, kwargs))
    if any(each.layout != torch.strided for each in given):
        return _product(args, result) if func in (aten.mm.default, aten.addmm.default) else 0
    is_small = sum(map(_size_bytes, [*given, *_tensors(result)])) < _LARGE_BYTES
    if is_small or _is_plain(func, given):
        return 0
    if func is aten.mkldnn_rnn_layer_backward.default:
        return _sized(_rnn_backward, func, args[:-1], kwargs, result)
    return _sized(core.workspace_of, func, args, kwargs, result)


def _product(args, result):
    """Returns the bytes that a product with a compressed sparse matrix copies: the matrix, with the
    indices that the library takes, and the result."""
    copied = [each for each in args if getattr(each, "layout", None) in COMPRESSED]
    matrices = sum(each._nnz() * (each.element_size() + 20) + 12 * each.shape[0] for each in copied)
    return matrices + (_size_bytes(result) if copied else 0)


def _is_plain(func, given):
    """Returns whether an op computes with its operands as they are, in one type."""
    dtypes = {each.dtype for each in given}
    if torch.Tag.pointwise in func.tags:
        return len(dtypes) == 1 and given[0].is_floating_point()
    return (
        func.overloadpacket in _PRODUCTS
        and dtypes <= _PRODUCT_TYPES
        and all(each.is_contiguous() or each.mT.is_contiguous() for each in given[-2:])
    )


def _reserve(func, *args):
    """Returns the bytes of the last result of `func`, which has it if gradients are wanted."""
    reserve = func(*args)[3]
    return 0 if reserve is None else _size_bytes(reserve)


def _rnn_backward(func, inputs, *args):
    """Returns the workspace of the backward pass of an LSTM layer, which reads the reserve.

    Args:
        func: the overload of the operator.
        inputs: the layer's inputs.
        args: its other arguments but for the reserve.
    """
    reverse, mode, hidden, layers, biases, train, both, sizes, is_batch_first = args[12:]
    options = (reverse, sizes, mode, hidden, layers, biases, both, is_batch_first, train)
    with torch.enable_grad():
        reserve = aten.mkldnn_rnn_layer.default(inputs, *args[:6], *options)[3]
    return core.workspace_of(func, inputs, *args, reserve)


def _sized(measure, func, args, kwargs, result):
    """Returns what is measured of an op, or 0 where the op does not run.

    That of an op on large tensors grows by as much with each element of their first dimension,
    the batch, as with those of fewer.

    Args:
        measure: a function that gets the op and real arguments, and returns bytes.
    """
    tensors = _tensors((args, kwargs, result))
    all_bytes = sum(map(_size_bytes, tensors))
    largest = max(tensors, key=_size_bytes)
    batch = largest.shape[0]
    if all_bytes <= _MEASURED_BYTES_MAX * (_OF_FEW if batch == 1 else 1):
        return _measured(measure, func, args, kwargs, {}) or 0
    count = batch * _MEASURED_BYTES_MAX // all_bytes
    if count < 2 <= _OF_FEW * batch * _MEASURED_BYTES_MAX // all_bytes:
        count = 2
    if count < 2 or func in _UNCHECKED and any(each.shape[0] == batch for each in args[1:5]):
        return 0
    for least_bytes in (_size_bytes(largest) // 16, 0):  # without or with small tensors
        with_batch = [
            t for t in tensors if t.shape[:1] == (batch,) and _size_bytes(t) >= least_bytes
        ]
        more, fewer = (
            _measured(measure, func, args, kwargs, {id(t): size for t in with_batch})
            for size in (count, count // 2)
        )
        if more is not None and fewer is not None:
            return more + max(more - fewer, 0) * (batch - count) // (count - count // 2)
    return 0


def _measured(measure, func, args, kwargs, first_sizes):
    """Returns what is measured of an op, or None where it does not run.

    Args:
        first_sizes: by the identity of tensors, that of their first dimension if it is another.
    """
    made = {}

    def real(tensor):
        if id(tensor) not in made:
            made[id(tensor)] = _real(tensor, first_sizes)
        return made[id(tensor)]

    has_gradients = torch.is_grad_enabled()
    try:
        with real_ops(), torch.set_grad_enabled(has_gradients), torch.random.fork_rng(devices=[]):
            args, kwargs = tree_map_only(torch.Tensor, real, (args, kwargs))
            return measure(func, *args, **kwargs)
    except Exception:  # of contents or sizes that are made up
        return None


def _real(tensor, first_sizes):
    """Returns a real tensor that stands for a fake one."""
    known = known_value(tensor)
    if known is not None and not first_sizes:
        return known.clone()
    number = 1 if tensor.dtype.is_floating_point or tensor.dtype == torch.bool else 0
    shape = list(tensor.shape)
    if id(tensor) in first_sizes:
        shape[0] = first_sizes[id(tensor)]
    extent = _extent(shape, tensor.stride())
    return torch.full((extent,), number, dtype=tensor.dtype).as_strided(shape, tensor.stride())


def _extent(shape, strides):
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _tensors(tree):
    return [each for each in tree_leaves(tree) if isinstance(each, torch.Tensor)]


def _size_bytes(tensor):
    return _extent(tensor.shape, tensor.stride()) * tensor.element_size()
