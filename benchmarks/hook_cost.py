#!/usr/bin/env python3
"""What the hooks cost per op, and what a session costs when there is nothing to do.

`add_` on four floats, bare and under a session whose budget holds everything, alternating in one
process; the figure is the difference of the medians. Leaves build/bench/hook_cost.json.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

import teraio

LIMIT_NS = 300


def op_ns(tensor, count):
    start = time.thread_time_ns()
    for _ in range(count):
        tensor.add_(1.0)
    return (time.thread_time_ns() - start) / count


def measure(rounds, count, ssd):
    tensor = torch.zeros(4)
    bare, hooked = [], []
    op_ns(tensor, count)
    for _ in range(rounds):
        bare.append(op_ns(tensor, count))
        with teraio.offload("1GB", ssd=ssd):
            op_ns(tensor, count // 10)
            hooked.append(op_ns(tensor, count))
    return statistics.median(bare), statistics.median(hooked)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--count", type=int, default=20_000, help="ops per round")
    parser.add_argument("--ssd", help="directory on a drive; default: the cache directory")
    parser.add_argument("--output", type=Path, default=Path("build/bench/hook_cost.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    bare_ns, hooked_ns = measure(args.rounds, args.count, args.ssd)
    result = {
        "name": "hook cost per op (ns), limit 300",
        "value": hooked_ns - bare_ns,
        "reference": bare_ns,
        "ratio": hooked_ns / bare_ns,
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps([result], indent=1) + "\n")
    print(f"bare {bare_ns:.0f} ns, hooked {hooked_ns:.0f} ns, cost {hooked_ns - bare_ns:.0f} ns")


if __name__ == "__main__":
    main()
