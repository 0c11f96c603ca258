#!/usr/bin/env python3
"""Trains a stage of a Llama's pipeline (1F1B) on random tokens, one process of torchrun per stage.

An ordinary PyTorch script for dry runs: what it learns has no meaning, but its use of memory does.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
from llama.model import Llama  # noqa: E402
from llama.presets import PRESETS, LlamaConfig  # noqa: E402


class Stage(nn.Module):
    """Consecutive blocks of a Llama.

    The first stage also has the embedding, and takes token ids [batch, sequence] instead of
    activations [batch, sequence, dim]. The last stage also has the output layer, and returns logits
    [batch, sequence, vocabulary] instead of activations.
    """

    def __init__(self, config: LlamaConfig, index: int, count: int):
        super().__init__()
        model = Llama(config)
        self.embedding = model.embedding if index == 0 else nn.Identity()
        first, end = (config.layers * i // count for i in (index, index + 1))
        self.blocks = model.blocks[first:end]
        self.ends = nn.Sequential(model.norm, model.output) if index == count - 1 else nn.Identity()
        self.register_buffer("cos", model.cos, persistent=False)
        self.register_buffer("sin", model.sin, persistent=False)

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.ends(x)


def build(config: LlamaConfig, index: int, count: int) -> Stage:
    """Makes stage `index` of `count` on the CPU, with random parameters."""
    with torch.device("meta"):
        stage = Stage(config, index, count)
    stage.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in stage.parameters():
            parameter.normal_(std=0.02) if parameter.dim() > 1 else parameter.fill_(1.0)
    return stage


def shapes_of(config: LlamaConfig, micro_batch: int, index: int, count: int) -> dict:
    """Returns the arguments of PipelineStage for the inputs and outputs of a micro-batch.

    With them, stages need not exchange shapes at run time.
    """
    size = (micro_batch, config.sequence_length)
    with torch.device("meta"):
        tokens = torch.empty(size, dtype=torch.int64)
        between = torch.empty(*size, config.dim)
        logits = torch.empty(*size, config.vocab_size)
    return {
        "input_args": (tokens if index == 0 else between,),
        "output_args": (logits if index == count - 1 else between,),
    }


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(args, config: LlamaConfig) -> None:
    dist.init_process_group("gloo")
    index, count = dist.get_rank(), dist.get_world_size()
    model = build(config, index, count)
    shapes = shapes_of(config, args.micro_batch, index, count)
    stage = PipelineStage(model, index, count, torch.device("cpu"), **shapes)
    schedule = Schedule1F1B(stage, args.accumulation, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=False)
    size = (args.accumulation * args.micro_batch, config.sequence_length)
    for step in range(1, args.steps + 1):
        tokens = torch.randint(config.vocab_size, size)
        given = (tokens,) if index == 0 else ()
        target = tokens if index == count - 1 else None
        schedule.step(*given, target=target, return_outputs=False)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}/{args.steps}", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--preset", choices=PRESETS, required=True)
    add("--sequence-length", type=int, default=512)
    add("--micro-batch", type=int, default=4, help="sequences in one forward and backward pass")
    add("--accumulation", type=int, default=4, help="micro-batches in one optimizer step")
    add("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    config = replace(PRESETS[args.preset], sequence_length=args.sequence_length)
    train(args, replace(config, tie_embeddings=False))


if __name__ == "__main__":
    main()
