"""Some steps are followed by an evaluation or a checkpoint, and only some log their losses."""

import torch
import torch.nn.functional as F
from llama import checkpoints
from llama.tokens import Batches

from .training import Training

EVALUATE_EVERY = 5
EVALUATED_BATCHES = 2
SAVE_EVERY = 10


class Interruptions(Training):
    """Saves to `args.save`. The losses of evaluations come after those of the steps."""

    log_every = 3

    def __init__(self, args, config, tokens):
        super().__init__(args, config, tokens)
        self.held_out = Batches(tokens, args.micro_batch, config.sequence_length, args.seed + 1)
        self.evaluations = []

    def step(self, number):
        loss = super().step(number)
        if number % EVALUATE_EVERY == 0:
            self.evaluations.append(self.evaluate())
        if number % SAVE_EVERY == 0:
            state = (self.model, self.optimizer, self.scheduler, self.batches)
            checkpoints.save(self.args.save, number, *state, {"evaluations": self.evaluations})
        return loss

    @torch.no_grad()
    def evaluate(self) -> float:
        """Returns the mean loss over the same batches each time."""
        self.held_out.position = 0
        self.model.eval()
        loss = 0.0
        for _ in range(EVALUATED_BATCHES):
            tokens, targets = self.held_out.next()
            logits = self.model(tokens).flatten(0, 1)
            loss += F.cross_entropy(logits, targets.flatten()).item() / EVALUATED_BATCHES
        self.model.train()
        return loss

    def run(self):
        super().run()
        self.history["losses"] += self.evaluations
