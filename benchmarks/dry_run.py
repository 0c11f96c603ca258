#!/usr/bin/env python3
"""Compares dry runs with real runs: ops, peak, step time, and the planned step on drives.

Each round measures this machine's CPU with `teraio dry-run --calibrate` for each model, runs the
training with all the memory, dry-runs it on that CPU, and runs it under a plan, with a third of its
peak or a quarter more than its largest op needs. Times are the medians of the ratios of all rounds.
When the real step differs by more than DRIFT_MAX between rounds, they have no verdict.
"""

import argparse
import gzip
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from llama.atomic import write_json

ROOT = Path(__file__).resolve().parents[1]
PEAK_ERROR_MAX = 0.02
STEP_ERROR_MAX = 0.10
PLANNED_ERROR_MAX = 0.05
DRIFT_MAX = 0.10
BUDGET_RATIO = 3
UNLIMITED = "1PB"
PLANNED_RUN_STEPS = 10
TRAINING = Path(__file__).parent / "training"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", default="130m", help="preset of the Llama")
    add("--rounds", type=int, default=3)
    add("--small", action="store_true", help="use test sizes of the other models")
    add("--data", type=Path)
    add("--ssd", type=Path)
    add("--cache", type=Path, default=ROOT / "build" / "demo" / "data")
    add("--output", type=Path, default=Path("build/bench"))
    args = parser.parse_args(argv)
    args.folder = args.output.absolute() / "dry_run"
    args.ssd = (args.ssd or args.folder / "ssd").absolute()
    return args


def programs(args) -> dict[str, list]:
    """Returns the command line of each model, by name."""
    llama = [ROOT / "examples" / "pretrain_llama.py", "--preset", args.preset, "--steps", "6"]
    llama += ["--cache", args.cache] + (["--data", args.data] if args.data else [])
    small = {
        "cnn.py": ["--batch", "2", "--width", "8"],
        "encoder.py": ["--batch", "2", "--length", "16", "--width", "32", "--layers", "1"],
    }
    others = {
        name: [TRAINING / name, *(options if args.small else [])] for name, options in small.items()
    }
    return {f"llama {args.preset}": llama} | others


