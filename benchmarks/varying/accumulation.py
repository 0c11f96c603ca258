"""Each step accumulates the gradients of a number of micro-batches that is drawn anew."""

import argparse

import numpy as np
import pretrain_llama

from .training import Training


class Accumulation(Training):
    """`args.accumulation` is the largest number of micro-batches."""

    def __init__(self, args, config, tokens):
        super().__init__(args, config, tokens)
        self.generator = np.random.default_rng(args.seed)

    def step(self, number):
        count = int(self.generator.integers(1, self.args.accumulation + 1))
        args = argparse.Namespace(**{**vars(self.args), "accumulation": count})
        state = (self.model, self.optimizer, self.scheduler, self.batches)
        return pretrain_llama.update(args, *state)
