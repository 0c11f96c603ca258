"""The workspaces of ops: memory that an op allocates and frees while it runs on a CPU.

No formula knows what each kernel takes. Thus an op runs once for each combination of shapes, on
real tensors, of which large ones are smaller in one dimension. It runs in a child process, because
a kernel may end the process that gives it contents or sizes which it does not check.
"""

import functools
import logging
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from teraio import core
from teraio.dry_run.forked_server import CallFailed, ForkedServer
from teraio.dry_run.known_values import known_value, makes_view, real_ops, tensors_in
from teraio.dry_run.sized_results import COMPRESSED

_log = logging.getLogger("teraio")

aten = torch.ops.aten
_NAMESPACES = ("aten", "mkldnn")  # what other operators do besides is not known
_LARGE_BYTES = 64 << 10  # the least that an op has that is worth a measurement
_MEASURED_BYTES_MAX = 16 << 20
_RUN_BYTES_MAX = 256 << 20
_MARGIN_MAX = 8  # by which the sizes of images differ before and after a convolution
_OF_FEW = 4  # times as many where the elements of a batch are large
# Ops that do not check the sizes of their weights.
_UNCHECKED = {aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default}
# Ops that take nothing, or only what one of many tensors needs.
_WITHOUT = ("_foreach_", "_fused_", "_unsafe_view", "empty", "new_empty", "resize_", "set_")
_PRODUCTS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm}
_PRODUCT_TYPES = {torch.float32, torch.float64}  # of those that take no workspace

unknown_of = {}  # by operator whose workspace counts as 0, the reason
_reserves = {}  # bytes, by what decides them


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
            known[key] = _found(_find, func, args, kwargs, result)
        return known[key]

    return workspace_bytes


def _found(find, func, args, kwargs, result):
    """Returns what `find` finds of an op, or 0 where the op does not run, which is noted."""
    try:
        return find(func, args, kwargs, result)
    except CallFailed as error:
        if func not in unknown_of:
            _log.debug("teraio: memory inside %s is not known, counts as 0: %s", func, error)
        unknown_of[func] = str(error)
        return 0


def with_reserve(func, args, result):
    """Returns an op's fake result, which has the memory that the op keeps for the backward pass.

    PyTorch's fake result of an LSTM layer on the CPU has none of it.
    """
    if func is not aten.mkldnn_rnn_layer.default:
        return result
    key = (torch.is_grad_enabled(), _described(args))
    if key not in _reserves:
        find = functools.partial(_sized, _reserve)
        _reserves[key] = _found(find, func, args, {}, result)
    size_bytes = _reserves[key]
    return (*result[:3], result[3].new_empty((size_bytes,)))


@functools.cache
def _may_have_workspace(func):
    name = func.overloadpacket.__name__
    return func.namespace in _NAMESPACES and not makes_view(func) and not name.startswith(_WITHOUT)


