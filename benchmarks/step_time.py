#!/usr/bin/env python3
"""Measures the step time of the demo's training with and without a budget, arms interleaved.

Every round runs each arm once, in a process of its own; a figure is the median over all rounds.
Ideal is the faster of stock PyTorch and TERAIO with an unlimited budget. The drift of the reference
arm between rounds is a figure too: above DRIFT_MAX, the machine was too uneven for a verdict.

Transfers take memory bandwidth and time of the cores from the training, whoever makes them. One arm
shows how much: stock PyTorch trains while fio reads and writes beside it, at the rates of the
planned steps of the same round. Planned steps are compared with ideal ones and with these.

After each round, fio reads and writes at once in the directories of the drives, alone. The rates of
the engine are those that it reached while it had enough requests in flight to load a drive.
"""

import argparse
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
from drives.traffic import TrafficFailed, fio_traffic
from llama.atomic import write_json
from rich.console import Console
from storage import fio

ROOT = Path(__file__).resolve().parents[1]
DRIFT_MAX = 0.10
FRACTION_TARGET = 0.95
OF_BOUND_TARGET = 0.97
IDLE_COST_MAX = 0.01
PREDICTION_ERROR_MAX = 0.05
OF_FIO_TARGET = 0.9
STOCK = Arm("stock")
BESIDE_FIO = "beside_fio"
FIO = argparse.Namespace(size=1 << 30, seconds=2)


@dataclass(frozen=True)
class Figures:
    """Medians over all rounds, in seconds, and the prediction of the planned arm."""

    stock: float
    unlimited: float
    planned: float
    on_demand: float
    beside_fio: float
    moved_share: float  # of the bytes per second that fio was to move beside the training
    drift: float
    bound_fraction: float | None
    predicted: float | None
    drive_rate: float | None  # bytes per second read and written under load, all drives
    fio_rate: float

    @property
    def ideal(self) -> float:
        return min(self.stock, self.unlimited)


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", default="130m")
    add("--rounds", type=int, default=2)
    add("--steps", type=int, default=8, help="steps of each arm in each round")
    add("--warm-up-steps", type=int, default=4, help="steps that no median counts")
    add("--micro-batch", type=int, default=4)
    add("--accumulation", type=int, default=4)
    add("--ratio", type=float, default=3.0, help="natural peak over device budget")
    add("--data", type=Path)
    add("--ssd", type=Path, action="append")
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
    args = parser.parse_args(argv)
    args.ssd = args.ssd or [args.output / "step_time" / "ssd"]
    args.cache = ROOT / "build" / "demo" / "data"
    args.training = []
    return args


@dataclass(frozen=True)
class Rounds:
    """What every round measured."""

    results: dict[str, list[ArmResult]]  # by the name of the arm
    moved_shares: list[float]  # see Figures
    fio_rates: list[float]  # bytes per second, with nothing beside it


def run_rounds(console: Console, args) -> Rounds:
    profile = run(console, args, PROFILE, "profile", PROFILE_STEPS)
    budget = str(int(natural_peak_of(profile) / args.ratio))
    arms = [
        STOCK,
        Arm("unlimited", "100%"),
        Arm("planned", budget, "planned"),
        Arm("on_demand", budget, "on-demand"),
    ]
    rounds = Rounds({name: [] for name in [*(arm.name for arm in arms), BESIDE_FIO]}, [], [])
    for number in range(1, args.rounds + 1):
        folder = f"round-{number}"
        for arm in arms:
            rounds.results[arm.name].append(run(console, args, arm, folder, args.steps))
        rates = planned_rates(rounds.results["planned"][-1], args.warm_up_steps)
        with fio_traffic(args.ssd, *rates) as traffic:
            rounds.results[BESIDE_FIO].append(
                run(console, args, STOCK, f"{folder}/{BESIDE_FIO}", args.steps)
            )
        moved = traffic.read_bytes_per_second + traffic.written_bytes_per_second
        rounds.moved_shares.append(moved / sum(rates) if sum(rates) else 1.0)
        rounds.fio_rates.append(sum(fio(FIO, directory, "both")[0] for directory in args.ssd))
    return rounds


def run(console: Console, args, arm: Arm, folder: str, steps: int) -> ArmResult:
    directory = args.output / "step_time" / folder / arm.name
    with LiveArm(console, arm.name, steps) as watch:
        return run_arm(arm, training_arguments(args, steps), directory, args.ssd, watch)


