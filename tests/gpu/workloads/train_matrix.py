#!/usr/bin/env python3
"""Trains jobs of the matrix on a GPU, emulated or not: `train_matrix.py [--stress] JOB...`.

Each job trains on stock PyTorch, within an ample budget, and within half of its peak; with --stress
also with everything evicted after every op. Prints "JOB: equal bits" or what differs. The exit
status is 1 when something does.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "programs"))

from matrix import budgets, catalogue, jobs

AMPLE = "2GB"


def train_within(job, budget, **options):
    with tempfile.TemporaryDirectory(dir=".") as ssd:
        return budgets.train_within(job, budget, device="cuda", ssd=ssd, **options)


def differences(job, stress):
    """The ways in which the job does not give the bits of stock PyTorch."""
    jobs.train(job)  # the emulated operators learn the shapes of their results
    expected = jobs.train(job)
    outcome, session = train_within(job, AMPLE)
    peak_bytes = max(iteration["device_peak_bytes"] for iteration in session.iterations())
    if outcome != expected:
        yield "with an ample budget"
    outcome, session = train_within(job, peak_bytes // 2)
    if outcome != expected:
        yield "within half of the peak"
    if session.counters()["ssd_bytes_read"] == 0:
        yield "nothing moved"
    if stress:
        outcome, _ = train_within(job, peak_bytes, evict_after_every_op=True)
        if outcome != expected:
            yield "with everything evicted"
        outcome, _ = train_within(job, 2 * peak_bytes, discard_after_every_op=True)
        if outcome != expected:
            yield "with everything discarded"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stress", action="store_true")
    parser.add_argument("jobs", nargs="+")
    options = parser.parse_args()
    torch.set_num_threads(1)
    budgets.settle_kernels()
    torch.set_default_device("cuda")
    has_failed = False
    for name in options.jobs:
        found = list(differences(catalogue.JOBS[name], options.stress))
        has_failed |= bool(found)
        print(f"{name}: {'differs ' + ', '.join(found) if found else 'equal bits'}", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
