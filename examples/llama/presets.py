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


# vocab_size, dim, layers, heads, kv_heads, ffn_dim, sequence_length
PRESETS = {
    "tiny": LlamaConfig(512, 64, 2, 4, 2, 176, 64),  # for tests: trains in milliseconds
    # The 130M shape of GaLore and of the papers that compare with it (arXiv 2403.03507).
    "130m": LlamaConfig(32_000, 768, 12, 12, 12, 2_048, 256, norm_eps=1e-6),
    # Llama 3.2 1B.
    "1b": LlamaConfig(
        *(128_256, 2_048, 16, 32, 8, 8_192, 2_048), rope_theta=500_000.0, tie_embeddings=True
    ),
    "llama3-8b": LlamaConfig(128_256, 4_096, 32, 32, 8, 14_336, 8_192, rope_theta=500_000.0),
    "llama3-70b": LlamaConfig(128_256, 8_192, 80, 64, 8, 28_672, 8_192, rope_theta=500_000.0),
    # granite-8b-code-base-4k: Llama with biases and tied embeddings.
    "granite-8b": LlamaConfig(
        *(49_152, 4_096, 36, 32, 8, 14_336, 4_096), tie_embeddings=True, bias=True
    ),
}
