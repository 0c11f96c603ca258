#!/usr/bin/env python3
"""Measures training whose steps differ: how much of it follows plans, and what that brings.

The programs (varying/), each a Llama with AdamW in a third of the memory of its largest step:

lengths  sequences of 64 to 1,024 tokens, drawn anew, padded to the longest of their batch
buckets  batches of 8 lengths, in an order that is drawn anew
experts  8 experts in each block, 2 of them for each token

Others repeat in parts only (varying/parts.py, varying/trainers.py; some need packages that are not
installed here): 40 iterations of small models.

The arms, each a process of its own, one after the other: ideal (stock PyTorch with all the memory),
planned, and on demand. The benchmark fails unless losses and parameters have the same bits in all
arms of a program. Figures are of the second half of a run.

Targets: at least 90 % of the ops of `lengths` follow plans, 95 % of `buckets`, and 80 % of the
others, in at most 1.05 times the time on demand.

Writes varying_steps.json. --quick runs tiny models, for tests; its times mean nothing.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import Arm, ArmFailed, ArmResult, run_arm
from arms.live import LiveArm
from llama.atomic import write_json
from measures.rows import differences, row
from rich.console import Console
from varying import trainers

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).parent / "varying" / "train.py"
PARTS_SCRIPT = SCRIPT.with_name("trainers.py")
PROFILE_STEPS = 3
PLANNED_TARGET, SLOWER_THAN_ON_DEMAND_AT_MOST = 0.8, 1.05


@dataclass(frozen=True)
class Program:
    """A program at a size. `options` are those of pretrain_llama.py."""

    name: str
    options: str
    micro_batch: int  # sequences
    steps: int
    planned_target: float  # share of the ops
    largest: str = "fixed"  # the program whose steps are all as large as this one's largest step


SMALL = "--preset 130m --layers 4 --vocab-size 8000"
EXPERTS = f"{SMALL} --dim 512 --heads 8 --kv-heads 8 --ffn-dim 1024"
PROGRAMS = [
    Program("lengths", "--preset 130m --sequence-length 1024", 2, 30, 0.90),
    Program("buckets", f"{SMALL} --sequence-length 1024", 1, 32, 0.95),
    Program("experts", EXPERTS, 4, 30, 0.80, "experts"),
]
QUICK = "--preset tiny --layers 1 --dim 192 --heads 6 --kv-heads 3 --ffn-dim 576"
QUICK += " --sequence-length 96"  # most tensors are large enough to move
QUICK_STEPS = 14


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = [*(program.name for program in PROGRAMS), *trainers.PROGRAMS]
    add("--programs", nargs="+", choices=names, default=names, metavar="PROGRAM")
    add("--quick", action="store_true", help="tiny models and few steps")
    add("--steps", type=int, help="steps of each arm (default: the program's)")
    add("--ratio", type=float, default=3.0, help="peak of the largest step over device budget")
    add("--data", type=Path)
    add("--cache", type=Path, default=ROOT / "build" / "demo" / "data")
    add("--ssd", type=Path)
    add("--output", type=Path, default=Path("build/bench"))
    args = parser.parse_args(argv)
    args.folder = args.output / "varying_steps"
    args.ssd = args.ssd or args.folder / "ssd"
    return args


def chosen_programs(args) -> list[Program]:
    chosen = [program for program in PROGRAMS if program.name in args.programs]
    if args.quick:
        chosen = [quick(program) for program in chosen]
    return [replace(program, steps=args.steps or program.steps) for program in chosen]


def quick(program: Program) -> Program:
    """Returns the program with a tiny model."""
    options = f"{QUICK} --ffn-dim 384" if program.name == "experts" else QUICK
    return replace(program, options=options, steps=QUICK_STEPS)


def run_arms(
    console, args, name: str, steps: int, script: Path, profiled: list[str], training: list[str]
) -> dict[str, ArmResult]:
    """Returns the results of the arms by name, within a share of the peak of `profiled`. Both are
    arguments of the script. Raises ArmFailed, also for unequal bits."""

    def run(arm: Arm, words: list[str]) -> ArmResult:
        directory = args.folder / name / arm.name.replace(" ", "_")
        with LiveArm(console, f"{name}, {arm.name}", steps) as watch:
            return run_arm(arm, words, directory, [args.ssd], watch)

    profile = run(Arm("profile", "100%", "on-demand", script=script), profiled)
    budget = str(int(profile.session["natural_peak_bytes"] / args.ratio))
    arms = [
        Arm("ideal", script=script),
        Arm("planned", budget, "planned", script=script),
        Arm("on demand", budget, "on-demand", script=script),
    ]
    results = {arm.name: run(arm, training) for arm in arms}
    if names := differences({arm: [result] for arm, result in results.items()}):
        raise ArmFailed(f"{name}: other bits than the first arm: {', '.join(names)}")
    return results


def measure(console: Console, args, program: Program) -> list[dict]:
    """Runs the arms of a program, with its size, and returns its rows."""

    def words(name: str, steps: int) -> list[str]:
        options = [name, *program.options.split(), "--micro-batch", str(program.micro_batch)]
        options += ["--cache", str(args.cache), "--steps", str(steps)]
        return [*options, "--data", str(args.data)] if args.data else options

    profiled, training = words(program.largest, PROFILE_STEPS), words(program.name, program.steps)
    results = run_arms(console, args, program.name, program.steps, SCRIPT, profiled, training)
    return rows_of(program.name, results, program.planned_target)


def measure_parts(console: Console, args, name: str) -> list[dict]:
    """As measure(), of a program that repeats in parts."""
    results = run_arms(console, args, name, trainers.ITERATIONS, PARTS_SCRIPT, [name], [name])
    return rows_of(name, results, PLANNED_TARGET)


def rows_of(name: str, results: dict[str, ArmResult], planned_target: float) -> list[dict]:
    """Returns the rows of a program: each has a ratio to a reference, and whether it is met."""
    runs = [results[arm].session for arm in ("planned", "on demand")]
    halves = [run["steps"][len(run["steps"]) // 2 :] for run in runs]
    ops, planned_ops = (sum(s[key] for s in halves[0]) for key in ("op_count", "planned_op_count"))
    seconds = [sum(step["seconds"] for step in half) for half in halves]
    reads = [run["counters"]["urgent_reads"] for run in runs]
    is_planned = planned_ops >= planned_target * ops
    is_fast = seconds[0] <= SLOWER_THAN_ON_DEMAND_AT_MOST * seconds[1]
    return [
        row(f"{name}: share of ops planned in the second half", planned_ops / ops, 1, is_planned),
        row(f"{name}: seconds of the second half, planned / on demand", *seconds, is_fast),
        row(f"{name}: reads that ops waited for, planned / on demand", *reads, None),
    ]


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    rows = []
    try:
        for program in chosen_programs(args):
            rows += measure(console, args, program)
        for name in [each for each in trainers.PROGRAMS if each in args.programs]:
            rows += measure_parts(console, args, name)
    except ArmFailed as error:
        print(f"varying_steps: {error}", file=sys.stderr)
        return 1
    write_json(args.output / "varying_steps.json", rows)
    show(rows)
    return 0


def show(rows: list[dict]) -> None:
    for entry in rows:
        verdict = {True: "met", False: "not met", None: ""}[entry["met"]]
        print(f"{entry['name']}: {entry['value']:.4g} against {entry['reference']:.4g} {verdict}")


if __name__ == "__main__":
    sys.exit(main())
