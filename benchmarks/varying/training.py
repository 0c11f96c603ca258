"""The training of pretrain_llama.py as an object, whose parts a program varies."""

import time

import pretrain_llama
import torch
from llama import record
from llama.presets import LlamaConfig
from llama.tokens import Batches


class CountingBatches(Batches):
    """Batches that count the tokens that they hand out, padding included."""

    token_count = 0

    def next(self) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, targets = self.cut(*super().next())
        self.token_count += tokens.numel()
        return tokens, targets

    def cut(self, tokens, targets) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns what of a batch is handed out."""
        return tokens, targets


class Training:
    """Trains a Llama. Subclasses are programs: each varies the batches, the model or the steps.

    `args` are the options of pretrain_llama.py, and `tokens` is the text as an array of tokens.
    `tokens_per_step` has the number of tokens that each step so far has trained on.
    """

    batches_class = CountingBatches

    def __init__(self, args, config: LlamaConfig, tokens):
        self.args = args
        self.batches = self.batches_class(
            tokens, args.micro_batch, config.sequence_length, args.seed
        )
        self.model = self.build_model(config)
        self.optimizer = pretrain_llama.build_optimizer(args, self.model)
        self.scheduler = pretrain_llama.build_schedule(args, self.optimizer)
        self.history = {"losses": [], "step_seconds": []}
        self.tokens_per_step = []

    def build_model(self, config: LlamaConfig) -> torch.nn.Module:
        return pretrain_llama.build_model(self.args, config)

    def step(self, number: int) -> torch.Tensor:
        """Runs the step `number`, of which the first is 1; returns its loss."""
        return pretrain_llama.update(
            self.args, self.model, self.optimizer, self.scheduler, self.batches
        )

    def run(self) -> None:
        """Runs all steps."""
        progress = pretrain_llama.Progress(self.args, first_step=0)
        for number in range(1, self.args.steps + 1):
            began, tokens_before = time.perf_counter(), self.batches.token_count
            loss = self.step(number).item()
            self.history["losses"].append(loss)
            self.history["step_seconds"].append(time.perf_counter() - began)
            self.tokens_per_step.append(self.batches.token_count - tokens_before)
            progress.report(number, loss, self.history["step_seconds"][-1])
        progress.bar.close()

    def write_record(self) -> None:
        """Writes the record that --losses asks for."""
        state = (self.history, self.model, self.optimizer, self.tokens_per_step)
        record.write_losses(self.args.losses, *state)
