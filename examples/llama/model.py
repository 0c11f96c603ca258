"""A Llama decoder: RMSNorm, rotary positions, SwiGLU and grouped-query attention."""

import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from .presets import LlamaConfig

# What selective checkpointing keeps: the results of matrix products and of attention.
_KEPT = (
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
)


def rotary_table(config: LlamaConfig, device) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of every (position, frequency), each [sequence, head_dim / 2]."""
    half = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32)
    frequencies = config.rope_theta ** (-half / config.head_dim)
    positions = torch.arange(config.sequence_length, device=device, dtype=torch.float32)
    angles = torch.outer(positions, frequencies)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turns each pair (i, i + head_dim / 2) of `x` [batch, heads, sequence, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention; `kv_heads` key and value heads serve all query heads."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.head_dim = config.head_dim
        self.grouped = config.kv_heads != config.heads
        kv_dim = config.kv_heads * config.head_dim
        self.wq = nn.Linear(config.dim, config.dim, bias=config.bias)
        self.wk = nn.Linear(config.dim, kv_dim, bias=config.bias)
        self.wv = nn.Linear(config.dim, kv_dim, bias=config.bias)
        self.wo = nn.Linear(config.dim, config.dim, bias=config.bias)

    def forward(self, x, cos, sin):
        q, k, v = (self._split_heads(w(x)) for w in (self.wq, self.wk, self.wv))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        return self.wo(mixed.transpose(1, 2).flatten(2))

    def _split_heads(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


class FeedForward(nn.Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.w1 = nn.Linear(config.dim, config.ffn_dim, bias=config.bias)
        self.w2 = nn.Linear(config.ffn_dim, config.dim, bias=config.bias)
        self.w3 = nn.Linear(config.dim, config.ffn_dim, bias=config.bias)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.attention = Attention(config)
        self.ffn_norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        self.feed_forward = FeedForward(config)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Token ids [batch, sequence] to logits [batch, sequence, vocab_size].

    Build it on the meta device, give it memory with `to_empty`, then call `init_weights`: large
    models are initialised once, where they will live. `activation_checkpointing` of blocks is
    "none", "full", or "selective", which runs only the cheap ops of a block again.
    """

    def __init__(self, config: LlamaConfig, activation_checkpointing: str = "none"):
        super().__init__()
        self.config = config
        self.activation_checkpointing = activation_checkpointing
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.dim, eps=config.norm_eps)
        if not config.tie_embeddings:
            self.output = nn.Linear(config.dim, config.vocab_size, bias=False)
        cos, sin = rotary_table(config, device=None)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    @torch.no_grad()
    def init_weights(self):
        """Normal weights, narrower where they feed the residual stream (GPT-2's rule)."""
        narrow = 0.02 / (2 * self.config.layers) ** 0.5
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=narrow if name.endswith(("wo", "w2")) else 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            if isinstance(module, nn.RMSNorm):
                module.reset_parameters()
        self.cos, self.sin = rotary_table(self.config, self.cos.device)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blocks:
            x = self._run_block(block, x, cos, sin)
        x = self.norm(x)
        if self.config.tie_embeddings:
            return F.linear(x, self.embedding.weight)
        return self.output(x)

    def _run_block(self, block, *inputs):
        if self.activation_checkpointing == "none":
            return block(*inputs)
        options = {}
        if self.activation_checkpointing == "selective":
            options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, _policy)
        return checkpoint(block, *inputs, use_reentrant=False, **options)


def _policy(_context, op, *_arguments, **_options):
    kept = op in _KEPT
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
