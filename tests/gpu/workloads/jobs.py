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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import pretrain_llama
import torch
from arms.warm_start import settle_kernels
from llama.tokens import Batches, prepare
from pretrain_llama import config_of

_1B = "--preset 1b --layers 6 --vocab-size 32000 --micro-batch 2 --accumulation 4"
_TINY = "--preset tiny --dim 128 --ffn-dim 512 --sequence-length 128 --accumulation 2"
# The arguments of pretrain_llama.py. A step of the large ones has 16k tokens.
JOBS = {
    "1b": _1B,
    "1b-muon": _1B,
    "llama3-8b": "--preset llama3-8b --layers 12 --vocab-size 32000 --sequence-length 4096"
    " --micro-batch 1 --accumulation 4",
    # As many ops as "1b", over as few bytes as a session manages (benchmarks/enqueue_cost.py).
    "1b-narrow": "--preset 1b --layers 6 --dim 128 --ffn-dim 256 --heads 4 --kv-heads 2"
    " --vocab-size 1000 --sequence-length 128 --micro-batch 2 --accumulation 4",
    # For trying the flow.
    "tiny": _TINY,
    "tiny-muon": _TINY,
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
    words = [*JOBS[options.job].split(), *PRECISIONS[options.precision]]
    words += ["--device", options.device, "--steps", str(options.steps)]
    words += ["--optimizer-impl", "fused", "--cache", str(options.cache)]
    words += ["--data", str(options.data)] if options.data else []
    args = pretrain_llama.parse_arguments(words)
    args.is_muon = options.job.endswith("-muon")
    return args


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
    times, losses, and the changes in each step of what `counters` returns and of the CPU time of
    the threads that enqueue. `profile` is called at the end with a function that runs one more
    step.
    """
    optimizer = build_optimizer(args, model)
    scheduler = pretrain_llama.build_schedule(args, optimizer)
    state = (args, model, optimizer, scheduler, batches)
    times, losses, changes = [], [], []
    for step in range(1, args.steps + 1):
        synchronize(args.device)
        before = counters() | enqueueing_ns()
        began = time.perf_counter()
        with way or contextlib.nullcontext():
            losses.append(pretrain_llama.train_step(*state).hex())
        synchronize(args.device)
        times.append(time.perf_counter() - began)
        print(f"  step {step}: {times[-1]:.3f} s", flush=True)
        changes.append(changed(before, counters() | enqueueing_ns()))
    found = timed(times, losses) | {"changes": changes[-MEASURED_STEPS:]}
    if profile:
        found["profile"] = profile(lambda: pretrain_llama.train_step(*state))
    return optimizer, found


def enqueueing_ns():
    """The CPU time so far of the threads that enqueue ops: this one, and autograd's for the GPU."""
    threads = {"main_thread_ns": os.getpid()}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread may just have ended
            if (task / "comm").read_text() == "pt_autograd_0\n":
                threads["autograd_thread_ns"] = int(task.name)
    # The clock of a thread, as the system numbers it.
    return {name: time.clock_gettime_ns((~thread << 3) | 6) for name, thread in threads.items()}


def changed(before, after):
    """The counters that have changed, and by how much."""
    numbers = {name: value for name, value in after.items() if isinstance(value, int)}
    differences = {name: number - before.get(name, 0) for name, number in numbers.items()}
    return {name: difference for name, difference in differences.items() if difference}


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
