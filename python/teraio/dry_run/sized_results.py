"""Results whose size depends on data, such as nonzero's, for a size that is given."""

from math import prod

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from teraio.dry_run.known_values import known_value, real_ops, set_known_value, tensors_in

aten = torch.ops.aten
_INDICES = "_teraio_indices"  # the attribute of a sparse fake tensor that has its real indices
_PARTS = 16  # of the elements before a merge, by which the number of those after it is rounded
# Layouts of matrices with a compressed dimension: which one that is.
COMPRESSED = {
    **dict.fromkeys((torch.sparse_csr, torch.sparse_bsr), 0),
    **dict.fromkeys((torch.sparse_csc, torch.sparse_bsc), 1),
}
_BLOCKED = (torch.sparse_bsr, torch.sparse_bsc)  # whose elements are blocks


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


# By the operator's name: a function of its arguments that returns a function of the size, which
# returns the result. The size is that of the result's first dimension.
_RESULTS = {
    "aten.nonzero": _indices,
    "aten.masked_select": lambda tensor, mask: _elements(tensor),
    "aten._unique2": _unique,
    "aten.bincount": lambda tensor, weights=None, minlength=0: _elements(
        tensor, torch.int64 if weights is None else torch.float64
    ),
    "aten.repeat_interleave": lambda repeats, output_size=None: _elements(repeats, torch.int64),
    "torchvision.nms": lambda boxes, scores, overlap: _elements(scores, torch.int64),
}


def has_sized_result(func, args):
    """Returns whether the size of an op's result depends on the contents of its arguments, and
    result_of_size() knows how."""
    operator = getattr(func, "overloadpacket", None)
    return str(operator) in _RESULTS or (operator is aten.index and any(map(_is_mask, args[1])))


def candidates(func, args):
    """Returns the number of elements from which such an op selects, or None if it does not."""
    if func.overloadpacket in (aten.bincount, aten.repeat_interleave):
        return None
    if func.overloadpacket is aten.index:
        return max(each.numel() for each in args[1] if _is_mask(each))
    return args[1 if str(func.overloadpacket) == "torchvision.nms" else 0].numel()


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
        return _RESULTS[str(func.overloadpacket)](*args, **kwargs)(count)
    tensor, indices = args
    return func(tensor, [each for index in indices for each in _without_mask(index, count)])


# Ops that make another form of a tensor, which may select some of its elements.
_COMPRESSING = {
    getattr(aten, f"_to_{str(each).removeprefix('torch.')}"): each for each in COMPRESSED
}
_MAKING_SPARSE = {aten._to_sparse, *_COMPRESSING}
# Ops that make a compressed matrix of its parts.
_MAKING_COMPRESSED = {
    aten.sparse_compressed_tensor.comp_plain_value_size,
    aten._sparse_compressed_tensor_unsafe.default,
}
# Ops whose results have the elements of all sparse operands, and ops whose results have none.
_SUMS = {aten.add, aten.add_, aten.sub, aten.sub_, aten.cat}
_PRODUCTS = {aten.mm, aten.addmm, aten._sparse_sparse_matmul}
_WITHOUT_ELEMENTS = {aten.empty_like, aten.zeros_like, aten.new_empty, aten.new_zeros}


