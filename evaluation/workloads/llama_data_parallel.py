#!/usr/bin/env python3
"""Trains a Llama data parallel on random tokens: with DDP, FSDP2, or FSDP2 within each node.

An ordinary PyTorch script for dry runs: what it learns has no meaning, but its use of memory does.
"""

import argparse
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from llama.model import Llama  # noqa: E402
from llama.presets import PRESETS, LlamaConfig  # noqa: E402

LAYOUTS = ("replicated", "sharded", "hybrid")


def build(config: LlamaConfig, layout: str, ranks_per_node: int) -> torch.nn.Module:
    """Makes the model: each rank has all of its states, or a shard of them.

    "sharded" divides the states over all ranks, "hybrid" over those of a node. Each block is
    checkpointed, inside of its shard as in TorchTitan.
    """
    with torch.device("meta"):
        model = Llama(config)
    model.blocks = torch.nn.ModuleList(map(checkpoint_wrapper, model.blocks))
    if layout == "replicated":
        initialize(model)
        return replicated(model)
    shard(model, mesh_of(layout, ranks_per_node))
    initialize(model)
    return model


def replicated(model: Llama) -> DistributedDataParallel:
    """Returns the model under DDP, with a bucket of gradients per block.

    A dry run keeps DDP's first buckets. These have the given size only with
    find_unused_parameters; otherwise all gradients are in one, until DDP makes the buckets anew.
    """
    block_bytes = sum(parameter.nbytes for parameter in model.blocks[0].parameters())
    return DistributedDataParallel(
        model,
        broadcast_buffers=False,
        gradient_as_bucket_view=True,
        find_unused_parameters=True,
        bucket_cap_mb=block_bytes / 2**20,
    )


def mesh_of(layout: str, ranks_per_node: int):
    ranks = dist.get_world_size()
    if layout == "sharded":
        return init_device_mesh("cpu", (ranks,))
    sizes = (ranks // ranks_per_node, ranks_per_node)
    return init_device_mesh("cpu", sizes, mesh_dim_names=("nodes", "node"))


def shard(model: Llama, mesh) -> None:
    """Applies FSDP2 to each block, as TorchTitan does: bf16 products, fp32 sums of gradients.

    The gather for a block starts before the forward pass of the block ahead of it. On a GPU FSDP2
    has this order without being asked, because its streams run behind the program.
    """
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    for block, following in itertools.pairwise([model, *model.blocks]):
        block.set_modules_to_forward_prefetch([following])


def initialize(model: torch.nn.Module) -> None:
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.02) if parameter.dim() > 1 else parameter.fill_(1.0)


def loss_of(model, tokens, targets, layout: str) -> torch.Tensor:
    """Runs the forward pass in bf16: under DDP by autocast, under FSDP2 by its own policy."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=layout == "replicated"):
        return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def train(args, config: LlamaConfig) -> None:
    dist.init_process_group("gloo")
    model = build(config, args.layout, args.ranks_per_node)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(1, args.steps + 1):
        tokens = torch.randint(config.vocab_size, (args.micro_batch, config.sequence_length + 1))
        loss_of(model, tokens[:, :-1], tokens[:, 1:], args.layout).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}/{args.steps}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--preset", choices=PRESETS, required=True)
    add("--layout", choices=LAYOUTS, required=True)
    add("--ranks-per-node", type=int, default=8)
    add("--sequence-length", type=int, default=512)
    add("--micro-batch", type=int, default=4, help="sequences of one step, on each rank")
    add("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    train(args, replace(PRESETS[args.preset], sequence_length=args.sequence_length))


if __name__ == "__main__":
    main()
