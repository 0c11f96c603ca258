#!/usr/bin/env python3
"""Compares trainings under the same memory limit: TERAIO, on demand only, and DeepSpeed's ZeRO.

For each model and limit, every arm runs once per round, in a process of its own, in a memory
control group that counts page cache too; ideal is stock PyTorch without a limit. All arms have the
same model, data, precision and seed. ZeRO runs with the settings for speed or, when the kernel
kills it, with those that need less memory. Prints tables, and writes peers.json and a log per
arm. Needs root.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from arms.arm import ENVIRONMENT, SCRIPT, WARM_START, tail
from arms.live import gigabytes
from arms.results import measured
from llama.atomic import write_json
from llama.tokens import prepare
from memory_limit import Unavailable, memory_limit
from rich.console import Console
from rich.table import Table
from zero_config import ATTEMPTS, RETURN_MEMORY, zero_infinity, zero_offload

from teraio.units import parse_size

ROOT = Path(__file__).resolve().parents[2]
TRAIN_ZERO = Path(__file__).with_name("train_zero.py")
OPERATORS = ROOT / "build/bench-peers/operators"  # compiled operators of DeepSpeed
ZERO_ENVIRONMENT = {
    "DS_ACCELERATOR": "cpu",
    "DS_SKIP_CUDA_CHECK": "1",
    "TORCH_EXTENSIONS_DIR": str(OPERATORS),
}
# Out-of-memory messages of PyTorch, libstdc++ and the system; other failures end the comparison.
OUT_OF_MEMORY = ("OutOfMemoryError", "std::bad_alloc", "Cannot allocate memory")
GOAL = 2.5  # times the speed of ZeRO-Infinity, at the tightest limit that it fits
VOCABULARY = 8_000  # larger embeddings would dominate the memory


@dataclass(frozen=True)
class Model:
    """A shape, and the memory limits to run it under, the widest first."""

    arguments: tuple[str, ...]
    largest_parameter_elements: int
    limits: tuple[str, ...]


MODELS = {
    "130m": Model(
        ("--preset", "130m", "--layers", "17", "--vocab-size", str(VOCABULARY)),
        VOCABULARY * 768,
        ("2.5GB", "1.8GB"),
    ),
    "480m": Model(
        (
            *("--preset", "130m", "--dim", "1536", "--layers", "16", "--heads", "16"),
            *("--kv-heads", "16", "--ffn-dim", "4096", "--vocab-size", str(VOCABULARY)),
            *("--sequence-length", "128"),
        ),
        VOCABULARY * 1536,
        ("4.2GB", "2.6GB"),
    ),
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one arm in one round. Values that it did not reach are None."""

    arm: str
    tuning: str | None
    fits: bool
    peak_bytes: int
    bytes_read: int
    bytes_written: int
    losses: list[str] | None = None
    step_seconds: list[float] | None = None


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--limits", nargs="+", help="memory limits for all models, such as 3GB 2GB")
    add("--rounds", type=int, default=2)
    add("--steps", type=int, default=8, help="steps of each arm in each round")
    add("--warm-up-steps", type=int, default=5, help="steps that no median counts")
    add("--micro-batch", type=int, default=4)
    add("--accumulation", type=int, default=2)
    add("--overhead", default="600MB", help="memory kept for Python, PyTorch and staging")
    add("--drive", type=Path, help="directory on the drive to use")
    add("--peers-python", type=Path, default=ROOT / ".venv-peers/bin/python")
    add("--output", type=Path, default=ROOT / "build/bench-peers")
    args = parser.parse_args(argv)
    args.output = args.output.resolve()
    args.drive = (args.drive or args.output / "drive").resolve()
    args.cache = ROOT / "build/demo/data"
    return args


def training(args, model: Model, directory: Path) -> list[str]:
    chosen = [*model.arguments, "--steps", args.steps, "--micro-batch", args.micro_batch]
    chosen += ["--accumulation", args.accumulation, "--cache", args.cache]
    chosen += ["--losses", directory / "losses.json"]
    return [str(argument) for argument in chosen]


def ours(args, model: Model, directory: Path, limit_bytes: int, policy: str) -> list[str]:
    budget_bytes = limit_bytes - parse_size(args.overhead)
    return [
        *(sys.executable, "-m", "teraio", "run", "--device-budget", str(budget_bytes)),
        *("--policy", policy, "--ssd", str(args.drive), "--report", str(directory)),
        *(str(WARM_START), str(SCRIPT), *training(args, model, directory)),
    ]


