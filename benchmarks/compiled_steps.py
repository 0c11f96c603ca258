#!/usr/bin/env python3
"""Measures the demo's training compiled as a whole, within a fraction of its peak.

Arms alternate: stock PyTorch and planned steps, each eager and compiled. Both planned arms have the
same budget, the compiled training's peak divided by --ratio. Every round runs each arm once, in a
process of its own; a figure is the median of the measured steps of all rounds. A planned arm and
its stock arm must have the same bits. Writes compiled_steps.json.

The bound of a planned arm is the least time of a step by what its drive and its ops take, as the
session measured them, ops beside the I/O.

The drive of a virtual machine may pause. --drive-in-memory measures on one that does not: a loop
device on a file in memory.
"""

import argparse
import contextlib
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import Arm, ArmFailed, ArmResult, run_arm
from arms.live import LiveArm
from arms.results import measured, natural_peak_of
from demo import PROFILE, PROFILE_STEPS, training_arguments
from drives.loop_drive import Unavailable, loop_drive
from llama.atomic import write_json
from measures.rows import row, step_seconds
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
BELOW_BOUND_MAX = 0.03
OF_COMPILING_MIN = 0.95
# Options of the training.
MODES = {"eager": ["--deterministic"], "compiled": ["--deterministic", "--compile"]}
STOCK = Arm("stock")
DRIVE_BYTES = 8 << 30  # of memory, as far as they are written


@dataclass(frozen=True)
class Case:
    """One way to run one mode: stock PyTorch, or within the budget."""

    mode: str
    arm: Arm

    @property
    def name(self) -> str:
        return f"{self.mode}, {self.arm.name}"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", default="130m")
    add("--rounds", type=int, default=2)
    add("--steps", type=int, default=8, help="steps of each arm in each round")
    add("--warm-up-steps", type=int, default=5, help="steps that no median counts")
    add("--micro-batch", type=int, default=4)
    add("--accumulation", type=int, default=4)
    add("--ratio", type=float, default=4.0, help="peak of the compiled training over budget")
    add("--modes", choices=MODES, nargs="+", default=list(MODES))
    add("--drive-in-memory", action="store_true", help="a loop device instead of --ssd, as root")
    add("--data", type=Path)
    add("--ssd", type=Path)
    add("--output", type=Path, default=Path("build/bench"))
    args = parser.parse_args(argv)
    args.ssd = args.ssd or args.output / "compiled_steps" / "ssd"
    args.cache = ROOT / "build" / "demo" / "data"
    args.training = []
    return args


@contextlib.contextmanager
def drive(args):
    """Yields a folder on the drive, and the prefix of commands that offload to it.

    A run remembers the rates of drives. Those of the drive in memory are forgotten with it.
    """
    if not args.drive_in_memory:
        args.ssd.mkdir(parents=True, exist_ok=True)
        yield args.ssd, ()
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with loop_drive(Path(folder) / "loop", DRIVE_BYTES) as mounted:
            yield mounted, ("env", f"XDG_CACHE_HOME={folder}")


def run(console: Console, args, case: Case, folder: str, steps: int) -> ArmResult:
    directory = args.output / "compiled_steps" / folder / case.name
    training = [*training_arguments(args, steps), *MODES[case.mode]]
    with LiveArm(console, case.name, steps) as watch:
        return run_arm(case.arm, training, directory, [args.ssd], watch)


def run_rounds(console: Console, args, prefix) -> dict[str, list[ArmResult]]:
    profiling = Case("compiled", replace(PROFILE, prefix=prefix))
    profile = run(console, args, profiling, "profile", PROFILE_STEPS)
    budget = str(int(natural_peak_of(profile) / args.ratio))
    planned = Arm("planned", budget, prefix=prefix)
    cases = [Case(mode, arm) for mode in args.modes for arm in (STOCK, planned)]
    results = {case.name: [] for case in cases}
    for number in range(1, args.rounds + 1):
        for case in cases:
            result = run(console, args, case, f"round-{number}", args.steps)
            results[case.name].append(result)
    for mode in args.modes:
        check_bits(mode, [*results[f"{mode}, stock"], *results[f"{mode}, planned"]])
    return results


def check_bits(mode: str, results: list[ArmResult]) -> None:
    """Raises ArmFailed when losses or parameters differ."""
    bits = {(r.training["losses_sha256"], r.training["parameters_sha256"]) for r in results}
    if len(bits) != 1:
        raise ArmFailed(f"{mode}: planned steps have other bits than stock PyTorch")


def measures(results: dict[str, list[ArmResult]], args) -> list[dict]:
    """Returns the rows of `compiled_steps.json`: a ratio to a reference each, and whether it is
    met."""
    seconds = {name: step_seconds(each, args) for name, each in results.items()}
    rows = []
    for mode in args.modes:
        stock, planned = seconds[f"{mode}, stock"], seconds[f"{mode}, planned"]
        sessions = [r.session for r in results[f"{mode}, planned"]]
        bound = stock / median(session["prediction"]["bound_ns"] / 1e9 for session in sessions)
        met = stock / planned >= bound - BELOW_BOUND_MAX if mode == "compiled" else None
        rows.append(row(f"{mode}: planned, fraction of ideal", stock / planned, bound, met))
        busy = median(busy_fraction(session, args.warm_up_steps) for session in sessions)
        most = median(session["bound_fraction"] for session in sessions)
        rows.append(row(f"{mode}: planned, fraction without stalls", busy, most, None))
        predicted = median(session["predicted_step_seconds"] for session in sessions)
        rows.append(row(f"{mode}: predicted / measured", predicted, planned, None))
    if len(args.modes) == len(MODES):
        rows.append(compiling_row(seconds))
    return rows


def compiling_row(seconds: dict[str, float]) -> dict:
    """Compares what compiling gains within the budget with what it gains without one."""
    by_compiling = seconds["eager, stock"] / seconds["compiled, stock"]
    within = seconds["eager, planned"] / seconds["compiled, planned"]
    met = within >= OF_COMPILING_MIN * by_compiling
    return row("within the budget: eager / compiled", within, by_compiling, met)


def busy_fraction(session: dict, warm_up_steps: int) -> float:
    """Returns the median part of a step in which no op waits for a transfer. Unlike the fraction of
    ideal, it does not depend on how fast the cores were when stock PyTorch ran."""
    steps = measured(session["steps"], warm_up_steps)
    return median(1 - step["stall_seconds"] / step["seconds"] for step in steps)


def main(argv=None) -> int:
    args = parse_arguments(argv)
    console = Console()
    try:
        with drive(args) as (args.ssd, prefix):
            rows = measures(run_rounds(console, args, prefix), args)
    except (ArmFailed, Unavailable) as error:
        print(f"compiled_steps: {error}", file=sys.stderr)
        return 1
    write_json(args.output / "compiled_steps.json", rows)
    for entry in rows:
        verdict = {True: "  met", False: "  MISSED", None: ""}[entry["met"]]
        print(f"{entry['name']}: {entry['value']:.3f} against {entry['reference']:.3f}{verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