def planned_rates(planned: ArmResult, warm_up_steps: int) -> tuple[float, float]:
    """Returns the bytes per second that the measured steps read and wrote."""
    steps = measured(planned.session["steps"], warm_up_steps)
    seconds = sum(step["seconds"] for step in steps)
    read, written = (
        sum(step[f"ssd_bytes_{direction}"] for step in steps) for direction in ("read", "written")
    )
    return read / seconds, written / seconds


def figures(rounds: Rounds, warm_up_steps: int) -> Figures:
    def times(result):
        return measured(result.training["step_seconds"], warm_up_steps)

    medians = {
        name: median(seconds for result in results for seconds in times(result))
        for name, results in rounds.results.items()
    }
    reference = [median(times(result)) for result in rounds.results["stock"]]
    planned = [result.session for result in rounds.results["planned"]]
    return Figures(
        **medians,
        drift=max(reference) / min(reference) - 1,
        bound_fraction=median_known(session["bound_fraction"] for session in planned),
        predicted=median_known(session["predicted_step_seconds"] for session in planned),
        drive_rate=median_known(rate_under_load(session["counters"]) for session in planned),
        fio_rate=median(rounds.fio_rates),
        moved_share=median(rounds.moved_shares),
    )


def rate_under_load(counters: dict) -> float | None:
    """Sums the rates under load; None unless every drive was under load in both directions."""
    rates = [
        drive[f"{direction}_bytes_per_second"]
        for drive in counters["ssd_drives"]
        for direction in ("read", "write")
    ]
    return sum(rates) if all(rates) else None


def median_known(values) -> float | None:
    """Returns the median of the known values; None when no run reached a plan."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def measures(f: Figures) -> list[dict]:
    """Returns the rows of `step_time.json`: a ratio to a reference each, and whether it is met."""
    bound = 1.0 if f.bound_fraction is None else f.bound_fraction
    target = min(FRACTION_TARGET, OF_BOUND_TARGET * bound)
    fraction, on_demand, cost = f.ideal / f.planned, f.ideal / f.on_demand, f.unlimited / f.stock
    rows = [
        row("planned, fraction of ideal", fraction, target, fraction >= target),
        row("on demand, fraction of ideal", on_demand, fraction, on_demand < fraction),
        row("unlimited budget / stock step time", cost, 1, cost <= 1 + IDLE_COST_MAX),
        row("planned, fraction of stock beside fio", f.beside_fio / f.planned, 1, None),
        row("stock beside fio, fraction of ideal", f.ideal / f.beside_fio, 1, None),
        row("bytes per second of that fio / of planned steps", f.moved_share, 1, None),
    ]
    if f.predicted is not None:
        error = f.predicted / f.planned
        met = abs(error - 1) <= PREDICTION_ERROR_MAX
        rows.append(row("predicted / measured step time", error, 1, met))
    if f.drive_rate is not None:
        rate = f.drive_rate / f.fio_rate
        rows.append(row("drive rate under load / fio", rate, 1, rate >= OF_FIO_TARGET))
    if f.bound_fraction is not None:
        rows.append(row("bound of compute and drive, fraction of ideal", bound, 1, None))
    if f.drift > DRIFT_MAX:
        rows = [entry | {"met": None} for entry in rows]
    drift = row(
        "stock step time, slowest / fastest round", 1 + f.drift, 1 + DRIFT_MAX, f.drift <= DRIFT_MAX
    )
    return [*rows, drift]


def row(name: str, value: float, reference: float, met: bool | None) -> dict:
    """`met` is None where there is no target, or no verdict."""
    ratio = value / reference
    return {"name": name, "value": value, "reference": reference, "ratio": ratio, "met": met}


def show(rows: list[dict]) -> None:
    for entry in rows:
        verdict = {True: "met", False: "not met", None: ""}[entry["met"]]
        print(f"{entry['name']}: {entry['value']:.3f} against {entry['reference']:.3f} {verdict}")
    if not rows[-1]["met"]:
        print("Stock PyTorch differs too much between rounds: no verdict is given.")


def main(argv=None) -> int:
    args = parse_arguments(argv)
    for directory in args.ssd:
        directory.mkdir(parents=True, exist_ok=True)
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        found = figures(run_rounds(console, args), args.warm_up_steps)
    except (ArmFailed, TrafficFailed) as error:
        print(f"step_time: {error}", file=sys.stderr)
        return 1
    rows = measures(found)
    write_json(args.output / "step_time.json", rows)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
