"""Results whose size depends on data, such as nonzero's, for a size that is given."""

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
COMPRESSED = (torch.sparse_csr, torch.sparse_csc)


def _indices(tensor):
    return lambda count: tensor.new_empty((count, tensor.dim()), dtype=torch.int64)


def _elements(tensor, dtype=None):
    return lambda count: tensor.new_empty((count,), dtype=dtype)


def _unique(tensor, sorted=True, return_inverse=False, return_counts=False):
    inverse_shape = tensor.shape if return_inverse else (0,)
    return lambda count: (
        tensor.new_empty((count,)),
        tensor.new_empty(inverse_shape, dtype=torch.int64),
        tensor.new_empty((count if return_counts else 0,), dtype=torch.int64),
    )


def _counts(tensor, weights=None, minlength=0):
    return _elements(tensor, torch.int64 if weights is None else torch.float64)


def _repetitions(repeats, output_size=None):
    return _elements(repeats, torch.int64)


# By the operator: a function of its arguments that returns a function of the size, which returns
# the result. The size is that of the result's first dimension.
_RESULTS = {
    aten.nonzero: _indices,
    aten.masked_select: lambda tensor, mask: _elements(tensor),
    aten._unique2: _unique,
    aten.bincount: _counts,
    aten.repeat_interleave: _repetitions,
}


def has_sized_result(func, args):
    """Returns whether the size of an op's result depends on the contents of its arguments, and
    result_of_size() knows how."""
    operator = getattr(func, "overloadpacket", None)
    return operator in _RESULTS or (operator is aten.index and any(map(_is_mask, args[1])))


def candidates(func, args):
    """Returns the number of elements from which such an op selects, or None if it does not."""
    if func.overloadpacket in (aten.bincount, aten.repeat_interleave):
        return None
    masks = (
        [each for each in args[1] if _is_mask(each)] if func.overloadpacket is aten.index else []
    )
    return max(each.numel() for each in masks or args[:1])


def _is_mask(index):
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def result_of_size(func, args, kwargs, count):
    """Returns the fake result of an op.

    Args:
        func: an overload of an operator for which has_sized_result() is true.
        args: its arguments.
        kwargs: its keyword arguments.
        count: the size of the result, or the number of elements that a mask selects.
    """
    if func.overloadpacket is not aten.index:
        return _RESULTS[func.overloadpacket](*args, **kwargs)(count)
    tensor, indices = args
    return func(tensor, [each for index in indices for each in _without_mask(index, count)])


# By the operator: what makes a sparse tensor of its parts, and the dimension that is compressed.
_SPARSE_FORMS = {
    aten._coalesce.default: (torch.sparse_coo_tensor, None),
    aten._to_sparse_csr.default: (torch.sparse_csr_tensor, 0),
    aten._to_sparse_csc.default: (torch.sparse_csc_tensor, 1),
}


def sparse_result(func, args):
    """Returns the fake result of an op on a sparse tensor, and the parts of a sparse result.

    Another form of a tensor has as many elements as it has, where PyTorch makes none. Products are
    those that PyTorch does not know without contents. None: the op is another one.
    """
    if not args or not isinstance(args[0], FakeTensor) or args[0].layout == torch.strided:
        return None
    if func is aten.mm.default and args[0].layout in COMPRESSED and args[1].layout == torch.strided:
        return args[1].new_empty((args[0].shape[0], args[1].shape[1])), []
    if func not in _SPARSE_FORMS or not args[0].is_sparse:
        return None
    make, compressed = _SPARSE_FORMS[func]
    indices, values = args[0]._indices(), args[0]._values()
    lengths = [indices.shape]
    if compressed is not None:
        lengths = [(args[0].shape[compressed] + 1,), (args[0]._nnz(),)]
    with _disable_current_modes():
        parts = [torch.empty(each, dtype=torch.int64, device="meta") for each in lengths]
        parts.append(torch.empty(values.shape, dtype=values.dtype, device="meta"))
        made = make(*parts, args[0].shape, device="meta")
        if compressed is None:
            made._coalesced_(True)
        return FakeTensor(args[0].fake_mode, made, args[0].fake_device), parts


def grouped_product(left, right, offs=None, bias=None, out_dtype=None):
    """Returns the fake result of aten._grouped_mm, which PyTorch makes of bf16 alone, while its
    kernels also multiply other types. Its rows begin at multiples of 16 bytes, as theirs do."""
    shape = left.shape[:-1] + right.shape[-1:]
    if left.dim() == right.dim() == 2:
        shape = offs.shape + shape
    elif right.dim() == 2:
        shape = shape[1:]
    dtype = out_dtype or left.dtype
    row_length = -(-shape[-1] * dtype.itemsize // 16) * 16 // dtype.itemsize
    strides = (row_length, 1) if len(shape) == 2 else (shape[1] * row_length, row_length, 1)
    return left.new_empty_strided(shape, strides, dtype=dtype)


def _without_mask(index, count):
    """Returns the indices that select what a mask selects: one for each of its dimensions."""
    if not _is_mask(index):
        return [index]
    return [index.new_empty((count,), dtype=torch.int64) for _ in range(index.dim())]