def zero(args, model: Model, directory: Path, configuration: dict) -> list[str]:
    path = directory / "zero.json"
    write_json(path, configuration)
    return [
        *("env", f"PATH={args.peers_python.parent}:{os.environ['PATH']}", str(args.peers_python)),
        str(TRAIN_ZERO),
        str(path),
        *training(args, model, directory),
    ]


def run_limited(
    arm: str, tuning: str | None, command, directory: Path, limit_bytes, returns_memory=False
) -> Outcome:
    """Runs one arm to its end. An arm that fails without the kernel's killing it is an error."""
    losses = directory / "losses.json"
    losses.unlink(missing_ok=True)
    with memory_limit(limit_bytes) as limit, (directory / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*limit.prefix, *command],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(returns_memory),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        outcome = {
            "arm": arm,
            "tuning": tuning,
            "peak_bytes": limit.peak_bytes(),
            "bytes_read": usage.ru_inblock * 512,
            "bytes_written": usage.ru_oublock * 512,
        }
        was_killed = limit.was_exceeded() or process.returncode == -signal.SIGKILL
    if process.returncode == 0:
        record = json.loads(losses.read_text())
        return Outcome(
            **outcome, fits=True, losses=record["losses"], step_seconds=record["step_seconds"]
        )
    text = tail(directory / "log.txt", 30)
    if was_killed or any(sign in text for sign in OUT_OF_MEMORY):
        return Outcome(**outcome, fits=False)
    raise SystemExit(f"bench-peers: {arm} ended with {process.returncode}:\n{text}")


def environment(returns_memory: bool) -> dict[str, str]:
    malloc = RETURN_MEMORY if returns_memory else {}
    threads = str(len(os.sched_getaffinity(0)))
    return {**os.environ, **ENVIRONMENT, **malloc, **ZERO_ENVIRONMENT, "OMP_NUM_THREADS": threads}


def run_arm(args, model: Model, arm: str, limit_bytes: int, directory: Path) -> Outcome:
    directory.mkdir(parents=True, exist_ok=True)
    if arm == "ideal":
        command = [sys.executable, WARM_START, SCRIPT, *training(args, model, directory)]
        return run_limited(arm, None, [str(part) for part in command], directory, None)
    if arm in ("planned", "on-demand"):
        command = ours(args, model, directory, limit_bytes, arm)
        return run_limited(arm, None, command, directory, limit_bytes)
    for tuning, returns_memory in ATTEMPTS:
        configuration = (
            zero_offload(args)
            if arm == "ZeRO-Offload"
            else zero_infinity(args, tuning, args.drive, model.largest_parameter_elements)
        )
        command = zero(args, model, directory, configuration)
        name = f"{tuning}, memory returned" if returns_memory else tuning
        outcome = run_limited(arm, name, command, directory, limit_bytes, returns_memory)
        if outcome.fits:
            break
    return outcome


ARMS = ("ideal", "planned", "on-demand", "ZeRO-Infinity", "ZeRO-Offload")


def build_operators(args) -> None:
    """Lets DeepSpeed compile its operators, which it does at their first use, without a limit."""
    tiny = Model(("--preset", "tiny"), 512 * 64, ())
    directory = args.output / "first-run"
    directory.mkdir(parents=True, exist_ok=True)
    for lock in OPERATORS.glob("*/lock"):
        lock.unlink()  # left by an interrupted build, the next build would wait for it forever
    configuration = zero_infinity(args, "memory", args.drive, tiny.largest_parameter_elements)
    command = zero(args, tiny, directory, configuration)
    run_limited("ZeRO-Infinity", "memory", command, directory, None)


def compare(args, console: Console, name: str, limit: str) -> dict:
    """Runs all rounds of one model under one limit; returns a summary by arm."""
    model, limit_bytes = MODELS[name], parse_size(limit)
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in ARMS}
    for number in range(1, args.rounds + 1):
        for arm in ARMS:
            if outcomes[arm] and not outcomes[arm][-1].fits:
                continue  # it would not fit in this round either
            console.print(f"{name}, {limit}, round {number} of {args.rounds}: {arm}")
            folder = args.output / f"{name}-{limit}" / f"round-{number}" / arm
            outcomes[arm].append(run_arm(args, model, arm, limit_bytes, folder))
    ideal = outcomes["ideal"]
    rows = {arm: summarize(args, results, ideal) for arm, results in outcomes.items()}
    return {"model": name, "limit_bytes": limit_bytes, "arms": rows}


