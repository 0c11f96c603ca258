"""Batches come from buckets of sequences of equal lengths, in an order that is drawn anew."""

import numpy as np

from .lengths import CutBatches
from .training import Training

BUCKETS = 8


class BucketBatches(CutBatches):
    """Every round over all buckets takes one batch from each."""

    def __init__(self, tokens, batch: int, sequence: int, seed: int):
        super().__init__(tokens, batch, sequence, seed)
        self.round = []

    def lengths(self) -> np.ndarray:
        if not self.round:
            self.round = [*self.generator.permutation(BUCKETS)]
        length = self.sequence * (self.round.pop() + 1) // BUCKETS
        return np.full(self.batch, length)


class Buckets(Training):
    batches_class = BucketBatches
