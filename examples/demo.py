#!/usr/bin/env python3
"""Trains a Llama in three ways, in a third of the memory that it needs, and compares them.

ideal      stock PyTorch with all the memory
planned    under the budget, tensors migrate to the SSD and back by a plan
on_demand  under the budget, tensors migrate when memory runs out

Each arm is a process of its own with the same seed and data. Writes a table, `results.json`, a
picture of device memory, and a folder per arm with its log, losses and `report.html`, a page that
opens in a browser. Takes a few minutes.
With --full it takes a quarter of an hour: steps have four passes, and medians more steps.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

from arms import show
from arms.arm import Arm, ArmFailed, ArmResult, run_arm
from arms.live import LiveArm, gigabytes
from arms.results import IDEAL, ON_DEMAND, PLANNED, as_json, compare
from llama.atomic import replacing, write_json
from llama.corpus import DataError
from llama.presets import PRESETS
from llama.tokens import prepare
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
PROFILE = Arm("profile", device_budget="100%")
PROFILE_STEPS = 3
STEPS, ACCUMULATION = 7, 1
STEPS_FULL, ACCUMULATION_FULL = 10, 4


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Arguments after -- go to pretrain_llama.py, for example: -- --bf16 --layers 6",
    )
    add = parser.add_argument
    add("--preset", choices=PRESETS, default="130m")
    add("--arms", nargs="+", choices=(IDEAL, PLANNED, ON_DEMAND), default=None, help="default: all")
    add("--full", action="store_true", help="more and larger steps, as in docs/results.md")
    add("--steps", type=int, help=f"steps of each arm (default: {STEPS}, with --full {STEPS_FULL})")
    add("--warm-up-steps", type=int, default=4, help="steps that no median counts (default: 4)")
    add("--micro-batch", type=int, default=4, help="sequences per pass (default: 4)")
    passes = f"passes per step (default: {ACCUMULATION}, with --full {ACCUMULATION_FULL})"
    add("--accumulation", type=int, help=passes)
    add("--ratio", type=float, default=3.0, help="natural peak over device budget (default: 3)")
    add("--data", type=Path, help="C4 file (.json, .json.gz; default: prose of Python's docs)")
    add("--ssd", type=Path, action="append", help="directory on a drive; repeat for several drives")
    add("--output", type=Path, default=ROOT / "build" / "demo")
    add("training", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    args.steps = args.steps or (STEPS_FULL if args.full else STEPS)
    args.accumulation = args.accumulation or (ACCUMULATION_FULL if args.full else ACCUMULATION)
    args.arms = args.arms or [IDEAL, PLANNED, ON_DEMAND]
    args.ssd = args.ssd or [args.output / "ssd"]
    args.cache = args.output / "data"
    return args


def training_arguments(args, steps: int) -> list[str]:
    """Returns the arguments that every arm passes to the training script."""
    chosen = ["--preset", args.preset, "--steps", steps, "--micro-batch", args.micro_batch]
    chosen += ["--accumulation", args.accumulation, "--cache", args.cache]
    chosen += ["--data", args.data] if args.data else []
    return [*map(str, chosen), *args.training]


def arms_of(args, device_budget_bytes: int) -> list[Arm]:
    budget = str(device_budget_bytes)
    known = {
        IDEAL: Arm(IDEAL),
        PLANNED: Arm(PLANNED, budget, "planned", save=True),
        ON_DEMAND: Arm(ON_DEMAND, budget, "on-demand"),
    }
    return [known[name] for name in args.arms]


def run(console: Console, args, arm: Arm, steps: int) -> ArmResult:
    training = training_arguments(args, steps)
    with LiveArm(console, arm.name, steps) as watch:
        return run_arm(arm, training, args.output / arm.name, args.ssd, watch)


def demo(console: Console, args) -> int:
    console.print(f"How much memory does the training of {args.preset} need?")
    profile = run(console, args, PROFILE, PROFILE_STEPS)
    peak_bytes = profile.session["natural_peak_bytes"]
    device_budget_bytes = int(peak_bytes / args.ratio)
    tokens_per_step = profile.training["tokens_per_step"]
    console.print(
        f"It needs {gigabytes(peak_bytes)}. "
        f"The device budget is {gigabytes(device_budget_bytes)}.\n"
        f"{len(args.arms)} arms of {args.steps} steps, {tokens_per_step} tokens per step."
    )
    results = []
    for arm in arms_of(args, device_budget_bytes):
        results.append(run(console, args, arm, args.steps))
        comparison = compare(results, peak_bytes, device_budget_bytes, args.warm_up_steps)
        console.print(show.newest(comparison), highlight=False)
    report(console, args, comparison, profile, results)
    return 1 if comparison.differences else 0


def report(console: Console, args, comparison, profile: ArmResult, results) -> None:
    """Shows the comparison and writes it, with the picture, to the output directory."""
    show.show(console, comparison)
    write_json(args.output / "results.json", as_json(comparison))
    with replacing(args.output / "table.txt") as partial, partial.open("w") as file:
        show.show(Console(file=file, width=140), comparison)
    planned = next((r.session for r in results if r.name == PLANNED), None)
    if planned:
        picture = args.output / "memory.png"
        show.draw_memory(picture, profile.session, planned, comparison.device_budget_bytes)
        console.print(f"Device memory over one step: {picture}")
    console.print(f"Numbers: {args.output / 'results.json'}")
    for result in results:
        if result.session:
            console.print(f"Report of {result.name}: {save_page(args.output / result.name)}")


def save_page(directory: Path) -> Path:
    """Makes the page about the arm that ran in `directory`, and returns its path."""
    from teraio.report import Report

    page = directory / "report.html"
    Report(directory).save(page)
    return page


def main(argv=None) -> int:
    args = parse_arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else 140)
    if importlib.util.find_spec("teraio") is None:
        print(f"demo: {sys.executable} has no teraio: run make build", file=sys.stderr)
        return 2
    try:
        for directory in args.ssd:
            directory.mkdir(parents=True, exist_ok=True)
        console.print("Preparing the text (once) ...")
        prepare(args.data, args.cache, PRESETS[args.preset].vocab_size)
        return demo(console, args)
    except (ArmFailed, DataError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
