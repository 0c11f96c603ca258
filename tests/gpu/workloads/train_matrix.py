#!/usr/bin/env python3
"""Trains jobs of the matrix of tests/python on a GPU, emulated or not, and compares every bit.

    train_matrix.py --stress "llama, AdamW" "llama, compiled"

Each job trains on stock PyTorch, within an ample budget, and within half of its peak; with --stress
also with everything evicted after every op, and with everything discarded. Prints "JOB: equal bits"
or what differs. The exit status is 1 when something does.
"""

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "programs"))

from matrix import budgets, catalogue, jobs

AMPLE = "2GB"
FUSED = catalogue.JOBS["llama, fused AdamW, schedule"]
JOBS = catalogue.JOBS | {"llama, compiled": FUSED.but(compiles=True)}


def differences(job, stress, within):
    """The ways in which the job does not give the bits of stock PyTorch."""
    jobs.train(job)  # the emulated operators learn the shapes of their results
    expected = jobs.train(job)
    outcome, session = within(job, AMPLE)
    peak_bytes = max(iteration["device_peak_bytes"] for iteration in session.iterations())
    if outcome != expected:
        yield "with an ample budget"
    outcome, session = within(job, peak_bytes // 2)
    if outcome != expected:
        yield "within half of the peak"
    if session.counters()["ssd_bytes_read"] == 0:
        yield "nothing moved"
    if stress:
        outcome, _ = within(job, peak_bytes, evict_after_every_op=True)
        if outcome != expected:
            yield "with everything evicted"
        outcome, _ = within(job, 2 * peak_bytes, discard_after_every_op=True)
        if outcome != expected:
            yield "with everything discarded"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stress", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ssd", default=".", help="a directory on a drive")
    parser.add_argument("jobs", nargs="+", choices=JOBS, metavar="JOB")
    options = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # With warn_only, the backward passes of fused attention stay nondeterministic.
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.set_num_threads(1)
    budgets.settle_kernels()
    torch.set_default_device(options.device)
    has_failed = False
    with tempfile.TemporaryDirectory(dir=options.ssd) as ssd:
        within = partial(budgets.train_within, device=options.device, ssd=ssd)
        for name in options.jobs:
            found = list(differences(JOBS[name], options.stress, within))
            has_failed |= bool(found)
            print(f"{name}: {'differs ' + ', '.join(found) if found else 'equal bits'}", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
