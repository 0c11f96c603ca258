"""The training steps that machines are compared by: their traces, and plans for a machine."""

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation import cases, kernels, retime, traces
from evaluation.command import CommandFailed, teraio
from teraio.dry_run import accelerator

MICRO_BATCHES, MICRO_BATCH, SEQUENCE_LENGTH = 2, 4, 2048
TOKENS_PER_STEP = MICRO_BATCHES * MICRO_BATCH * SEQUENCE_LENGTH
# The device of the dry runs: that with the least memory, for which fused ops are divided the most.
# For the others, the times of its ops are changed; this is within 1 % of a dry run for them.
REFERENCE = "rtx-4090"


@dataclass(frozen=True)
class Step:
    """A training step of a model on a device; `checkpointing` is PyTorch's, of whole blocks."""

    model: str
    accelerator: str
    checkpointing: bool

    @property
    def key(self):
        name = f"{MODELS[self.model].key}-{self.accelerator}"
        return f"{name}-checkpointed" if self.checkpointing else name

    @property
    def on_reference(self):
        """Returns the step that has a dry run: the same one on the reference device."""
        return replace(self, accelerator=REFERENCE)

    def command(self):
        """Returns the arguments of `teraio dry-run`, as strings."""
        words = ["--accelerator", self.accelerator, cases.LLAMA, *MODELS[self.model].options]
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
    """A model: options of the script, and the host memories that it is compared with."""

    key: str
    options: tuple
    host_memories_gb: tuple


def _llama(**shape):
    """Returns the options for a Llama of another shape."""
    words = ["--preset", "llama3-8b"]
    for name, value in shape.items():
        words += [f"--{name.replace('_', '-')}", value]
    return tuple(words)


_14B = _llama(dim=5120, layers=40, heads=40, kv_heads=8, ffn_dim=17408, vocab_size=151_936)
_32B = _llama(dim=5120, layers=64, heads=40, kv_heads=8, ffn_dim=27648, vocab_size=152_064)
MODELS = {
    "8B (Llama3)": Model("8b", _llama(), (64, 128, 256)),
    "14B (the shape of Qwen3-14B)": Model("14b", _14B, (128, 256)),
    "32B (the shape of Qwen2.5-32B)": Model("32b", _32B, (256,)),
    "70B (Llama3)": Model("70b", ("--preset", "llama3-70b"), (256,)),
}
_OURS = ("--policy", "teraio", "--recompute", "all", "--effort", "fast")
SYSTEMS = [
    System("teraio", "TERAIO", _OURS, False),
    System("zero-offload", "ZeRO-Offload", ("--policy", "zero-offload"), True),
    System("zero-infinity", "ZeRO-Infinity", ("--policy", "zero-infinity"), True),
]


def dry_run(step, path):
    """Writes the trace of the step to `path`, only kernels. Raises CommandFailed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    try:
        teraio("dry-run", "--save-trace", partial, *step.command())
        facts = {"name": step.key, "tokens_per_step": TOKENS_PER_STEP}
        traces.write(kernels.only_kernels(traces.read(partial) | facts), partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def change_device(step, dry_run, path):
    """Writes the trace of the step, given the path of the trace of its dry run."""
    given, wanted = (_rates(name) for name in (REFERENCE, step.accelerator))
    trace = retime.retimed(traces.read(dry_run), given, wanted)
    traces.write(trace | {"name": step.key}, path)


def _rates(name):
    return retime.Rates.of(accelerator.load(name), products="bfloat16", attention="bfloat16")


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
