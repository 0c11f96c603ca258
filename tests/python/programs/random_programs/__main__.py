"""python -m random_programs [--seed N] [--count N]: tries seeds and prints what differs."""

import argparse
import collections
import sys

import torch
from matrix import budgets

from random_programs import trials

parser = argparse.ArgumentParser(prog="random_programs")
parser.add_argument("--seed", type=int, default=0, help="the first seed")
parser.add_argument("--count", type=int, default=1)
arguments = parser.parse_args()

budgets.settle_kernels()
torch.set_num_threads(1)
results = collections.Counter()
for seed in range(arguments.seed, arguments.seed + arguments.count):
    words = trials.report(seed)
    kind = "equal" if not words else "failed" if trials.is_failure(words) else "refused"
    results[kind] += 1
    if words:
        print(words if kind == "failed" else f"seed {seed}: {words}", flush=True)
print(f"seeds {arguments.seed} to {seed}: {dict(results)}")
sys.exit(results["failed"] > 0)
