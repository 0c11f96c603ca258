#!/usr/bin/env python3
"""Trains a transformer of a known shape (GPT-2 40B, T5-11B, BERT-Large) on random tokens.

An ordinary PyTorch script for dry runs: what it learns has no meaning, but its use of memory does.
"""

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Shape:
    """Sizes of a model in elements.

    It has an encoder, a decoder, or both, with cross-attention in the decoder.
    """

    vocab_size: int
    dim: int
    heads: int
    head_dim: int
    ffn_dim: int
    encoder_layers: int = 0
    decoder_layers: int = 0
    bias: bool = True


SHAPES = {
    # GPT-2 with 40B parameters; the paper does not state its width and depth. The vocabulary is
    # padded, as is usual, so that it can be split evenly.
    "gpt2-40b": Shape(50_304, 8_192, 64, 128, 32_768, decoder_layers=50),
    "t5-11b": Shape(
        32_128, 1_024, 128, 128, 65_536, encoder_layers=24, decoder_layers=24, bias=False
    ),
    "bert-large": Shape(30_522, 1_024, 16, 64, 4_096, encoder_layers=24),
    # For tests.
    "tiny-gpt2": Shape(64, 32, 4, 8, 128, decoder_layers=2),
    "tiny-t5": Shape(64, 32, 4, 8, 128, encoder_layers=2, decoder_layers=2, bias=False),
    "tiny-bert": Shape(64, 32, 4, 8, 128, encoder_layers=2),
}


class Attention(nn.Module):
    """Multi-head attention of x [batch, sequence, dim] to `seen`, of the same shape."""

    def __init__(self, shape: Shape):
        super().__init__()
        inner = shape.heads * shape.head_dim
        self.head_dim = shape.head_dim
        self.query = nn.Linear(shape.dim, inner, bias=shape.bias)
        self.key = nn.Linear(shape.dim, inner, bias=shape.bias)
        self.value = nn.Linear(shape.dim, inner, bias=shape.bias)
        self.out = nn.Linear(inner, shape.dim, bias=shape.bias)

    def forward(self, x, seen, causal):
        q, k, v = (
            projected.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projected in (self.query(x), self.key(seen), self.value(seen))
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Self-attention, cross-attention when `crosses`, and a feed-forward network, with residuals.

    Takes and returns activations [batch, sequence, dim]; `encoded` is the output of the encoder.
    """

    def __init__(self, shape: Shape, causal: bool, crosses: bool):
        super().__init__()
        self.causal = causal
        self.norm = nn.LayerNorm(shape.dim)
        self.attention = Attention(shape)
        if crosses:
            self.cross_norm = nn.LayerNorm(shape.dim)
            self.cross_attention = Attention(shape)
        self.ffn_norm = nn.LayerNorm(shape.dim)
        self.up = nn.Linear(shape.dim, shape.ffn_dim, bias=shape.bias)
        self.down = nn.Linear(shape.ffn_dim, shape.dim, bias=shape.bias)

    def forward(self, x, encoded=None):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, self.causal)
        if encoded is not None:
            x = x + self.cross_attention(self.cross_norm(x), encoded, False)
        return x + self.down(F.gelu(self.up(self.ffn_norm(x))))


class Transformer(nn.Module):
    """Maps token ids [batch, sequence] to logits [batch, sequence, vocabulary].

    Positions are learned, even in the shape of T5.
    """

    def __init__(self, shape: Shape, sequence_length: int):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab_size, shape.dim)
        self.positions = nn.Parameter(torch.zeros(sequence_length, shape.dim))
        crosses = shape.encoder_layers > 0
        self.encoder = nn.ModuleList(
            Block(shape, causal=False, crosses=False) for _ in range(shape.encoder_layers)
        )
        self.decoder = nn.ModuleList(
            Block(shape, causal=True, crosses=crosses) for _ in range(shape.decoder_layers)
        )
        self.norm = nn.LayerNorm(shape.dim)
        self.output = nn.Linear(shape.dim, shape.vocab_size, bias=False)

    def forward(self, tokens):
        x = encoded = self.embedding(tokens) + self.positions
        for block in self.encoder:
            encoded = block(encoded)
        if not self.decoder:
            return self.output(self.norm(encoded))
        for block in self.decoder:
            x = block(x, encoded if self.encoder else None)
        return self.output(self.norm(x))


def build(shape: Shape, sequence_length: int, device: str, processes: int) -> Transformer:
    """Makes a model on the device with random parameters, split over the processes of torchrun."""
    with torch.device("meta"):
        model = Transformer(shape, sequence_length)
    if processes > 1:
        split(model, device, processes)
    model.to_empty(device=device)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.02) if parameter.dim() > 1 else parameter.fill_(1.0)
    return model


def split(model: Transformer, device: str, processes: int) -> None:
    """Splits the model in place (tensor parallelism): each process keeps a part of every matrix."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    if not dist.is_initialized():
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
    mesh = init_device_mesh(device, (processes,))
    for block in [*model.encoder, *model.decoder]:
        names = [name for name, module in block.named_modules() if isinstance(module, nn.Linear)]
        rows = {name for name in names if name.endswith(("out", "down"))}
        styles = {n: RowwiseParallel() if n in rows else ColwiseParallel() for n in names}
        parallelize_module(block, mesh, styles)
    ends = {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "output": ColwiseParallel(output_layouts=Replicate()),
    }
    parallelize_module(model, mesh, ends)


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--shape", choices=SHAPES, required=True)
    add("--sequence-length", type=int, default=512)
    add("--micro-batch", type=int, default=4, help="sequences in one forward and backward pass")
    add("--accumulation", type=int, default=1, help="passes in one optimizer step")
    add("--steps", type=int, default=3)
    add("--tensor-parallel", type=int, default=1, metavar="N", help="processes (of torchrun)")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    return parser.parse_args(argv)


def main():
    args = parse_arguments()
    torch.manual_seed(1)
    shape = SHAPES[args.shape]
    model = build(shape, args.sequence_length, args.device, args.tensor_parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False, fused=False)
    size = (args.micro_batch, args.sequence_length)
    for step in range(1, args.steps + 1):
        for _ in range(args.accumulation):
            tokens = torch.randint(shape.vocab_size, size, device=args.device)
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            (loss / args.accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}/{args.steps}  loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
