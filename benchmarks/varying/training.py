"""The training of pretrain_llama.py as an object, whose parts a program varies."""

import time

import pretrain_llama
import torch
from llama import record
from llama.atomic import write_json
from llama.presets import LlamaConfig
from llama.tokens import Batches


class Training:
    """Trains a Llama. Subclasses are programs: each varies the batches, the model or the steps.

    `args` are the options of pretrain_llama.py, and `tokens` is the text as an array of tokens.
    """

    batches_class = Batches

    def __init__(self, args, config: LlamaConfig, tokens):
        self.args = args
        self.batches = self.batches_class(
            tokens, args.micro_batch, config.sequence_length, args.seed
        )
        self.model = self.build_model(config)
        self.optimizer = pretrain_llama.build_optimizer(args, self.model)
        self.scheduler = pretrain_llama.build_schedule(args, self.optimizer)
        self.history = {"losses": [], "step_seconds": []}

    def build_model(self, config: LlamaConfig) -> torch.nn.Module:
        return pretrain_llama.build_model(self.args, config)

    def step(self, number: int) -> torch.Tensor:
        """Runs the step `number`, of which the first is 1; returns its loss."""
        return pretrain_llama.update(
            self.args, self.model, self.optimizer, self.scheduler, self.batches
        )

    def run(self) -> None:
        """Runs all steps."""
        for number in range(1, self.args.steps + 1):
            began = time.perf_counter()
            loss = self.step(number).item()
            self.history["losses"].append(loss)
            self.history["step_seconds"].append(time.perf_counter() - began)
            pretrain_llama.report(self.args, number, loss, self.history["step_seconds"][-1])

    def write_record(self) -> None:
        """Writes the record that --losses asks for."""
        hashes = {
            "losses_sha256": record.losses_sha256(self.history["losses"]),
            "parameters_sha256": record.model_sha256(self.model),
        }
        write_json(self.args.losses, hashes)
