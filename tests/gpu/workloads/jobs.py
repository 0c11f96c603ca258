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


def _job(preset, layers, vocabulary, micro_batch, accumulation, note, *more):
    counts = {
        "--layers": layers,
        "--vocab-size": vocabulary,
        "--micro-batch": micro_batch,
        "--accumulation": accumulation,
    }
    words = [word for name, count in counts.items() for word in (name, str(count))]
    return Job(("--preset", preset, *words, *more), note)


JOBS = {
    "1b": _job("1b", 6, 32_000, 2, 4, "6 of 16 layers, vocabulary 32,000, 16k tokens a step"),
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
    "tiny": _job(
        *("tiny", 2, 512, 4, 2, "for trying the flow"),
        *("--dim", "128", "--ffn-dim", "512", "--sequence-length", "128"),
    ),
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
    return pretrain_llama.parse_arguments(words)


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


def train(args, model, batches, way=None):
    """Trains, with each step in the context `way`. Returns the optimizer, and times and losses."""
    optimizer = pretrain_llama.build_optimizer(args, model)
    scheduler = pretrain_llama.build_schedule(args, optimizer)
    state = (args, model, optimizer, scheduler, batches)
    times, losses = [], []
    for step in range(1, args.steps + 1):
        synchronize(args.device)
        began = time.perf_counter()
        with way or contextlib.nullcontext():
            losses.append(pretrain_llama.train_step(*state).hex())
        synchronize(args.device)
        times.append(time.perf_counter() - began)
        print(f"  step {step}: {times[-1]:.3f} s", flush=True)
    return optimizer, timed(times, losses)


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
