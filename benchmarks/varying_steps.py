#!/usr/bin/env python3
"""Measures training whose steps differ: how much of it follows plans, and what that brings.

The programs (varying/), each a Llama with AdamW in a third of the memory of its largest step:

lengths        sequences of 64 to 1,024 tokens, drawn anew, padded to the longest of their batch
buckets        batches of 8 lengths, in an order that is drawn anew
interruptions  an evaluation every 5 steps, a checkpoint every 10, a logged loss every 3
experts        8 experts in each block, 2 of them for each token
accumulation   1 to 4 micro-batches per step, drawn anew

The arms, each a process of its own, one after the other in every round: ideal (stock PyTorch with
all the memory), planned, and on demand. `lengths` also runs planned and on demand with sequences of
one length, the median of the padded lengths. The benchmark fails unless losses and parameters have
the same bits in all arms of a program.

Figures leave out the first steps (--warm-up-steps), in which patterns are new. Seconds per token
are medians over the steps of all rounds: a step that trains on more tokens takes less time for
each, so that the median belongs to the median length, which is the one of the fixed arms. Padding
counts as tokens. "Overall" is the time of all these steps over all their tokens, which includes
evaluations and checkpoints. Shares of ops are of all these steps together.

Targets: at least 90 % of the ops of `lengths` follow plans, 95 % of `buckets` and `accumulation`,
97 % of `interruptions`, and 80 % of `experts`; drawn lengths cost at most 5 % more seconds per
token than fixed ones, and gain as much against on demand; `experts` is faster than on demand.

Writes varying_steps.json. --quick runs tiny models, for tests; its times mean nothing.
"""

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import Arm, ArmFailed, ArmResult, run_arm
from arms.live import LiveArm
from arms.results import natural_peak_of
from llama.atomic import write_json
from measures.rows import differences
from rich.console import Console
from varying import figures
from varying.figures import ArmSteps

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).parent / "varying" / "train.py"
PROFILE_STEPS = 3


@dataclass(frozen=True)
class Program:
    """A program at a size. `options` are those of pretrain_llama.py."""

    name: str
    options: str
    micro_batch: int  # sequences
    steps: int
    planned_target: float  # share of the ops after the warm-up
    largest: str = "fixed"  # the program whose steps are all as large as this one's largest step


SMALL = "--preset 130m --layers 4 --vocab-size 8000"
EXPERTS = f"{SMALL} --dim 512 --heads 8 --kv-heads 8 --ffn-dim 1024"
PROGRAMS = [
    Program("lengths", "--preset 130m --sequence-length 1024", 2, 30, 0.90),
    Program("buckets", f"{SMALL} --sequence-length 1024", 1, 32, 0.95),
    Program("interruptions", SMALL, 4, 30, 0.97),
    Program("experts", EXPERTS, 4, 30, 0.80, "experts"),
    Program("accumulation", f"{SMALL} --accumulation 4", 1, 30, 0.95),
]
QUICK = "--preset tiny --layers 1 --dim 192 --heads 6 --kv-heads 3 --ffn-dim 576"
QUICK += " --sequence-length 96"  # most tensors are large enough to move
QUICK_STEPS = 14


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    names = [program.name for program in PROGRAMS]
    add("--programs", nargs="+", choices=names, default=names, metavar="PROGRAM")
    add("--quick", action="store_true", help="tiny models and few steps")
    add("--rounds", type=int, default=1)
    add("--steps", type=int, help="steps of each arm in each round (default: the program's)")
    add("--fixed-steps", type=int, default=16, help="steps of the arms with one length")
    add("--warm-up-steps", type=int, default=10, help="steps that no figure counts")
    add("--ratio", type=float, default=3.0, help="peak of the largest step over device budget")
    add("--data", type=Path)
    add("--cache", type=Path, default=ROOT / "build" / "demo" / "data")
    add("--ssd", type=Path)
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
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
    special = {"experts": "--ffn-dim 384", "accumulation": "--accumulation 4"}
    options = f"{QUICK} {special.get(program.name, '')}"
    return replace(program, options=options, steps=QUICK_STEPS)


class Runner:
    """Runs the arms of one program."""

    def __init__(self, console: Console, args, program: Program):
        self.console, self.args, self.program = console, args, program
        self.folder = args.folder / program.name
        self.checkpoint = self.folder / "checkpoint.pt"

    def run(self, arm: Arm, folder: str, name: str, steps: int, *options: str) -> ArmResult:
        """Runs `name`, of the programs of varying/, with the size of this program."""
        training = [name, *self.program.options.split(), "--steps", str(steps), *options]
        training += ["--micro-batch", str(self.program.micro_batch)]
        training += ["--cache", str(self.args.cache), "--save", str(self.checkpoint)]
        training += ["--data", str(self.args.data)] if self.args.data else []
        directory = self.folder / folder / arm.name.replace(", ", "_").replace(" ", "_")
        with LiveArm(self.console, f"{self.program.name}, {arm.name}", steps) as watch:
            return run_arm(arm, training, directory, [self.args.ssd], watch)

    def run_rounds(self) -> dict[str, list[ArmResult]]:
        """Returns the results of each arm, one per round."""
        profile = Arm("profile", "100%", script=SCRIPT)
        largest = self.run(profile, "profile", self.program.largest, PROFILE_STEPS)
        budget = str(int(natural_peak_of(largest) / self.args.ratio))
        rounds = [self.run_round(f"round-{n}", budget) for n in range(1, self.args.rounds + 1)]
        self.checkpoint.unlink(missing_ok=True)
        return {name: [each[name] for each in rounds] for name in rounds[0]}

    def run_round(self, folder: str, budget: str) -> dict[str, ArmResult]:
        program = self.program
        arms = [
            Arm("ideal", script=SCRIPT),
            Arm("planned", budget, "planned", script=SCRIPT),
            Arm("on demand", budget, "on-demand", script=SCRIPT),
        ]
        results = {arm.name: self.run(arm, folder, program.name, program.steps) for arm in arms}
        if program.name == "lengths":
            tokens = median(ArmSteps([results["ideal"]], self.args.warm_up_steps).tokens)
            options = ("--sequence-length", str(int(tokens / program.micro_batch)))
            for arm in (replace(arm, name=f"{arm.name}, fixed") for arm in arms[1:]):
                result = self.run(arm, folder, "fixed", self.args.fixed_steps, *options)
                results[arm.name] = result
        return results


def measure(console: Console, args, program: Program) -> list[dict]:
    """Runs the arms of a program and returns its rows. Raises ArmFailed, also for unequal bits."""
    results = Runner(console, args, program).run_rounds()
    for fixed in (False, True):
        arms = {name: each for name, each in results.items() if ("fixed" in name) == fixed}
        if names := arms and differences(arms):
            raise ArmFailed(f"{program.name}: other bits than the first arm: {', '.join(names)}")
    return figures.rows(program, results, args.warm_up_steps)


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    rows = []
    try:
        for program in chosen_programs(args):
            rows += measure(console, args, program)
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
