#!/usr/bin/env python3
"""Measures what recomputation saves in the demo's training, arms interleaved.

A case is a precision and a ratio of the natural peak to the budget. In each, plans that only move
tensors alternate with plans that also make them again, on the drives as they are and, where root
can limit them (a version 1 `blkio` control group), at a share of their rate. Every round runs each
arm once, in a process of its own; a figure is the median of the measured steps of all rounds. The
losses and parameters of all arms of a case must have the same bits. Writes recompute.json after
each case.
"""

import argparse
import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import Arm, ArmFailed, ArmResult, run_arm
from arms.live import LiveArm
from arms.results import measured, natural_peak_of
from demo import PROFILE, PROFILE_STEPS, training_arguments
from llama.atomic import write_json
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
CONTROL_GROUP = Path("/sys/fs/cgroup/blkio") / f"teraio-bench-{os.getpid()}"
SLOWER_AT_MOST = 1.01
FASTER_ON_A_LIMITED_DRIVE = 1.3
PREDICTION_ERROR_MAX = 0.05
PRECISIONS = {"fp32": [], "bf16": ["--bf16"]}  # options of the training


@dataclass(frozen=True)
class Case:
    precision: str
    ratio: float  # natural peak over device budget

    @property
    def name(self) -> str:
        return f"{self.precision}, ratio {self.ratio:g}"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", default="130m")
    add("--rounds", type=int, default=2)
    add("--steps", type=int, default=9, help="steps of each arm in each round")
    add("--warm-up-steps", type=int, default=6, help="steps that no median counts")
    add("--micro-batch", type=int, default=4)
    add("--accumulation", type=int, default=1)
    add(
        "--ratio", type=float, nargs="+", default=[3.0, 5.0], help="natural peak over device budget"
    )
    add("--precision", choices=PRECISIONS, nargs="+", default=list(PRECISIONS))
    add("--limit", type=int, default=400, metavar="MB", help="per second, of the limited drive")
    add("--data", type=Path)
    add("--ssd", type=Path)
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
    args = parser.parse_args(argv)
    args.ssd = args.ssd or args.output / "recompute" / "ssd"
    args.cache = ROOT / "build" / "demo" / "data"
    args.training = []
    return args


@contextlib.contextmanager
def limited_drive(directory: Path, bytes_per_second: int):
    """Gives the prefix of commands whose I/O to the directory's drive is limited; None: it cannot
    be."""
    number = os.stat(directory).st_dev
    limit = f"{os.major(number)}:{os.minor(number)} {bytes_per_second}"
    try:
        CONTROL_GROUP.mkdir()
        for direction in ("read", "write"):
            (CONTROL_GROUP / f"blkio.throttle.{direction}_bps_device").write_text(limit)
    except OSError as error:
        print(f"The drive is not limited: {error}")
        with contextlib.suppress(OSError):
            CONTROL_GROUP.rmdir()
        yield None
        return
    try:
        yield ("sh", "-c", f'echo $$ > {CONTROL_GROUP}/cgroup.procs && exec "$@"', "sh")
    finally:
        CONTROL_GROUP.rmdir()


def own_rates(args, drive: str) -> tuple[str, ...]:
    """Returns the prefix of commands that keep the rates of a drive apart from those of others.

    A run remembers the rates that it has measured. Plans for the drive as it is would otherwise
    assume those of the limited one, and the other way around.
    """
    return ("env", f"XDG_CACHE_HOME={args.output.resolve() / 'recompute' / f'rates, {drive}'}")


def run(console: Console, args, case: Case, arm: Arm, folder: str, steps: int) -> ArmResult:
    directory = args.output / "recompute" / case.name / folder / arm.name
    training = [*training_arguments(args, steps), *PRECISIONS[case.precision]]
    with LiveArm(console, arm.name, steps) as watch:
        return run_arm(arm, training, directory, [args.ssd], watch)


