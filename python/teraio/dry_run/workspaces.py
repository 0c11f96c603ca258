"""The memory that libraries take for themselves while an op runs."""

import torch

aten = torch.ops.aten


def workspaces(accelerator):
    """A function that gives an op's workspace in bytes from (func, args, result)."""
    by_op = _ONEDNN if accelerator.library == "onednn" else {}

    def workspace_bytes(func, args, result):
        find = by_op.get(func)
        return find(args, result) if find else 0

    return workspace_bytes


def _convolution(args, result):
    """oneDNN computes in a layout of its own: the weight is copied into it, and the input before,
    or the output after. Its kernels' scratch memory, a few percent of that, is left out."""
    return max(_size_bytes(args[0]), _size_bytes(result)) + _size_bytes(args[1])


def _convolution_backward(args, result):
    """The same in three products: gradient and input are copied, and what is made of them."""
    gradient, given = _size_bytes(args[0]), _size_bytes(args[1])
    has_input_gradient = args[-1][0]
    return 2 * max(gradient, given) if has_input_gradient else gradient


def _batch_norm_backward(args, result):
    return _size_bytes(args[1])


# Found from the workspaces of real runs on PyTorch 2.11's CPU.
_ONEDNN = {
    aten.convolution.default: _convolution,
    aten._convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}


def _size_bytes(tensor):
    return tensor.numel() * tensor.element_size()
