"""The workspaces of ops: memory that a library allocates while an op runs."""

import torch

from teraio.dry_run.sized_results import COMPRESSED

aten = torch.ops.aten
_BLOCK_CHANNELS = 16  # of oneDNN's own layout, on a CPU with AVX-512


def workspaces(accelerator):
    """Returns a function from (func, args, result) to the bytes of the op's workspace.

    Args:
        accelerator: the `Accelerator` whose library runs the ops.
    """
    by_op = _ONEDNN if accelerator.library == "onednn" else {}

    def workspace_bytes(func, args, result):
        find = by_op.get(func)
        return find(args, result) if find else 0

    return workspace_bytes


def _convolution(args, result):
    """Returns the bytes of copies in oneDNN's own layout: of input and weight, then of the output.

    The output is made after them. The scratch memory of kernels, a few percent, is not included.
    """
    copy = _copy_bytes(result, is_transposed=args[6])
    return max(_size_bytes(args[0]) + _size_bytes(args[1]) + copy - _size_bytes(result), copy)


def _convolution_backward(args, result):
    """Returns the bytes that oneDNN copies to or from its own layout.

    If the input needs a gradient, oneDNN copies the gradient of the output and the input, or with
    strides two tensors of the larger size of both. Otherwise it copies the former only.
    """
    gradient, given = (_copy_bytes(each, is_transposed=args[7]) for each in args[:2])
    has_input_gradient = args[-1][0]
    if not has_input_gradient:
        return gradient
    has_strides = max(args[4]) > 1 and not args[7]
    return 2 * max(gradient, given) if has_strides else gradient + given


def _batch_norm_backward(args, result):
    return _size_bytes(args[1])


def _product(args, result):
    """Returns the bytes that a product with a compressed sparse matrix copies: the matrix, with the
    indices that the library takes, and the result."""
    copied = [each for each in args if getattr(each, "layout", None) in COMPRESSED]
    matrices = sum(each._nnz() * (each.element_size() + 20) + 12 * each.shape[0] for each in copied)
    return matrices + (_size_bytes(result) if copied else 0)


# These match the workspaces of real runs on the CPU with PyTorch 2.11.
_ONEDNN = {
    aten.convolution.default: _convolution,
    aten._convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
    aten.mm.default: _product,
    aten.addmm.default: _product,
}


def _copy_bytes(tensor, is_transposed):
    """Returns the size of a copy that has whole blocks of channels, where blocks are used."""
    channels = max(tensor.shape[1], 1)
    copied = channels if is_transposed else -(-channels // _BLOCK_CHANNELS) * _BLOCK_CHANNELS
    return _size_bytes(tensor) // channels * copied


def _size_bytes(tensor):
    return tensor.numel() * tensor.element_size()