def teraio(*words) -> str:
    """Returns what `teraio WORDS...` prints; ends the benchmark when it fails."""
    command = [sys.executable, "-m", "teraio", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dry_run: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def measure(args, hardware: Path, name: str, program: list) -> list[dict]:
    """Runs all rounds of a model and returns its rows."""
    rounds = []
    for number in range(1, args.rounds + 1):
        print(f"{name}, round {number} of {args.rounds}: measured, real, dry, planned", flush=True)
        real, dry = traces(args, name, program)
        peaks = [simulated(args, trace, hardware, UNLIMITED) for trace in (dry, real)]
        peaks = [run["device_peak_bytes"] for run in peaks]
        budget = int(max(peaks[1] // BUDGET_RATIO, 5 * largest_op_bytes(real) // 4))
        planned = [simulated(args, trace, hardware, budget) for trace in (dry, real)]
        planned = [run["step_ns"] / 1e9 for run in planned]
        run = planned_run(args, budget, program)
        rounds.append(compare(name, real, dry, peaks, planned, run))
    return combine(name, rounds)


def traces(args, name: str, program: list) -> tuple[dict, dict]:
    """Returns the traces of a real run and of a dry run after a new calibration."""
    accelerator = args.folder / "cpu.json"
    paths = [args.folder / f"{kind}-{name}.json.gz" for kind in ("real", "dry")]
    teraio("dry-run", "--calibrate", accelerator)
    budget = ["--device-budget", "100%", "--ssd", args.ssd]
    teraio("run", *budget, "--save-trace", paths[0], *program)
    teraio("dry-run", "--accelerator", accelerator, "--save-trace", paths[1], *program)
    return tuple(json.loads(gzip.decompress(path.read_bytes())) for path in paths)


def compare(
    name: str, real: dict, dry: dict, peaks: list[int], planned: list[float], run: list[float]
) -> list[dict]:
    """Returns the rows of one round.

    `peaks` and `planned` have the value of the dry trace and that of the real one, and `run` the
    step that a planned run predicted and the step that it measured.
    """
    return [
        same_ops(name, real, dry),
        row(f"{name}: peak", "bytes", *peaks, PEAK_ERROR_MAX),
        row(f"{name}: step", "s", step(dry), step(real), STEP_ERROR_MAX),
        row(f"{name}: planned step", "s", *planned, STEP_ERROR_MAX),
        row(f"{name}: planned step, of a real profile", "s", *run, PLANNED_ERROR_MAX),
    ]


def combine(name: str, rounds: list[list[dict]]) -> list[dict]:
    """Takes the worst round of ops and peak, which must be equal, and the median round of times."""
    by_measure = list(zip(*rounds, strict=True))
    rows = [max(found, key=lambda entry: abs(entry["ratio"] - 1)) for found in by_measure[:2]]
    rows += [sorted(found, key=lambda r: r["ratio"])[len(found) // 2] for found in by_measure[2:]]
    real_steps = [entry["reference"] for entry in by_measure[2]]
    label = f"{name}: real step, slowest / fastest round"
    drift = row(label, "s", max(real_steps), min(real_steps), DRIFT_MAX)
    if not drift["met"]:
        rows[2:] = [entry | {"met": None} for entry in rows[2:]]
    return [*rows, drift]


def same_ops(name: str, real: dict, dry: dict) -> dict:
    """Counts the ops that have the same name at the same place in both traces."""
    pairs = zip(real["ops"], dry["ops"], strict=False)
    equal = sum(r["name"] == d["name"] for r, d in pairs)
    return row(f"{name}: equal ops", "", equal, max(len(real["ops"]), len(dry["ops"])), 0)


def largest_op_bytes(trace: dict) -> int:
    """Returns the least budget that holds every op with its tensors."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    return max(
        sum(sizes[number] for number in (*op["reads"], *op["writes"])) + op["workspace_bytes"]
        for op in trace["ops"]
    )


def step(trace: dict) -> float:
    return sum(op["duration_ns"] for op in trace["ops"]) / 1e9


def simulated(args, trace: dict, hardware: Path, budget: int | str) -> dict:
    """Returns the prediction of `teraio simulate` for a trace under the plan for a budget."""
    path, plan = args.folder / "planned.json", args.folder / "plan.json"
    path.write_text(json.dumps(trace))
    given = ["--trace", path, "--hardware", hardware, "--device-budget", budget]
    given += ["--host-limit", "0"]
    teraio("plan", *given, "--out", plan)
    return json.loads(teraio("simulate", *given, "--plan", plan, "--json"))


def planned_run(args, budget: int, program: list) -> list[float]:
    """Runs under a plan; returns the predicted and the measured seconds of a step."""
    report = args.folder / "report"
    options = ["--device-budget", budget, "--ssd", args.ssd, "--report", report]
    teraio("run", *options, *program, "--steps", PLANNED_RUN_STEPS)
    run = json.loads((report / "run.json").read_text())
    planned = [entry["seconds"] for entry in run["steps"] if entry["mode"] == "planned"]
    if not planned:
        sys.exit(f"dry_run: no step of {' '.join(map(str, program))} was planned; see {report}")
    return [run["predicted_step_seconds"], median(planned)]


def row(name: str, unit: str, value: float, reference: float, error_max: float) -> dict:
    ratio = value / reference
    met = abs(ratio - 1) <= error_max
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "reference": reference,
        "ratio": ratio,
        "met": met,
    }


def show(rows: list[dict]) -> None:
    for entry in rows:
        verdict = {True: "met", False: "not met", None: "no verdict: the machine was too uneven"}[
            entry["met"]
        ]
        print(f"{entry['name']}: {entry['value']:.4g} against {entry['reference']:.4g} {verdict}")


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    hardware = args.folder / "hardware.json"
    teraio("probe", "--thorough", "--ssd", args.ssd, "--out", hardware)
    rows = []
    for name, program in programs(args).items():
        rows += measure(args, hardware, name, program)
    write_json(args.output / "dry_run.json", rows)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
