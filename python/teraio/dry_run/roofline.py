"""The roofline model: an op takes as long as its arithmetic or as its bytes, whichever is longer.

FLOPs come from torch's counter (torch.utils.flop_counter). The bytes are those of the op's tensors,
each of which is read or written once.
"""

from dataclasses import dataclass
from math import prod

import torch
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from teraio.accelerator import Accelerator
from teraio.dry_run.collectives import Links
from teraio.dry_run.known_values import makes_view, tensors_in
from teraio.dry_run.workspaces import workspaces

aten = torch.ops.aten

# How many times the products of a forward pass these ops compute.
_RECURRENT = {aten.mkldnn_rnn_layer: 1, aten.mkldnn_rnn_layer_backward: 2}
_MATMULS = {aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten._scaled_mm, aten._grouped_mm}
_MATMULS |= _RECURRENT.keys()
_CONVOLUTIONS = {aten.convolution, aten._convolution, aten.convolution_backward}
_ATTENTIONS_FOR_CPU = {
    aten._scaled_dot_product_flash_attention_for_cpu: 1.0,
    # The backward pass recomputes the scores and has twice the matrix products of the forward pass.
    aten._scaled_dot_product_flash_attention_for_cpu_backward: 2.5,
}

# These ops read as many bytes of their table as they write: the rows that the indices name.
_GATHERING = {"embedding", "index_select", "gather", "index", "take", "take_along_dim"}
# These ops read and write the rows of a dense tensor that the indices of a sparse one name.
_BY_ROWS = {"add_", "sub_", "sparse_mask"}
# These ops run no kernel: views that their schemas do not declare, and queries of the host.
_FREE = {"_unsafe_view", "_reshape_alias", "is_same_size", "equal"}
# These ops do not read the tensor that they write.
_FILLING = {"fill_", "zero_", "copy_", "normal_", "uniform_", "bernoulli_", "random_"}
_FILLING |= {"exponential_", "arange", "trunc_normal_"}
# These ops execute many instructions per element, so that compute limits them on a CPU.
_TRANSCENDENTAL = {"exp", "log", "log1p", "tanh", "sigmoid", "gelu", "silu", "erf", "sin"}
_TRANSCENDENTAL |= {"cos", "softplus", "mish", "elu", "logsumexp"}
# These ops draw random numbers from one generator. A CPU uses one core for them.
_RANDOM = {"normal_", "bernoulli_", "uniform_", "random_", "exponential_", "native_dropout"}
_REDUCING = {"sum", "mean", "amax", "amin", "linalg_vector_norm", "norm", "var", "std", "var_mean"}
_REDUCING |= {"prod", "max", "min", "argmax", "argmin", "all", "any"}
_NORMALIZING = {"native_layer_norm", "native_group_norm", "_fused_rms_norm"}
_NORMALIZING_BATCHES = {"native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit"}
_NORMALIZING_BATCHES |= {"batch_norm_with_update"}
# A kind of op without a rate uses that of the first more general kind that has one, or of "memory".
_MORE_GENERAL = {
    "batch_normalization": ["normalization"],
    "batch_normalization_backward": ["batch_normalization", "normalization"],
}


@dataclass(frozen=True)
class _Op:
    """The properties of an operator that do not depend on its arguments."""

    kind: str
    is_free: bool  # the op runs no kernel: it makes a view or an uninitialized tensor
    is_gathering: bool  # the op reads the rows of a table that its indices name
    is_by_rows: bool  # the op acts on the rows of a dense tensor that a sparse one has
    is_filling: bool  # the op does not read the tensor that it writes
    flops: object  # a function of torch's counter, or None
    namespace: str
    written: tuple[bool, ...]  # per argument, whether the op writes it