def compressed_result(func, args, kwargs):
    """Returns the fake result of an op on compressed matrices that PyTorch has none of.

    None: the op is another one.
    """
    if func in _MAKING_COMPRESSED and isinstance(args[2], FakeTensor):
        block = args[2].shape[1:]
        return with_elements(args[2], len(args[2]), False, kwargs["layout"], args[3], block)
    if func.overloadpacket in _COMPRESSING and args[0].layout in COMPRESSED:
        layout = _COMPRESSING[func.overloadpacket]
        block = args[1] if layout in _BLOCKED else ()
        count = min(_elements_as(args[0], block), args[0].numel() // prod(block))
        return with_elements(args[0], count, False, layout, block=block)
    is_product = func is aten.mm.default and args[0].layout in COMPRESSED
    if not is_product or args[1].layout != torch.strided:
        return None
    return args[1].new_empty((args[0].shape[0], args[1].shape[1]))


def is_sparse_product(func, args):
    """Returns whether an op multiplies two sparse matrices, and adds no dense one."""
    return func.overloadpacket in _PRODUCTS and all(e.layout != torch.strided for e in args)


def sparse_product(args, size):
    """Returns the fake result of such an op, with the elements of what is added and as many as if
    those of the factors were at drawn places, or what `size(candidates, guess)` makes of that."""
    *added, left, right = args
    shape = left.shape[0], right.shape[1]
    filled = left._nnz() / left.numel() * right._nnz() / right.numel()
    guess = round(prod(shape) * (1 - (1 - filled) ** left.shape[1]))
    guess = min(prod(shape), guess + sum(each._nnz() for each in added))
    layout = torch.sparse_coo if left.layout == torch.sparse_coo else torch.sparse_csr
    return with_elements(left, size(prod(shape), guess), True, layout, shape)


def makes_sparse(func, args):
    """Returns whether an op selects the elements of its sparse result from a dense tensor."""
    return func.overloadpacket in _MAKING_SPARSE and args[0].layout == torch.strided


def completed(func, args, result):
    """Returns the sparse result of an op with its elements, or None where it has them.

    PyTorch's results for sparse fake tensors have none. A sum has those of all operands, another
    result as many as the operand with the most: no fewer than in a run. Where the indices are
    known, elements at one place are merged.
    """
    if func is aten._indices.default and (known := _known_indices(args[0])) is not None:
        set_known_value(result, known)
    if not isinstance(result, FakeTensor) or result.layout == torch.strided:
        return None
    operands = [each for each in tensors_in(args) if each.layout != torch.strided]
    block = block_of(result)
    most = result.numel() // prod(block)
    counts = [min(_elements_as(each, block), most) for each in operands]
    is_sum = func.overloadpacket in _SUMS and len(counts) > 1
    count = sum(counts) if is_sum else max(counts, default=0)
    indices = _indices_of_result(func, args, operands, result)
    is_coalesced = func.overloadpacket is aten._coalesce
    if is_coalesced and indices is not None:
        count, indices = _merged(indices), None
    has_none = func.overloadpacket in _WITHOUT_ELEMENTS or not (is_sum or result._nnz() == 0)
    if has_none or count <= result._nnz():
        setattr(result, _INDICES, indices)
        return None
    made = with_elements(result, count, is_coalesced)
    if result is args[0]:
        torch.Tensor.data.__set__(result, made)
        made = result
    setattr(made, _INDICES, indices)
    return made


def _known_indices(tensor):
    """Returns the real indices of a sparse tensor, or None if they are not known."""
    known = getattr(tensor, _INDICES, None)
    return None if known is None or known.shape[1] != tensor._nnz() else known


def _indices_of_result(func, args, operands, result):
    """Returns the real indices of a sparse result, or None if they are not known."""
    if func is aten._sparse_coo_tensor_with_dims_and_tensors.default:
        return known_value(args[3])
    known = [_known_indices(each) for each in operands if each.shape == result.shape]
    if not known or len(known) < len(operands) or any(each is None for each in known):
        return None
    with real_ops():
        return torch.cat(known, 1)


def _merged(indices):
    """Returns how many places indices name, rounded up so that most steps have the same number."""
    with real_ops():
        count = indices.unique(dim=1).shape[1]
    step = max(1, indices.shape[1] // _PARTS)
    return min(indices.shape[1], -(-count // step) * step)


def block_of(tensor):
    """Returns the shape of the elements of a matrix: () where they are numbers."""
    if tensor.layout not in _BLOCKED:
        return ()
    with real_ops():
        return tuple(tensor.values().shape[1:])


def _elements_as(tensor, block):
    """Returns how many elements of this shape have all elements of a sparse tensor, at most."""
    return tensor._nnz() * max(1, prod(block_of(tensor)) // prod(block))


def with_elements(fake, count, is_coalesced, layout=None, shape=None, block=None):
    """Returns a sparse fake tensor with `count` elements, whose form is that of another one where
    no other is given."""
    shape, layout = shape or fake.shape, layout or fake.layout
    if layout == torch.sparse_coo:
        dimensions, options = fake.sparse_dim(), {"is_coalesced": is_coalesced}
        sizes = [(dimensions, count), (count, *shape[dimensions:])]
    elif layout in COMPRESSED:
        block, dimension = block_of(fake) if block is None else block, COMPRESSED[layout]
        compressed = shape[dimension] // (*block, 1, 1)[dimension]
        sizes, options = [(compressed + 1,), (count,), (count, *block)], {"layout": layout}
    else:
        return fake
    make = torch.sparse_coo_tensor if len(sizes) == 2 else torch.sparse_compressed_tensor
    unchecked = torch.sparse.check_sparse_tensor_invariants(enable=False)
    with _disable_current_modes(), unchecked:
        *indices, values = (torch.empty(size, dtype=torch.int64, device="meta") for size in sizes)
        made = make(*indices, values.to(fake.dtype), shape, device="meta", **options)
        return FakeTensor(fake.fake_mode, made, fake.fake_device)


def grouped_product(left, right, offs=None, bias=None, out_dtype=None):
    """Returns the fake result of aten._grouped_mm, which PyTorch makes of bf16 alone, while its
    kernels also multiply other types. Its rows begin at multiples of 16 bytes, as in a run."""
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
