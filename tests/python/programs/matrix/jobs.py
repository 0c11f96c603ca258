"""Training jobs: what is trained how. `train` returns everything that must be equal."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from teraio.hooks.verification import tensor_hash

from . import models

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
    "foreach": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True),
    "fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
}


@dataclass
class Job:
    model: Callable[[], torch.nn.Module] = models.Llama
    batch: Callable = models.tokens
    optimizer: str = "adamw"
    steps: int = 5
    autocast: bool = False
    accumulated_batches: int = 1
    clip_norm: float | None = None
    zeroes_to_none: bool = True
    schedule: bool = False
    evaluates: bool = False
    frozen: tuple[str, ...] = ()
    compiles: bool = False

    def but(self, **changes):
        return replace(self, **changes)


@dataclass
class Outcome:
    losses: list[float] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)


def train(job, model=None):
    """Trains from a fixed seed, from scratch or on a model that was made before."""
    torch.manual_seed(1)
    run = _Run(job, job.model() if model is None else model)
    for step in range(job.steps):
        run.step(step)
    return run.outcome()


class _Run:
    def __init__(self, job, model):
        self.job = job
        self.model = model
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(not name.startswith(job.frozen or ("-",)))
        self.forward = model
        if job.compiles:
            torch.compiler.reset()
            self.forward = torch.compile(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = OPTIMIZERS[job.optimizer](trained)
        self.scheduler = (
            torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, job.steps)
            if job.schedule
            else None
        )
        self.losses = []

    def step(self, step):
        self.optimizer.zero_grad(set_to_none=self.job.zeroes_to_none)
        for part in range(self.job.accumulated_batches):
            batch = self.job.batch(step * self.job.accumulated_batches + part)
            loss = self.loss(batch) / self.job.accumulated_batches
            loss.backward()
            self.losses.append(loss.item())
        if self.job.clip_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.job.clip_norm)
            self.losses.append(norm.item())
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        if self.job.evaluates and step % 2 == 1:
            self.evaluate(step)

    def loss(self, batch):
        precision = torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16)
        with precision if self.job.autocast else contextlib.nullcontext():
            return self.forward(*batch)

    @torch.no_grad()
    def evaluate(self, step):
        self.model.eval()
        self.losses.append(self.loss(self.job.batch(step)).item())
        self.model.train()

    def outcome(self):
        hashes = {name: tensor_hash(value) for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                hashes[name + ".grad"] = tensor_hash(parameter.grad)
            for key, state in self.optimizer.state.get(parameter, {}).items():
                if isinstance(state, torch.Tensor):
                    hashes[f"{name}.{key}"] = tensor_hash(state)
        return Outcome(self.losses, hashes)
