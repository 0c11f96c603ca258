#!/usr/bin/env python3
"""Whether a dry run foretells a real one: ops, peak, step time, and the planned step on drives.

Each model trains once for real with all the memory, and once dry on this machine's CPU as
`teraio dry-run --calibrate` has measured it. The planned step is that of `teraio plan` for the real
trace and for the dry one, on this machine's drive, with a third of the real run's peak or a quarter
more than its largest op needs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from llama.atomic import write_json

from teraio.dry_run.summary import memory_at_peak, read_trace

ROOT = Path(__file__).resolve().parents[1]
PEAK_ERROR_MAX = 0.02
STEP_ERROR_MAX = 0.10
PLANNED_ERROR_MAX = 0.05
BUDGET_RATIO = 3
TRAINING = Path(__file__).parent / "training"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--preset", default="130m", help="of the Llama")
    add("--small", action="store_true", help="the other models in sizes for tests")
    add("--data", type=Path)
    add("--ssd", type=Path)
    add("--cache", type=Path, default=ROOT / "build" / "demo" / "data")
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
    args = parser.parse_args(argv)
    args.folder = args.output.absolute() / "dry_run"
    args.ssd = (args.ssd or args.folder / "ssd").absolute()
    return args


def programs(args) -> dict[str, list]:
    """The command line of each model, by its name."""
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
    """What `teraio WORDS...` prints; its complaint ends the benchmark."""
    command = [sys.executable, "-m", "teraio", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"dry_run: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def measure(args, accelerator: Path, hardware: Path, name: str, program: list) -> list[dict]:
    print(f"{name}: for real, then dry", flush=True)
    real_path, dry_path = (args.folder / f"{kind}-{name}.json.gz" for kind in ("real", "dry"))
    budget = ["--device-budget", "100%", "--ssd", args.ssd]
    teraio("run", *budget, "--save-trace", real_path, *program)
    teraio("dry-run", "--accelerator", accelerator, "--save-trace", dry_path, *program)
    return compare(name, real_path, dry_path, hardware)


def compare(name: str, real_path: Path, dry_path: Path, hardware: Path) -> list[dict]:
    real, dry = read_trace(real_path), read_trace(dry_path)
    rows = [same_ops(name, real, dry)]
    rows.append(row(f"{name}: peak", "bytes", peak(dry), peak(real), PEAK_ERROR_MAX))
    rows.append(row(f"{name}: step", "s", step(dry), step(real), STEP_ERROR_MAX))
    budget = max(peak(real) // BUDGET_RATIO, 5 * largest_op_bytes(real) // 4)
    planned = [planned_step(path, hardware, budget) for path in (dry_path, real_path)]
    rows.append(row(f"{name}: planned step", "s", *planned, PLANNED_ERROR_MAX))
    return rows


def same_ops(name: str, real: dict, dry: dict) -> dict:
    """Of the real ops, how many are at the same place in the dry run."""
    pairs = zip(real["ops"], dry["ops"], strict=False)
    equal = sum(r["name"] == d["name"] for r, d in pairs)
    return row(f"{name}: equal ops", "", equal, max(len(real["ops"]), len(dry["ops"])), 0)


def peak(trace: dict) -> int:
    kinds, _ = memory_at_peak(trace)
    return sum(size_bytes for _, size_bytes in kinds)


def largest_op_bytes(trace: dict) -> int:
    """No budget below this holds the op and its tensors."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    return max(
        sum(sizes[number] for number in (*op["reads"], *op["writes"])) + op["workspace_bytes"]
        for op in trace["ops"]
    )


def step(trace: dict) -> float:
    return sum(op["duration_ns"] for op in trace["ops"]) / 1e9


def planned_step(trace: Path, hardware: Path, budget: int) -> float:
    plan = trace.with_name("plan.json")
    given = ["--trace", trace, "--hardware", hardware, "--device-budget", budget]
    given += ["--host-limit", "0"]
    teraio("plan", *given, "--out", plan)
    return json.loads(teraio("simulate", *given, "--plan", plan, "--json"))["step_ns"] / 1e9


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
        verdict = "met" if entry["met"] else "not met"
        print(f"{entry['name']}: {entry['value']:.4g} against {entry['reference']:.4g} {verdict}")


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    accelerator, hardware = args.folder / "cpu.json", args.folder / "hardware.json"
    teraio("dry-run", "--calibrate", accelerator)
    teraio("probe", "--ssd", args.ssd, "--out", hardware)
    rows = []
    for name, program in programs(args).items():
        rows += measure(args, accelerator, hardware, name, program)
    write_json(args.output / "dry_run.json", rows)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
