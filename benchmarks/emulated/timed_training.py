#!/usr/bin/env python3
"""Trains one arm on an emulated GPU, and prints what enqueueing its steps took as a line of JSON.

Arms are those of tests/gpu/workloads/measure_training.py: stock, which is PyTorch without teraio,
and ample. Run it by testing/cuda_emulation/run.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "workloads"))

import jobs
import torch
from fingerprint import state_fingerprint
from measure_training import options_of, own_standard_output
from pretrain_llama import build_model, build_optimizer, build_schedule, train_step


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_measuring_options(parser)
    parser.add_argument("--arm", default="stock")
    return parser.parse_args(argv)


def enqueue_seconds() -> float:
    """The CPU time of the threads that enqueue ops."""
    return sum(jobs.enqueueing_ns().values()) / 1e9


def train(args, session) -> dict:
    """Trains; returns the CPU seconds of each step, what must be equal, and the session's steps."""
    config = jobs.config_of(args)
    batches = jobs.batches_of(args, config)
    enqueued, losses = [], []
    with session or contextlib.nullcontext():
        model = build_model(args, config)
        optimizer = build_optimizer(args, model)
        state = (args, model, optimizer, build_schedule(args, optimizer), batches)
        for _ in range(args.steps):
            torch.cuda.synchronize()
            before = enqueue_seconds()
            losses.append(train_step(*state).hex())
            enqueued.append(enqueue_seconds() - before)
            print(f"{enqueued[-1]:.3f} s", flush=True)
        iterations = session.iterations() if session else []
    state_hash = state_fingerprint(model, optimizer)
    record = {"enqueue_seconds": enqueued, "iterations": iterations}
    return record | {"losses": losses, "state": state_hash}


def main(argv=None) -> None:
    options = parse_arguments(argv)
    with own_standard_output() as reply:
        jobs.settle()
        args = jobs.training_options(options)
        session = None
        if options.arm != "stock":
            import teraio

            chosen = options_of(options, options.arm, None)
            session = teraio.offload(device="cuda", **chosen)
        reply.write(json.dumps(train(args, session)) + "\n")


if __name__ == "__main__":
    main()
