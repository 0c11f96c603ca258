"""The trainings that are measured: shapes cut so that a step takes about a second on a large GPU.

    jobs.py --job 1b --cache DIR     makes the tokens of the job before any step is timed

A cut model keeps the width and the heads of its shape, and has fewer layers. The vocabulary is what
the tokenizer makes of the text: embeddings beyond it would be dead weight to move.
"""

import argparse
import contextlib
import os
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import pretrain_llama
import torch
from arms.warm_start import settle_kernels
from llama.presets import PRESETS, LlamaConfig
from llama.tokens import Batches, prepare


@dataclass(frozen=True)
class Job:
    """The arguments of pretrain_llama.py for a job. `note` says what was cut."""

    arguments: tuple[str, ...]
    note: str
    is_muon: bool = False


def _job(preset, layers, vocabulary, micro_batch, accumulation, note, *more, is_muon=False):
    counts = {
        "--layers": layers,
        "--vocab-size": vocabulary,
        "--micro-batch": micro_batch,
        "--accumulation": accumulation,
    }
    words = [word for name, count in counts.items() for word in (name, str(count))]
    return Job(("--preset", preset, *words, *more), note, is_muon)


_TINY = (
    *("tiny", 2, 512, 4, 2, "for trying the flow"),
    *("--dim", "128", "--ffn-dim", "512", "--sequence-length", "128"),
)
JOBS = {
    "1b": _job("1b", 6, 32_000, 2, 4, "6 of 16 layers, vocabulary 32,000, 16k tokens a step"),
    "1b-muon": _job(
        *("1b", 6, 32_000, 2, 4, "as 1b, with Muon, which trains the matrices only"), is_muon=True
    ),
    "llama3-8b": _job(
        *("llama3-8b", 12, 32_000, 1, 4),
        "12 of 32 layers, vocabulary 32,000, sequences of 4,096, 16k tokens a step",
        *("--sequence-length", "4096"),
    ),
    # For an emulated GPU with rates (benchmarks/emulated_steps.py): about ten seconds a step.
    "17m": _job(
        *("tiny", 4, 4_096, 8, 1, "4 layers, vocabulary 4,096, 2k tokens a step"),
        *("--dim", "512", "--ffn-dim", "1408", "--sequence-length", "256", "--heads", "8"),
        *("--kv-heads", "8"),
    ),
    # As many ops as "1b", over as few bytes as a session manages (benchmarks/enqueue_cost.py).
    "1b-narrow": _job(
        *("1b", 6, 1_000, 2, 4, "6 of 16 layers, 128 wide instead of 2,048, 1k tokens a step"),
        *("--dim", "128", "--ffn-dim", "256", "--sequence-length", "128", "--heads", "4"),
        *("--kv-heads", "2"),
    ),
    # The allocations of "1b", each with a 64th of the bytes.
    "1b-eighth": _job(
        *("1b", 6, 4_000, 2, 4, "6 of 16 layers, widths and lengths an eighth, 2k tokens a step"),
        *("--dim", "256", "--ffn-dim", "1024", "--sequence-length", "256"),
    ),
    "tiny": _job(*_TINY),
    "tiny-muon": _job(*_TINY, is_muon=True),
}
PRECISIONS = {"fp32": (), "bf16": ("--bf16",)}
MEASURED_STEPS = 5  # of a training, the last ones: by then its plan has been made twice


def add_options(parser):
    add = parser.add_argument
    add("--job", choices=JOBS, default="tiny")
    add("--precision", choices=PRECISIONS, default="fp32")
    add("--device", choices=("cpu", "cuda"), default="cuda")
    add("--steps", type=int, default=15)
    add("--data", type=Path, help="C4 file; without it: prose of python3-doc")
    add("--cache", type=Path, required=True, help="where tokenizer and tokens are kept")


def add_measuring_options(parser):
    """Adds the options of a program that measures a training of the job."""
    add_options(parser)
    parser.add_argument("--ssd", type=Path, required=True, help="directory on the drive to use")


def training_options(options) -> argparse.Namespace:
    """Returns the options of pretrain_llama.py for the job."""
    words = [*JOBS[options.job].arguments, *PRECISIONS[options.precision]]
    words += ["--device", options.device, "--steps", str(options.steps)]
    words += ["--optimizer-impl", "fused", "--cache", str(options.cache)]
    words += ["--data", str(options.data)] if options.data else []
    args = pretrain_llama.parse_arguments(words)
    args.is_muon = JOBS[options.job].is_muon
    return args


def config_of(args) -> LlamaConfig:
    overrides = {f.name: getattr(args, f.name) for f in fields(LlamaConfig) if f.name in args}
    return replace(PRESETS[args.preset], **overrides)


def batches_of(args, config) -> Batches:
    """Returns the sequences of the training, which are the same in every arm."""
    tokens = prepare(args.data, args.cache, config.vocab_size)
    return Batches(tokens, args.micro_batch, config.sequence_length, args.seed)


def settle():
    """Makes the settings that all processes have in common."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_float32_matmul_precision("highest")
    # With warn_only, the backward passes of fused attention stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    settle_kernels()


def build_optimizer(args, model):
    if not args.is_muon:
        return pretrain_llama.build_optimizer(args, model)
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.dim() == 2)
    matrices = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.Muon(matrices, lr=args.learning_rate)


def train(args, model, batches, way=None, counters=dict, profile=None):
    """Trains, with each step in the context `way`. Returns the optimizer, and a part of the record:
    times, losses, and the changes in each step of what `counters` returns. `profile` is called at
    the end with a function that runs one more step.
    """
    optimizer = build_optimizer(args, model)
    scheduler = pretrain_llama.build_schedule(args, optimizer)
    state = (args, model, optimizer, scheduler, batches)
    times, losses, changes = [], [], []
    for step in range(1, args.steps + 1):
        synchronize(args.device)
        before = counters()
        began = time.perf_counter()
        with way or contextlib.nullcontext():
            losses.append(pretrain_llama.train_step(*state).hex())
        synchronize(args.device)
        times.append(time.perf_counter() - began)
        print(f"  step {step}: {times[-1]:.3f} s", flush=True)
        changes.append(changed(before, counters()))
    found = timed(times, losses) | {"changes": changes[-MEASURED_STEPS:]}
    if profile:
        found["profile"] = profile(lambda: pretrain_llama.train_step(*state))
    return optimizer, found


def changed(before, after):
    """The counters that have changed, and by how much."""
    numbers = {name: value for name, value in after.items() if isinstance(value, int)}
    return {name: n - before[name] for name, n in numbers.items() if n != before[name]}


def timed(step_seconds, losses):
    """The part of a record on the steps: all of them, and those that count."""
    measured = step_seconds[-MEASURED_STEPS:]
    return {"step_seconds": step_seconds, "measured_seconds": measured, "losses": losses}


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def forget_memory(device):
    """Frees what the last arm has left in PyTorch's allocator, and resets its peak."""
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_bytes(device):
    """The peak of allocated bytes since forget_memory; None where PyTorch does not count."""
    return torch.cuda.max_memory_allocated() if device == "cuda" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    args = training_options(parser.parse_args())
    batches = batches_of(args, config_of(args))
    print(f"{len(batches.tokens)} tokens")


if __name__ == "__main__":
    main()
