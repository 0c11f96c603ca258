#!/usr/bin/env python3
"""Measures the cost of the hooks per op, in a session whose budget holds everything.

In-place adds on four floats run bare and in a session, alternating in one process; a figure is the
difference of the medians. The session has profiled the iteration before and follows its plan, as in
the middle of a training. `x.add_(y)` is one op. `x.add_(1.0)` is five ops that the hooks see,
because the number becomes a tensor, which is converted, which copies it into a new tensor; its
figure is a fifth of the difference. Writes build/bench/hook_cost.json.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

import teraio

LIMIT_NS = 300
OPS_OF_ADDING_A_NUMBER = 5
ITERATIONS = 8  # until the plan is refined, and two more


def iteration_ns(call, count, optimizer):
    """Returns the CPU time of this thread per call in an iteration of `count` calls, in ns."""
    start = time.thread_time_ns()
    for _ in range(count):
        call()
    elapsed = time.thread_time_ns() - start
    optimizer.step()
    return elapsed / count


def measure(call, rounds, count, ssd):
    """Returns the medians of the bare and of the hooked call, in ns."""
    optimizer = torch.optim.SGD([torch.zeros(4, requires_grad=True)])
    bare, hooked = [], []
    for _ in range(rounds):
        bare += [iteration_ns(call, count, optimizer) for _ in range(ITERATIONS)][-2:]
        with teraio.offload("1GB", ssd=ssd):
            hooked += [iteration_ns(call, count, optimizer) for _ in range(ITERATIONS)][-2:]
    return statistics.median(bare), statistics.median(hooked)


def row(name, op_count, bare_ns, hooked_ns):
    cost_ns = (hooked_ns - bare_ns) / op_count
    print(f"{name}: bare {bare_ns:.0f} ns, hooked {hooked_ns:.0f} ns, {cost_ns:.0f} ns per op")
    return {
        "name": f"hook cost per op, {name}",
        "value": cost_ns,
        "unit": "ns",
        "reference": LIMIT_NS,
        "ratio": cost_ns / LIMIT_NS,
        "bare_ns": bare_ns,
        "hooked_ns": hooked_ns,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000, help="calls per iteration")
    parser.add_argument("--ssd", help="directory on a drive (default: the cache directory)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/hook_cost.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    x, y = torch.zeros(4), torch.zeros(4)
    options = (args.rounds, args.count, args.ssd)
    rows = [
        row("x.add_(y)", 1, *measure(lambda: x.add_(y), *options)),
        row("x.add_(1.0)", OPS_OF_ADDING_A_NUMBER, *measure(lambda: x.add_(1.0), *options)),
    ]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