class Roofline:
    """Predicts the time and the workspace of ops. It caches the times by operator and shapes.

    `workspace_bytes(func, args, kwargs, result)` returns the bytes of an op's workspace.

    Args:
        accelerator: the device.
        links: the `Links` that predict the time of collectives.
    """

    def __init__(self, accelerator: Accelerator, links: Links):
        self._ops = {}
        self.use(accelerator, links)

    def use(self, accelerator: Accelerator, links: Links):
        """Predicts with the rates of another accelerator from now on."""
        self._accelerator = accelerator
        self._links = links
        self.workspace_bytes = workspaces(accelerator)
        self.is_host = accelerator.library == "onednn"  # files are mapped into its memory
        self._known = {}

    def duration_ns(self, func, args, kwargs, result) -> int:
        """Returns the op's time in nanoseconds, from its tensors' shapes, strides and types."""
        op = self._ops.get(func)
        if op is None:
            op = self._ops[func] = _describe(func)
        if op.is_free:
            return self._accelerator.op_ns
        inputs, outputs = tensors_in((args, kwargs)), tensors_in(result)
        if op.namespace in ("c10d", "_c10d_functional"):
            return self._links.duration_ns(func, args, inputs, outputs)
        key = (func, _shapes(inputs), _shapes(outputs), _settings(args))
        duration_ns = self._known.get(key)
        if duration_ns is None:
            duration_ns = self._known[key] = self._estimate_ns(op, func, args, kwargs, result)
        return duration_ns

    def _estimate_ns(self, op, func, args, kwargs, result):
        device = self._accelerator
        bytes_moved = _bytes_moved(op, args, kwargs, result)
        is_causal = op.kind.startswith("attention") and _is_causal(args, kwargs)
        # Torch's counter includes the products above the diagonal, which causal kernels skip.
        flops = _flops(op, func, args, kwargs, result) // (2 if is_causal else 1)
        seconds = bytes_moved / self._memory_rate(op.kind, bytes_moved)
        if flops:
            precision = _precision(op.kind, tensors_in((args, kwargs)), device)
            seconds = max(
                bytes_moved / self._memory_rate("memory", bytes_moved),
                flops / self._compute_rate(op.kind, precision, flops, is_causal),
            )
            # A library with a layout of its own writes copies to the workspace and reads them.
            copied = 2 * self.workspace_bytes(func, args, kwargs, result)
            seconds += copied / self._memory_rate("memory", copied)
        return max(int(seconds * 1e9), device.kernel_ns) + device.op_ns

    def _memory_rate(self, kind, size_bytes):
        device = self._accelerator
        kinds = (kind, *_MORE_GENERAL.get(kind, ()), "memory")
        measured = next(filter(None, (device.rate(k, size_bytes) for k in kinds)), None)
        if measured:
            return measured
        share = next(device.efficiency[k] for k in kinds if k in device.efficiency)
        return share * device.memory_bytes_per_second

    def _compute_rate(self, kind, precision, flops, is_causal):
        device = self._accelerator
        measured = is_causal and device.rate(f"causal_{kind}.{precision}", flops)
        measured = measured or device.rate(f"{kind}.{precision}", flops)
        if measured:
            return measured
        peak = device.flops_per_second.get(precision, device.flops_per_second["float32"])
        return device.efficiency.get(kind, 1.0) * peak


def _describe(func):
    packet = func.overloadpacket
    name = packet.__name__
    namespace = func.namespace
    is_empty = name.startswith(("empty", "new_empty"))
    return _Op(
        kind=_kind(packet, name),
        is_free=makes_view(func) or is_empty or name in _FREE or namespace in ("prim", "profiler"),
        is_gathering=name in _GATHERING,
        is_by_rows=name in _BY_ROWS,
        is_filling=name in _FILLING,
        flops=flop_registry.get(packet),
        namespace=namespace,
        written=tuple(
            argument.alias_info is not None and argument.alias_info.is_write
            for argument in func._schema.arguments
        ),
    )


def _kind(packet, name):
    if packet in _MATMULS:
        return "matmul"
    if packet in _CONVOLUTIONS:
        return "convolution_backward" if "backward" in name else "convolution"
    if "attention" in name:
        return "attention_backward" if "backward" in name else "attention"
    plain = name.removesuffix("_")
    if name in _RANDOM:
        return "random"
    if plain in _TRANSCENDENTAL:
        return "transcendental"
    if name.startswith(("gelu_backward", "silu_backward")):
        return "transcendental"
    if name.startswith(("_softmax", "_log_softmax")):
        return "softmax"
    if plain in _REDUCING:
        return "reduction"
    if name.removesuffix("_backward") in _NORMALIZING:
        return "normalization"
    if name.removesuffix("_backward") in _NORMALIZING_BATCHES:
        return "batch_normalization" + ("_backward" if name.endswith("_backward") else "")
    return "memory"