def summarize(args, results: list[Outcome], ideal: list[Outcome]) -> dict:
    row = {
        "fits": results[-1].fits,
        "tuning": results[-1].tuning,
        "peak_bytes": max(result.peak_bytes for result in results),
    }
    if not row["fits"]:
        return row
    seconds = [s for r in results for s in measured(r.step_seconds, args.warm_up_steps)]
    ideal_seconds = [s for r in ideal for s in measured(r.step_seconds, args.warm_up_steps)]
    row |= {
        "step_seconds": median(seconds),
        "fraction_of_ideal": median(ideal_seconds) / median(seconds),
        "bytes_read_per_step": median(r.bytes_read for r in results) / args.steps,
        "bytes_written_per_step": median(r.bytes_written for r in results) / args.steps,
        "losses_equal_ideal": results[0].losses == ideal[0].losses,
        "largest_loss_difference": loss_difference(results[0].losses, ideal[0].losses),
    }
    return row


def loss_difference(losses: list[str], reference: list[str]) -> float:
    """Returns the largest relative difference between the losses of two arms."""
    pairs = zip(map(float.fromhex, losses), map(float.fromhex, reference), strict=True)
    return max(abs(a - b) / abs(b) for a, b in pairs)


COLUMNS = ("arm", "step", "of ideal", "peak memory", "read per step", "written", "losses")


def cells(arm: str, row: dict) -> list[str]:
    name = f"{arm} ({row['tuning']})" if row["tuning"] else arm
    if not row["fits"]:
        return [name, "does not fit", "", gigabytes(row["peak_bytes"]), "", "", ""]
    losses = (
        "equal to the bit"
        if row["losses_equal_ideal"]
        else f"within {row['largest_loss_difference']:.1e}"
    )
    return [
        name,
        f"{row['step_seconds']:.2f} s",
        f"{row['fraction_of_ideal']:.3f}",
        gigabytes(row["peak_bytes"]),
        gigabytes(int(row["bytes_read_per_step"])),
        gigabytes(int(row["bytes_written_per_step"])),
        losses,
    ]


def show(console: Console, comparison: dict) -> None:
    limit = gigabytes(comparison["limit_bytes"])
    table = Table(*COLUMNS, title=f"{comparison['model']} in {limit}")
    for arm, row in comparison["arms"].items():
        table.add_row(*cells(arm, row))
    console.print(table)


def verdict(console: Console, comparisons: list[dict]) -> None:
    """Prints our speed relative to ZeRO-Infinity, at the tightest limit per model that it fits."""
    for name in dict.fromkeys(c["model"] for c in comparisons):
        ran = [c for c in comparisons if c["model"] == name and c["arms"]["ZeRO-Infinity"]["fits"]]
        if not ran:
            console.print(f"{name}: ZeRO-Infinity fits none of these limits")
            continue
        tightest = min(ran, key=lambda c: c["limit_bytes"])
        arms = tightest["arms"]
        if not arms["planned"]["fits"]:
            console.print(f"{name}: ours does not fit {gigabytes(tightest['limit_bytes'])}")
            continue
        ratio = arms["ZeRO-Infinity"]["step_seconds"] / arms["planned"]["step_seconds"]
        limit = gigabytes(tightest["limit_bytes"])
        console.print(f"{name} in {limit}: {ratio:.2f} times ZeRO-Infinity's speed (goal: {GOAL})")


def main(argv=None) -> int:
    args = parse_arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else 140)
    args.drive.mkdir(parents=True, exist_ok=True)
    prepare(None, args.cache, VOCABULARY)
    comparisons = []
    try:
        console.print("Building DeepSpeed's operators (once, some minutes) ...")
        build_operators(args)
        for name in args.models:
            for limit in args.limits or MODELS[name].limits:
                comparisons.append(compare(args, console, name, limit))
                show(console, comparisons[-1])
                write_json(args.output / "peers.json", comparisons)
    except Unavailable as error:
        print(f"bench-peers: {error}", file=sys.stderr)
        return 2
    verdict(console, comparisons)
    return 0


if __name__ == "__main__":
    sys.exit(main())