def _described(value):
    """Returns a key for all that the workspace of an op with this argument depends on."""
    if isinstance(value, torch.Tensor):
        layout = value.stride() if value.layout == torch.strided else (value.layout, value._nnz())
        return (value.shape, layout, value.dtype)
    if isinstance(value, dict):
        return tuple((name, _described(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(_described, value))
    return type(value) if isinstance(value, (float, torch.Generator)) else value


def _find(func, args, kwargs, result):
    given = tensors_in((args, kwargs))
    if any(each.layout != torch.strided for each in (*given, *tensors_in(result))):
        return _product(func, args, result) if func in (aten.mm.default, aten.addmm.default) else 0
    is_small = sum(map(_size_bytes, [*given, *tensors_in(result)])) < _LARGE_BYTES
    if not given or is_small or _is_plain(func, given):
        return 0
    if func is aten.mkldnn_rnn_layer_backward.default:
        return _sized(_rnn_backward, func, args[:-1], kwargs, result)
    return _sized(_workspace, func, args, kwargs, result)


def _product(func, args, result):
    """Returns the bytes that a product with a compressed sparse matrix takes: its indices in the
    type of the library, a matrix by rows of one by columns, and the result twice."""
    matrices = [each for each in args if getattr(each, "layout", None) in COMPRESSED]
    if not matrices:
        return 0
    rows, number_bytes = result.shape[0], result.element_size()
    if result.layout in COMPRESSED:
        made = 20 * sum(each._nnz() for each in matrices if COMPRESSED[each.layout] == 1)
        return made + (4 + number_bytes) * result._nnz() + 12 * rows
    (matrix,) = matrices
    copy = _size_bytes(result) if func is aten.mm.default else 0
    other = sum(_size_bytes(each) for each in args[1:] if each is not matrix)
    count, is_right = matrix._nnz(), matrix is args[-1]
    if (COMPRESSED[matrix.layout] == 0) != is_right:
        return 4 * (count + rows + 1) + copy + is_right * other
    turned = (48 + number_bytes) * count + 24 * rows + 8 * matrix.shape[1] - copy
    return max((20 + number_bytes) * count + 12 * rows + copy, turned) + is_right * other


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


def _workspace(func, *args, **kwargs):
    return core.workspace_of(func, *args, **kwargs)


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
    """Returns what is measured of an op.

    That of an op on large tensors grows with the elements of the largest of them.

    Args:
        measure: a function that gets the op and real arguments, and returns bytes.

    Raises:
        CallFailed: the op does not run on contents or sizes that are made up.
    """
    given, results = tensors_in((args, kwargs)), tensors_in(result)
    largest = max((*given, *results), key=_size_bytes)
    share = _MEASURED_BYTES_MAX / sum(map(_size_bytes, (*given, *results)))
    if share * (_OF_FEW if largest.shape[0] == 1 else 1) >= 1:
        return _measured(measure, func, args, kwargs)
    failure = CallFailed("its tensors are too large")
    for size, dimensions in _ways_to_shrink(func, args, given, largest):
        power = len(dimensions[id(largest)])
        count = _count(size, share, power)
        if count < 2:
            continue
        few = _even(count / 2 ** (1 / power))
        try:
            more, fewer = (
                _measured(measure, func, args, kwargs, dimensions, each / size)
                for each in (count, few)
            )
        except CallFailed as error:
            failure = error
            continue
        steps = count**power - few**power
        return more + max(more - fewer, 0) * (size**power - count**power) // steps
    raise failure


def _ways_to_shrink(func, args, given, largest):
    """Yields a size, and by the identity of tensors the dimensions that shrink with it.

    They are the batch without or with small tensors, or the last dimension or all dimensions of
    about the largest size and about half of it, such as those of images and of what a convolution
    makes of them. A dimension has the size by which it shrinks, to keep its distance from that.
    """
    batch, extent = largest.shape[0], max(largest.shape)
    if func in _UNCHECKED and any(each.shape[0] == batch for each in args[1:5]):
        return
    for least_bytes in (_size_bytes(largest) // 16, 0):
        with_batch = [t for t in given if t.shape[:1] == (batch,) and _size_bytes(t) >= least_bytes]
        if with_batch:
            yield batch, {id(t): {0: batch} for t in (*with_batch, largest)}
    margin = _MARGIN_MAX if extent >= 32 * _MARGIN_MAX else 0
    of_extent = {
        id(t): {
            k: whole
            for k, n in enumerate(t.shape)
            for whole in (extent, extent / 2)
            if abs(n - whole) <= margin
        }
        for t in (*given, largest)
    }
    numbers = [each for each in tree_leaves(args) if isinstance(each, int)]
    if func not in _UNCHECKED and extent not in numbers:  # such as the size of a result
        yield extent, {tensor: dict([*found.items()][-1:]) for tensor, found in of_extent.items()}
        yield extent, of_extent


def _count(size, share, power):
    """Returns the size at which an op runs, on more bytes where that would be below 2."""
    counts = (_even(size * (few * share) ** (1 / power)) for few in (1, _OF_FEW))
    return next((count for count in counts if count >= 2), 0)


def _even(size):
    """Returns a size at which kernels do as at larger ones: whole vectors, from 16 on."""
    return int(size) // 16 * 16 or int(size)


def _measured(measure, func, args, kwargs, dimensions=None, ratio=1):
    """Returns what is measured of an op in a child process.

    Args:
        dimensions: by the identity of tensors, the dimensions that are smaller, as in
            _ways_to_shrink().
        ratio: how much smaller.
    """
    described = {}

    def description(tensor):
        shrunk = (dimensions or {}).get(id(tensor), {})
        return described.setdefault(id(tensor), _Description.of(tensor, shrunk, ratio))

    values = tree_map_only(torch.Generator, lambda _: None, (args, kwargs))
    values = tree_map_only(torch.Tensor, description, values)
    if sum(each.size_bytes() for each in described.values()) > _RUN_BYTES_MAX:
        raise CallFailed("its tensors are too large")
    return _server.call((measure, str(func), values, torch.is_grad_enabled()))


@dataclass
class _Description:
    """What a child process makes a tensor of."""

    shape: list
    strides: list
    dtype: torch.dtype
    contents: bytes | None

    @classmethod
    def of(cls, tensor, shrunk, ratio):
        """Describes a tensor, or one some of whose dimensions are smaller."""
        known = known_value(tensor) if ratio == 1 else None
        if known is not None and known.numel() > 0:
            with real_ops():
                dense = known.clone()
                flat = dense.as_strided((dense.numel(),), (1,))
                contents = flat.view(torch.uint8).numpy().tobytes()
            return cls(dense.shape, dense.stride(), dense.dtype, contents)
        shape, strides = list(tensor.shape), list(tensor.stride())
        for dimension, whole in shrunk.items():
            size, stride = shape[dimension], strides[dimension]
            shape[dimension] = max(1, round(size - whole + whole * ratio))
            strides = [
                each * shape[dimension] // size if each > stride else each for each in strides
            ]
        return cls(shape, strides, tensor.dtype, None)

    def size_bytes(self):
        return _extent(self.shape, self.strides) * self.dtype.itemsize

    def tensor(self):
        """Returns a real tensor. Unknown contents are ones, or zeros, which any table has."""
        if self.contents is not None:
            made = torch.frombuffer(bytearray(self.contents), dtype=self.dtype)
            return made.as_strided(self.shape, self.strides)
        number = 1 if self.dtype.is_floating_point or self.dtype == torch.bool else 0
        made = torch.full((_extent(self.shape, self.strides),), number, dtype=self.dtype)
        return made.as_strided(self.shape, self.strides)


def _run(request):
    """Runs in the child process."""
    measure, name, values, has_gradients = request
    made = {}

    def tensor(description):
        if id(description) not in made:
            made[id(description)] = description.tensor()
        return made[id(description)]

    with real_ops(), torch.set_grad_enabled(has_gradients):
        args, kwargs = tree_map_only(_Description, tensor, values)
        return measure(attrgetter(name)(torch.ops), *args, **kwargs)


_server = ForkedServer(_run)


def _extent(shape, strides):
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _size_bytes(tensor):
    return _extent(tensor.shape, tensor.stride()) * tensor.element_size()