def run_rounds(console: Console, args, case: Case) -> dict[str, list[ArmResult]]:
    profile = run(console, args, case, PROFILE, "profile", PROFILE_STEPS)
    budget = str(int(natural_peak_of(profile) / case.ratio))
    with limited_drive(args.ssd, args.limit * 10**6) as prefix:
        drives = {"as it is": ()} | ({} if prefix is None else {"limited": prefix})
        arms = [
            Arm(
                f"{drive}, {recompute}",
                budget,
                recompute=recompute,
                prefix=(*prefix, *own_rates(args, drive)),
            )
            for drive, prefix in drives.items()
            for recompute in ("off", "all")
        ]
        results = {arm.name: [] for arm in arms}
        for number in range(1, args.rounds + 1):
            for arm in arms:
                results[arm.name].append(
                    run(console, args, case, arm, f"round-{number}", args.steps)
                )
    return results


def step_seconds(results: list[ArmResult], args) -> float:
    return median(
        seconds
        for result in results
        for seconds in measured(result.training["step_seconds"], args.warm_up_steps)
    )


def written_bytes(results: list[ArmResult], args) -> float:
    return median(
        step["ssd_bytes_written"]
        for result in results
        for step in measured(result.session["steps"], args.warm_up_steps)
    )


def differences(results: dict[str, list[ArmResult]]) -> set[str]:
    """The names of the arms whose losses or parameters differ from the first arm's."""
    bits = {
        name: {(r.training["losses_sha256"], r.training["parameters_sha256"]) for r in each}
        for name, each in results.items()
    }
    first = next(iter(bits.values()))
    return {name for name, each in bits.items() if each != first or len(each) != 1}


def measures(results: dict[str, list[ArmResult]], args) -> list[dict]:
    """Returns the rows of `recompute.json`: a ratio to a reference each, and whether it is met."""
    rows = []
    for drive in ("as it is", "limited"):
        if f"{drive}, off" not in results:
            continue
        moved, made = results[f"{drive}, off"], results[f"{drive}, all"]
        times = step_seconds(moved, args), step_seconds(made, args)
        faster = times[0] / times[1]
        least = 1 / SLOWER_AT_MOST if drive == "as it is" else FASTER_ON_A_LIMITED_DRIVE
        rows.append(row(f"{drive}: step without / with replays", *times, faster >= least))
        written = written_bytes(moved, args), written_bytes(made, args)
        rows.append(row(f"{drive}: bytes written without / with replays", *written, None))
        for name, each, seconds in (("without", moved, times[0]), ("with", made, times[1])):
            predicted = [result.session["predicted_step_seconds"] for result in each]
            if None in predicted:
                continue
            error = median(predicted) / seconds
            met = abs(error - 1) <= PREDICTION_ERROR_MAX
            rows.append(
                row(
                    f"{drive}: predicted / measured {name} replays", median(predicted), seconds, met
                )
            )
    return rows


def row(name: str, value: float, reference: float, met: bool | None) -> dict:
    """`met` is None where there is no target."""
    ratio = value / reference if reference else None
    return {"name": name, "value": value, "reference": reference, "ratio": ratio, "met": met}


def measured_case(console: Console, args, case: Case) -> list[dict]:
    """Returns the rows of a case. Raises ArmFailed when an arm fails or has other bits."""
    results = run_rounds(console, args, case)
    if names := differences(results):
        raise ArmFailed(f"{case.name}: other bits than the first arm: {', '.join(names)}")
    return [entry | {"name": f"{case.name}, {entry['name']}"} for entry in measures(results, args)]


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    rows = []
    for case in (Case(precision, ratio) for precision in args.precision for ratio in args.ratio):
        try:
            rows += measured_case(console, args, case)
        except ArmFailed as error:
            print(f"recompute: {error}", file=sys.stderr)
            return 1
        write_json(args.output / "recompute.json", rows)
    for entry in rows:
        verdict = {True: "met", False: "not met", None: ""}[entry["met"]]
        print(f"{entry['name']}: {entry['ratio']:.3f} {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
