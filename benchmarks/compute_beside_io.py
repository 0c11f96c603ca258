#!/usr/bin/env python3
"""Measures what I/O takes from compute on this machine, whoever makes it.

One process per core multiplies matrices that stay in the core's first caches, so that it needs
neither memory nor the other cores, while fio moves bytes at given rates. Rounds alternate between
compute alone and beside fio; a figure is the median of all rounds. Writes compute_beside_io.json.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

import torch
from drives.traffic import TrafficFailed, fio_traffic
from llama.atomic import write_json
from recompute import row

ROWS_OF_A_MATRIX = 48  # three of them in float32 take 28 kB
CALLS_BETWEEN_LOOKS = 200  # at the clock


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--read", type=float, default=0.4, help="GB/s that fio reads")
    add("--write", type=float, default=0.25, help="GB/s that fio writes")
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=5, help="of each measurement")
    add("--ssd", type=Path)
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
    args = parser.parse_args(argv)
    args.ssd = args.ssd or args.output / "compute_beside_io" / "ssd"
    return args


def multiply(core: int, seconds: float) -> float:
    """Returns the multiplications per second on one core. Pins the process to the core."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    left, right, product = (torch.ones(ROWS_OF_A_MATRIX, ROWS_OF_A_MATRIX) for _ in range(3))
    calls = 0
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        for _ in range(CALLS_BETWEEN_LOOKS):
            torch.mm(left, right, out=product)
        calls += CALLS_BETWEEN_LOOKS
    return calls / elapsed


def measure(args) -> tuple[list[float], list[float]]:
    """Returns the multiplications per second of the slowest core, a figure per round, alone and
    beside fio. An op of several threads takes as long as its slowest one."""
    cores = sorted(os.sched_getaffinity(0))
    alone, beside = [], []
    with ProcessPoolExecutor(len(cores)) as pool:

        def slowest(seconds: float) -> float:
            return min(pool.map(multiply, cores, [seconds] * len(cores)))

        slowest(1)  # the processes start
        for _ in range(args.rounds):
            alone.append(slowest(args.seconds))
            with fio_traffic([args.ssd], args.read * 1e9, args.write * 1e9) as traffic:
                beside.append(slowest(args.seconds))
            print(
                f"{beside[-1] / alone[-1]:.3f} of compute alone, while fio read "
                f"{traffic.read_bytes_per_second / 1e9:.2f} and wrote "
                f"{traffic.written_bytes_per_second / 1e9:.2f} GB/s"
            )
    return alone, beside


def main(argv=None) -> int:
    args = parse_arguments(argv)
    args.ssd.mkdir(parents=True, exist_ok=True)
    try:
        alone, beside = measure(args)
    except TrafficFailed as error:
        print(f"compute_beside_io: {error}", file=sys.stderr)
        return 1
    entry = row("compute beside fio / alone", median(beside), median(alone), None)
    write_json(args.output / "compute_beside_io.json", [entry])
    print(f"{entry['name']}: {entry['ratio']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
