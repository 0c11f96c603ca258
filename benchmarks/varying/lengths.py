"""The length of each sequence is drawn anew, and a batch is padded to its longest sequence."""

import numpy as np
import torch
from llama.tokens import Batches

from .training import Training

LONGEST_OVER_SHORTEST = 16
PADDING_TOKEN = 0
NO_TARGET = -100  # cross_entropy() leaves it out


class CutBatches(Batches):
    """Batches whose sequences are cut to lengths that a subclass may choose."""

    def __init__(self, tokens, batch: int, sequence: int, seed: int):
        super().__init__(tokens, batch, sequence, seed)
        self.generator = np.random.default_rng(seed)

    def lengths(self) -> np.ndarray:
        """Returns the lengths of the next batch: uniform, up to the longest."""
        shortest = self.sequence // LONGEST_OVER_SHORTEST
        return self.generator.integers(shortest, self.sequence + 1, size=self.batch)

    def next(self):
        tokens, targets = super().next()
        lengths = self.lengths()
        longest = int(lengths.max())
        is_padding = torch.arange(longest) >= torch.from_numpy(lengths)[:, None]
        tokens = tokens[:, :longest].masked_fill(is_padding, PADDING_TOKEN)
        return tokens, targets[:, :longest].masked_fill(is_padding, NO_TARGET)


class Lengths(Training):
    batches_class = CutBatches
