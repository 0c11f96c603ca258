#!/usr/bin/env python3
"""Measures what a session costs the threads that enqueue a training, by the CPU time of a step.

A GPU that is faster than the host waits for it, so that all that the host does per op counts. Here
an emulated GPU (testing/cuda_emulation) runs nothing while a step is enqueued. The training has as
many ops as the one in bf16 that is measured on GPUs, over tensors as small as a session manages,
and a budget that holds all of them. Unlike hook_cost.py, it runs many kinds of ops, each with the
ops inside of it, and what they use is no longer in the nearest caches.

Arms alternate, each in a process of its own: stock PyTorch, and the package of each PYTHONPATH that
is given, to compare two builds. All must have the same bits. Writes enqueue_cost.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import ENVIRONMENT, ArmFailed, tail
from llama.atomic import write_json
from measures.rows import row

ROOT = Path(__file__).resolve().parents[1]
# Nothing runs before the program waits, which it does at the end of a step.
SETTINGS = {"TERAIO_EMULATED_CUDA_LAZY": "1", "TERAIO_EMULATED_CUDA_LAUNCH_QUEUE": "1000000"}
STOCK = "stock"


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("packages", nargs="*", default=[str(ROOT / "build" / "python")], metavar="PYTHONPATH")
    add("--job", default="1b-narrow")
    add("--precision", default="bf16")
    add("--rounds", type=int, default=3)
    add("--steps", type=int, default=16, help="of an arm; the fastest of the last ones counts")
    add("--output", type=Path, default=Path("build/bench"))
    return parser.parse_args(argv)


def run_arm(args, arm: str) -> dict:
    """Returns the record of measure_training.py. `arm`: STOCK, or the PYTHONPATH of a package."""
    folder = args.output.resolve() / "enqueue_cost"
    folder.mkdir(parents=True, exist_ok=True)
    command = [ROOT / "testing" / "cuda_emulation" / "run", sys.executable]
    command += [ROOT / "tests" / "gpu" / "workloads" / "measure_training.py", "--job", args.job]
    command += ["--precision", args.precision, "--steps", args.steps, "--ssd", folder / "ssd"]
    command += ["--cache", ROOT / "build" / "demo" / "data"]
    environment = {**os.environ, **ENVIRONMENT, **SETTINGS, "OMP_NUM_THREADS": "1"}
    if arm != STOCK:
        environment["PYTHONPATH"] = arm
    request = {"arm": STOCK if arm == STOCK else "ample"}
    log = folder / "errors.log"
    with log.open("wb") as errors:
        done = subprocess.run(
            list(map(str, command)),
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
    record = json.loads(done.stdout or "{}")
    if done.returncode != 0 or record["outcome"] != "done":
        raise ArmFailed(f"{arm} ended with {done.returncode}; {log}:\n{tail(log)}")
    return record


def run_rounds(args) -> dict[str, list[dict]]:
    """Raises ArmFailed when an arm fails or has other bits than stock PyTorch."""
    records = {arm: [] for arm in (STOCK, *args.packages)}
    for _ in range(args.rounds):
        for arm, of_arm in records.items():
            of_arm.append(run_arm(args, arm))
            bits = [of_arm[-1]["losses"], of_arm[-1]["state"]]
            if bits != [records[STOCK][0]["losses"], records[STOCK][0]["state"]]:
                raise ArmFailed(f"{arm}: other bits than {STOCK}")
    return records


def seconds_of(record: dict) -> float:
    """Of the fastest step: what disturbs one makes it slower."""
    threads = ("main_thread_ns", "autograd_thread_ns")
    return min(sum(step.get(name, 0) for name in threads) for step in record["changes"]) / 1e9


def main(argv=None) -> int:
    args = parse_arguments(argv)
    try:
        records = run_rounds(args)
    except ArmFailed as error:
        print(f"enqueue_cost: {error}", file=sys.stderr)
        return 1
    seconds = {arm: [seconds_of(record) for record in of_arm] for arm, of_arm in records.items()}
    stock_seconds = median(seconds[STOCK])
    rows = []
    for arm in args.packages:
        op_count = records[arm][0]["changes"][-1]["ops"]
        cost_us = (median(seconds[arm]) - stock_seconds) / op_count * 1e6
        listed = ", ".join(f"{each * 1e3:.0f}" for each in seconds[arm])
        print(f"{arm}: steps {listed} ms of CPU time, {cost_us:.2f} us more per op")
        rows.append(row(f"enqueueing, {arm}", median(seconds[arm]), stock_seconds, None))
    listed = ", ".join(f"{each * 1e3:.0f}" for each in seconds[STOCK])
    print(f"{STOCK}: steps {listed} ms; an op {stock_seconds / op_count * 1e6:.2f} us")
    write_json(args.output / "enqueue_cost.json", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
