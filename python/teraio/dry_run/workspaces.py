"""The workspaces of ops: memory that a library allocates while an op runs."""

import torch

aten = torch.ops.aten


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
    """Returns the bytes that oneDNN copies to or from its own layout: weight, and input or output.

    The scratch memory of its kernels, a few percent of the copies, is not included.
    """
    return max(_size_bytes(args[0]), _size_bytes(result)) + _size_bytes(args[1])


def _convolution_backward(args, result):
    """Returns the bytes that oneDNN copies to or from its own layout.

    If the input needs a gradient, oneDNN copies two tensors, each counted with the larger size of
    the output and the input. Otherwise it copies the gradient of the output only.
    """
    gradient, given = _size_bytes(args[0]), _size_bytes(args[1])
    has_input_gradient = args[-1][0]
    return 2 * max(gradient, given) if has_input_gradient else gradient


def _batch_norm_backward(args, result):
    return _size_bytes(args[1])


# These match the workspaces of real runs on the CPU with PyTorch 2.11.
_ONEDNN = {
    aten.convolution.default: _convolution,
    aten._convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
    aten.native_batch_norm_backward.default: _batch_norm_backward,
}


def _size_bytes(tensor):
    return tensor.numel() * tensor.element_size()
