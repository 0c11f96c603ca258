"""The presets of `pretrain_llama.py`; every field can be overridden."""

from dataclasses import dataclass


class ShapeError(ValueError):
    """Raised when sizes of the model are inconsistent; the message says which."""


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a Llama decoder. Sizes are in elements."""

    vocab_size: int
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn_dim: int
    sequence_length: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    tie_embeddings: bool = False
    bias: bool = False

    def __post_init__(self):
        if self.dim % self.heads or self.dim // self.heads % 2:
            raise ShapeError(
                f"dim {self.dim} with {self.heads} heads: expected an even multiple of the heads"
            )
        if self.heads % self.kv_heads:
            raise ShapeError(f"{self.kv_heads} kv_heads: expected a divisor of {self.heads} heads")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


PRESETS = {
    # For tests: trains in milliseconds.
    "tiny": LlamaConfig(
        vocab_size=512, dim=64, layers=2, heads=4, kv_heads=2, ffn_dim=176, sequence_length=64
    ),
    # The 130M shape of GaLore and of the papers that compare with it (arXiv 2403.03507).
    "130m": LlamaConfig(
        vocab_size=32_000,
        dim=768,
        layers=12,
        heads=12,
        kv_heads=12,
        ffn_dim=2_048,
        sequence_length=256,
        norm_eps=1e-6,
    ),
    # Llama 3.2 1B.
    "1b": LlamaConfig(
        vocab_size=128_256,
        dim=2_048,
        layers=16,
        heads=32,
        kv_heads=8,
        ffn_dim=8_192,
        sequence_length=2_048,
        rope_theta=500_000.0,
        tie_embeddings=True,
    ),
    "llama3-8b": LlamaConfig(
        vocab_size=128_256,
        dim=4_096,
        layers=32,
        heads=32,
        kv_heads=8,
        ffn_dim=14_336,
        sequence_length=8_192,
        rope_theta=500_000.0,
    ),
    "llama3-70b": LlamaConfig(
        vocab_size=128_256,
        dim=8_192,
        layers=80,
        heads=64,
        kv_heads=8,
        ffn_dim=28_672,
        sequence_length=8_192,
        rope_theta=500_000.0,
    ),
    # granite-8b-code-base-4k: Llama with biases and tied embeddings.
    "granite-8b": LlamaConfig(
        vocab_size=49_152,
        dim=4_096,
        layers=36,
        heads=32,
        kv_heads=8,
        ffn_dim=14_336,
        sequence_length=4_096,
        tie_embeddings=True,
        bias=True,
    ),
}
