"""The training steps that machines are compared by: their traces, and plans for a machine."""

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation import cases, kernels, retime, traces
from evaluation.command import CommandFailed, teraio
from teraio import accelerator

MICRO_BATCH, SEQUENCE_LENGTH = 4, 2048
MICRO_BATCH_TOKENS = MICRO_BATCH * SEQUENCE_LENGTH
# The device of the dry runs: that with the least memory, for which fused ops are divided the most.
# For the others, the times of its ops are changed; this is within 1 % of a dry run for them.
REFERENCE = "rtx-5060-ti"


@dataclass(frozen=True)
class Training:
    """What is trained and in which precision: options of the script."""

    name: str
    options: tuple


TRAININGS = {
    "full-fp32": Training("fp32 states", ("--bf16",)),
    "full-bf16": Training("bf16 states", ("--dtype", "bfloat16")),
    "lora": Training("LoRA of bf16 weights", ("--dtype", "bfloat16", "--lora", 16)),
}


@dataclass(frozen=True)
class Step:
    """A training step of a model on a device; `checkpointing` is PyTorch's, of whole blocks.

    `model` and `training` are keys of MODELS and TRAININGS.
    """

    model: str
    training: str
    micro_batches: int
    accelerator: str
    checkpointing: bool

    @property
    def tokens(self):
        return self.micro_batches * MICRO_BATCH_TOKENS

    @property
    def key(self):
        name = f"{self.model}-{self.training}-{self.tokens // 1000}k-{self.accelerator}"
        return f"{name}-checkpointed" if self.checkpointing else name

    @property
    def on_reference(self):
        """Returns the step that has a dry run: the same one on the reference device."""
        return replace(self, accelerator=REFERENCE)

    def command(self):
        """Returns the arguments of `teraio dry-run`, as strings."""
        words = ["--accelerator", self.accelerator, cases.LLAMA, *MODELS[self.model].options]
        words += [*TRAININGS[self.training].options, "--optimizer-impl", "fused", "--steps", 4]
        words += ["--accumulation", self.micro_batches, "--micro-batch", MICRO_BATCH]
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
    """A model: its parameters, and options of the script."""

    name: str
    parameters: int
    options: tuple


def _llama(**shape):
    """Returns the options for a Llama of another shape."""
    words = ["--preset", "llama3-8b"]
    for name, value in shape.items():
        words += [f"--{name.replace('_', '-')}", value]
    return tuple(words)


_14B = _llama(dim=5120, layers=40, heads=40, kv_heads=8, ffn_dim=17408, vocab_size=151_936)
_32B = _llama(dim=5120, layers=64, heads=40, kv_heads=8, ffn_dim=27648, vocab_size=152_064)
MODELS = {
    "8b": Model("8B (Llama3)", 8_030_261_248, _llama()),
    "14b": Model("14B (the shape of Qwen3-14B)", 14_768_296_960, _14B),
    "32b": Model("32B (the shape of Qwen2.5-32B)", 32_763_417_600, _32B),
    "70b": Model("70B (Llama3)", 70_553_706_496, ("--preset", "llama3-70b")),
}
TERAIO = System(
    "teraio", "TERAIO", ("--policy", "teraio", "--recompute", "all", "--effort", "fast"), False
)
ZERO_OFFLOAD = System("zero-offload", "ZeRO-Offload", ("--policy", "zero-offload"), True)
# Without drives, this is ZeRO-3 with offload to host memory.
ZERO_INFINITY = System("zero-infinity", "ZeRO-Infinity", ("--policy", "zero-infinity"), True)


def dry_run(step, path):
    """Writes the trace of the step to `path`, only kernels. Raises CommandFailed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"partial-{path.name}")
    try:
        teraio("dry-run", "--save-trace", partial, *step.command())
        facts = {"name": step.key, "tokens_per_step": step.tokens}
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

    Returns what `teraio simulate --json` prints, or {"refused": why}, and with either
    `ideal_ns` and `natural_peak_bytes`, the time and the memory of the step without offloading.
    """
    facts = without_offloading(traces.read(trace))
    with tempfile.TemporaryDirectory() as folder:
        hardware, plan = Path(folder) / "hardware.json", Path(folder) / "plan.json.gz"
        hardware.write_text(json.dumps(machine.hardware()))
        inputs = ["--trace", trace, "--hardware", hardware]
        try:
            teraio("plan", *inputs, "--out", plan, *system.options)
        except CommandFailed as failure:
            return facts | {"refused": str(failure)}
        return facts | json.loads(teraio("simulate", *inputs, "--plan", plan, "--json"))


def without_offloading(trace):
    """Returns the time and the peak memory of a trace on a device that holds all of its tensors."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    there = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    held = sum(sizes[number] for number in there)
    peak = held
    for op in trace["ops"]:
        new = {*op["reads"], *op["writes"]} - there
        there |= new
        held += sum(sizes[number] for number in new)
        peak = max(peak, held + op.get("workspace_bytes", 0))
        freed = there.intersection(op["frees"])
        there -= freed
        held -= sum(sizes[number] for number in freed)
    ideal_ns = sum(op["duration_ns"] for op in trace["ops"])
    return {"ideal_ns": ideal_ns, "natural_peak_bytes": peak}
