"""The training steps that machines are compared by: their traces, and plans for a machine."""

import gzip
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from evaluation import cases, kernels
from evaluation.command import CommandFailed, teraio

MICRO_BATCHES, MICRO_BATCH, SEQUENCE_LENGTH = 2, 4, 2048
TOKENS_PER_STEP = MICRO_BATCHES * MICRO_BATCH * SEQUENCE_LENGTH


@dataclass(frozen=True)
class Step:
    """A training step of a model on a device; `checkpointing` is PyTorch's, of whole blocks."""

    model: str
    options: tuple
    accelerator: str
    checkpointing: bool

    @property
    def key(self):
        name = f"{self.model.lower().replace(' ', '-')}-{self.accelerator}"
        return f"{name}-checkpointed" if self.checkpointing else name

    def command(self):
        """Returns the arguments of `teraio dry-run`, as strings."""
        words = ["--accelerator", self.accelerator, cases.LLAMA, *self.options]
        words += ["--bf16", "--optimizer-impl", "fused", "--steps", 4]
        words += ["--accumulation", MICRO_BATCHES, "--micro-batch", MICRO_BATCH]
        words += ["--sequence-length", SEQUENCE_LENGTH]
        words += ["--activation-checkpointing"] if self.checkpointing else []
        return [str(word) for word in words]


@dataclass(frozen=True)
class System:
    """A policy of `teraio plan`, for a script that checkpoints its blocks or does not."""

    key: str
    name: str
    options: tuple
    checkpointing: bool


@dataclass(frozen=True)
class Model:
    """A model: options of the script, and the accelerators that it is compared on."""

    options: tuple
    accelerators: tuple


MODELS = {
    "Llama3 8B": Model(("--preset", "llama3-8b"), ("rtx-4090", "h100-nvl")),
    "Llama3 70B": Model(("--preset", "llama3-70b"), ("rtx-4090",)),
}
_OURS = ("--policy", "teraio", "--recompute", "all")
SYSTEMS = [
    System("teraio", "TERAIO", _OURS, False),
    System("teraio-checkpointed", "TERAIO, checkpointed script", _OURS, True),
    System("zero-offload", "ZeRO-Offload", ("--policy", "zero-offload"), True),
    System("zero-infinity", "ZeRO-Infinity", ("--policy", "zero-infinity"), True),
]


def dry_run(step, path):
    """Writes the trace of the step to `path`, only kernels. Raises CommandFailed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    try:
        teraio("dry-run", "--save-trace", partial, *step.command())
        trace = json.loads(gzip.decompress(partial.read_bytes()))
        trace |= {"name": step.key, "tokens_per_step": TOKENS_PER_STEP}
        text = json.dumps(kernels.only_kernels(trace))
        partial.write_bytes(gzip.compress(text.encode(), compresslevel=3, mtime=0))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def under(system, trace, machine):
    """Plans the trace for the machine under the system, and simulates the plan.

    Returns what `teraio simulate --json` prints, or {"refused": why}.
    """
    with tempfile.TemporaryDirectory() as folder:
        hardware, plan = Path(folder) / "hardware.json", Path(folder) / "plan.json.gz"
        hardware.write_text(json.dumps(machine.hardware()))
        inputs = ["--trace", trace, "--hardware", hardware]
        try:
            teraio("plan", *inputs, *system.options, "--out", plan)
        except CommandFailed as failure:
            return {"refused": str(failure)}
        return json.loads(teraio("simulate", *inputs, "--plan", plan, "--json"))
