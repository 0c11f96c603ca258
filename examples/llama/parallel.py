"""Tensor parallelism: every matrix is split over the processes of torchrun."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from .presets import ShapeError

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}
BLOCK_PLAN = {
    "attention.wq": ColwiseParallel,
    "attention.wk": ColwiseParallel,
    "attention.wv": ColwiseParallel,
    "attention.wo": RowwiseParallel,
    "feed_forward.w1": ColwiseParallel,
    "feed_forward.w2": RowwiseParallel,
    "feed_forward.w3": ColwiseParallel,
}


def check_split(config, count: int) -> None:
    """Raises ShapeError when the model cannot be split over so many processes."""
    if count > 1 and config.tie_embeddings:
        raise ShapeError("tied embeddings are not split over processes: use --no-tie-embeddings")
    for name in ("kv_heads", "ffn_dim", "vocab_size"):
        if getattr(config, name) % count:
            raise ShapeError(
                f"{name} {getattr(config, name)}: expected a multiple of the {count} processes"
            )


def shard(model, count: int, device: str) -> None:
    """Keeps the part of each matrix for this process; heads and hidden units are divided.

    The activations between blocks and the norms are whole in every process.
    """
    if not dist.is_initialized():
        dist.init_process_group(BACKENDS[device])
    mesh = init_device_mesh(device, (count,))
    for block in model.blocks:
        parallelize_module(block, mesh, {name: style() for name, style in BLOCK_PLAN.items()})
    ends = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, ends)


def clip_gradients(model, largest: float, foreach: bool) -> None:
    """Clips gradients as clip_grad_norm_ of torch, which cannot mix split and whole parameters."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    split = [p for p in parameters if isinstance(p.grad, DTensor)]
    if not split:
        torch.nn.utils.clip_grad_norm_(parameters, largest, foreach=foreach)
        return
    whole = [p for p in parameters if not isinstance(p.grad, DTensor)]
    norms = [
        torch.nn.utils.get_total_norm([p.grad for p in group], foreach=foreach)
        for group in (split, whole)
    ]
    norm = torch.stack([norms[0].full_tensor(), norms[1]]).norm()
    for group in (split, whole):
        torch.nn.utils.clip_grads_with_norm_(group, largest, norm, foreach=foreach)