def _shapes(tensors):
    return tuple((tuple(t.shape), _strides(t), t.dtype) for t in tensors)


def _strides(tensor):
    return tensor.stride() if tensor.layout == torch.strided else (tensor.layout, tensor._nnz())


def _settings(args):
    """Returns the arguments besides tensors that may change an op's work, such as `is_causal`."""
    return tuple(
        tuple(value) if isinstance(value, list) else value
        for value in args
        if isinstance(value, (bool, int))
        or isinstance(value, list)
        and all(isinstance(element, (bool, int)) for element in value)
    )


def _size_bytes(tensor):
    """Returns the bytes of a tensor's elements in memory. Expanded dimensions take no memory."""
    if tensor.layout != torch.strided:
        return 0  # the parts of a sparse tensor are not looked at
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(size for size, stride in sizes if stride != 0) * tensor.element_size()


def _rows_bytes(tensor):
    return tensor._nnz() * prod(tensor.shape[tensor.sparse_dim() :]) * tensor.element_size()


def _bytes_moved(op, args, kwargs, result):
    results = tensors_in(result)
    by_rows = [each for each in tensors_in(args) if op.is_by_rows and each.is_sparse]
    if by_rows:
        return 3 * sum(map(_rows_bytes, by_rows))
    written = sum(map(_size_bytes, results))
    if op.is_gathering:
        indices = sum(
            _size_bytes(t) for t in tensors_in((args, kwargs)) if not t.is_floating_point()
        )
        return 2 * written + indices
    read = {id(tensor): tensor for tensor in tensors_in(kwargs)}
    for value, is_written in zip(args, op.written, strict=False):
        tensors = tensors_in(value)
        if is_written and not results:
            written += sum(map(_size_bytes, tensors))  # foreach and fused ops return nothing
        if not (is_written and op.is_filling):
            read |= {id(tensor): tensor for tensor in tensors}
    return written + sum(map(_size_bytes, read.values()))


def _flops(op, func, args, kwargs, result):
    packet = func.overloadpacket
    if packet in _ATTENTIONS_FOR_CPU:
        query, key, value = args[1:4] if "backward" in packet.__name__ else args[:3]
        return int(_attention_flops(query, key, value) * _ATTENTIONS_FOR_CPU[packet])
    if packet in _RECURRENT:
        tokens = prod(args[0].shape[:-1])
        return 2 * tokens * (args[1].numel() + args[2].numel()) * _RECURRENT[packet]
    if packet is aten._grouped_mm:
        return _grouped_flops(*args[:2])
    return op.flops(*args, **kwargs, out_val=result) if op.flops else 0


def _grouped_flops(left, right):
    # One operand of two dimensions has the rows, the inner or the columns of all groups.
    groups = left.shape[0] if left.dim() == right.dim() == 3 else 1
    return 2 * groups * prod(left.shape[-2:]) * right.shape[-1]


def _attention_flops(query, key, value):
    # With grouped-query attention, all query heads of a group use its one key and value head.
    heads = query.shape[:2]
    return sdpa_flop_count(query.shape, (*heads, *key.shape[2:]), (*heads, *value.shape[2:]))


def _is_causal(args, kwargs):
    return bool(kwargs.get("is_causal")) or any(value is True for value in args)


def _precision(kind, tensors, device):
    """Returns the precision in which the device computes, given the script's TF32 settings."""
    floating = [tensor for tensor in tensors if tensor.is_floating_point()]
    dtype = floating[0].dtype if floating else torch.float32
    name = str(dtype).removeprefix("torch.")
    if name.startswith("float8"):
        return "float8"
    if name != "float32" or "tensorfloat32" not in device.flops_per_second:
        return name
    settings = torch.backends.cudnn if kind.startswith("conv") else torch.backends.cuda.matmul
    return "tensorfloat32" if settings.allow_tf32 else "float32"
