#!/usr/bin/env python3
"""Compares predicted steps with measured ones, for programs of many kinds on this machine's CPU.

A step is predicted twice, and nothing is calibrated on the program: by a dry run alone, and from a
trace of the same program on another machine, which is this CPU with one thread. There, the measured
time of each op is multiplied by the ratio of its times in dry runs for both. Stock PyTorch gives
the measured step, the median of its later steps. Ops and peaks are compared with the trace.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from llama.atomic import write_json
from measures.rows import row
from training.kinds import KINDS

# The errors of others, of predictions for another GPU (Habitat, USENIX ATC 2021) and of simulations
# of a cluster (Proteus, arXiv 2306.02267). Both are means.
HABITAT, PROTEUS = 0.118, 0.03
PEAK_ERROR_MAX = 0.02
PROGRAM = Path(__file__).parent / "training" / "kinds.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--kinds", choices=KINDS, nargs="+", default=list(KINDS))
    add("--small", action="store_true", help="models of test size")
    add("--output", type=Path, default=Path("build/bench"))
    args = parser.parse_args(argv)
    args.folder = args.output.absolute() / "dry_run"
    (args.folder / "ssd").mkdir(parents=True, exist_ok=True)
    return args


def printed_by(*words, environment=None) -> str:
    """Returns what a Python command prints; ends the benchmark when it fails."""
    command = [sys.executable, *map(str, words)]
    variables = os.environ | (environment or {})
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    if done.returncode:
        sys.exit(f"dry_run: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def trace_of(args, program: list, *command, environment=None) -> dict:
    """Returns the trace that a command of TERAIO saves of a program."""
    path = args.folder / "trace.json.gz"
    words = ["-m", "teraio", *command, "--save-trace", path, *program]
    printed_by(*words, environment=environment)
    return json.loads(gzip.decompress(path.read_bytes()))


def compare(args, kind: str) -> list[dict]:
    """Returns the rows of a kind of program."""
    program = [PROGRAM, kind, *(["--small"] if args.small else [])]
    here, alone = (
        trace_of(args, program, "dry-run", "--accelerator", args.folder / f"{name}.json")
        for name in ("here", "alone")
    )
    run = ("run", "--device-budget", "100%", "--ssd", args.folder / "ssd")
    measured = trace_of(args, program, *run, environment=ONE_THREAD)
    seconds = json.loads(printed_by(*program).splitlines()[-1])
    step = median(seconds[len(seconds) // 2 :])
    peaks = [peak_bytes(trace) for trace in (here, measured)]
    return [
        row(f"{kind}: equal ops", *equal_ops(here, measured), None),
        row(f"{kind}: peak", *peaks, abs(peaks[0] / peaks[1] - 1) <= PEAK_ERROR_MAX),
        row(f"{kind}: step, of a dry run", sum(durations(here)) / 1e9, step, None),
        row(f"{kind}: step, of another machine", moved(measured, alone, here) / 1e9, step, None),
    ]


def equal_ops(a: dict, b: dict) -> tuple[int, int]:
    """Returns how many ops have the same name at the same place in both traces, and of how many."""
    pairs = zip(a["ops"], b["ops"], strict=False)
    return sum(x["name"] == y["name"] for x, y in pairs), max(len(a["ops"]), len(b["ops"]))


def durations(trace: dict) -> list[int]:
    return [op["duration_ns"] for op in trace["ops"]]


def moved(measured: dict, there: dict, here: dict) -> float:
    """Returns the nanoseconds of a step here, given its trace on another machine and dry runs for
    that machine and for this one."""
    times = [durations(trace) for trace in (measured, there, here)]
    if len({len(each) for each in times}) > 1:  # ops cannot be told apart: the step as a whole
        times = [[sum(each)] for each in times]
    return sum(m * h / max(t, 1) for m, t, h in zip(*times, strict=True))


def peak_bytes(trace: dict) -> int:
    """Returns the most bytes that the tensors of a trace, and the memory of an op, take."""
    sizes = {tensor["id"]: tensor["bytes"] for tensor in trace["tensors"]}
    alive = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    size = peak = sum(sizes[number] for number in alive)
    for op in trace["ops"]:
        new = {*op["reads"], *op["writes"]} - alive
        gone = (alive | new) & {*op["frees"]}
        size += sum(sizes[number] for number in new)
        peak = max(peak, size + op["workspace_bytes"])
        size -= sum(sizes[number] for number in gone)
        alive = (alive | new) - gone
    return peak


def errors_of(rows: list[dict], prediction: str, anchor: float) -> list[dict]:
    """Returns the rows of the errors' distribution over all kinds, beside an error of others."""
    errors = [abs(each["ratio"] - 1) for each in rows if each["name"].endswith(prediction)]
    ninth = quantiles(errors, n=10, method="inclusive")[-1] if len(errors) > 1 else errors[0]
    figures = {"median": median(errors), "90th percentile": ninth, "largest": max(errors)}
    return [row(f"error, {prediction}: {name}", e, anchor, None) for name, e in figures.items()]


def main(argv=None) -> int:
    args = parse_arguments(argv)
    for name, environment in (("here", {}), ("alone", ONE_THREAD)):
        path = args.folder / f"{name}.json"
        printed_by("-m", "teraio", "dry-run", "--calibrate", path, environment=environment)
    rows = []
    for kind in args.kinds:
        print(f"{kind}: dry, traced with one thread, measured", flush=True)
        rows += compare(args, kind)
    rows += errors_of(rows, "step, of a dry run", PROTEUS)
    rows += errors_of(rows, "step, of another machine", HABITAT)
    write_json(args.output / "dry_run.json", rows)
    for each in rows:
        print(f"{each['name']}: {each['value']:.4g} against {each['reference']:.4g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
