"""Small models with tensors large enough to move (64 KiB and more), each with its data.

A model takes the tensors of a batch and returns the loss.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 192
VOCABULARY = 512


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.query, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH, WIDTH // 2)
        self.up, self.gate = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.down = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x, cos, sin):
        x = x + self.attend(self.norms[0](x), cos, sin)
        y = self.norms[1](x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, x, cos, sin):
        query, key, value = (
            layer(x).unflatten(-1, (-1, 32)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(
            rotate(query, cos, sin), rotate(key, cos, sin), value, is_causal=True, enable_gqa=True
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


class Llama(nn.Module):
    """Grouped-query attention, rotary positions, SwiGLU; the output layer shares the embedding."""

    def __init__(self, layers=2, checkpointing=None):
        super().__init__()
        self.checkpointing = checkpointing
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.output.weight = self.embedding.weight
        angles = torch.outer(torch.arange(256.0), 1000.0 ** (-torch.arange(0, 1, 1 / 16)))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for block in self.blocks:
            if self.checkpointing is None:
                x = block(x, cos, sin)
            else:
                x = checkpoint(block, x, cos, sin, use_reentrant=self.checkpointing == "reentrant")
        logits = self.output(self.norm(x))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Encoder(nn.Module):
    """torch's own TransformerEncoder, with dropout."""

    def __init__(self, layers=2):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 3 * WIDTH, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        logits = self.output(self.encoder(self.embedding(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Recurrent(nn.Module):
    """Convolutions with BatchNorm over the frames of a clip, then an LSTM over the clip."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.GELU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.clip = nn.LSTM(1024, 128, num_layers=2, batch_first=True)
        self.output = nn.Linear(128, 10)

    def forward(self, clips, labels):
        frames = self.frames(clips.flatten(0, 1)).flatten(1).unflatten(0, clips.shape[:2])
        states, _ = self.clip(frames)
        return F.cross_entropy(self.output(states[:, -1]), labels)


class Experts(nn.Module):
    """A mixture of experts: the data decide which expert sees how many tokens, or none."""

    def __init__(self, count=6):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.router = nn.Linear(WIDTH, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(count)
        )
        self.output = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens).flatten(0, 1)
        weights, choices = self.router(x).softmax(-1).topk(2)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slots = torch.where(choices == number)
            if rows.numel() > 0:
                part = expert(x[rows]) * weights[rows, slots, None]
                mixed = mixed.index_add(0, rows, part.to(mixed.dtype))
        return F.cross_entropy(self.output(x + mixed), tokens.flatten())


def tokens(step, batch=4, length=48):
    return (torch.randint(VOCABULARY, (batch, length)),)


def tokens_of_changing_length(step):
    return tokens(step, length=(32, 64, 48)[step % 3])


def clips(step):
    return torch.randn(4, 4, 3, 24, 24), torch.randint(10, (4,))
