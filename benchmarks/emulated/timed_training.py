#!/usr/bin/env python3
"""Trains one arm on an emulated GPU with rates, and prints what its steps took as a line of JSON.

Arms are those of tests/gpu/workloads/measure_training.py: stock, ample, host-2, ssd-3 and others;
stock is PyTorch without teraio. Run it by testing/cuda_emulation/run.
"""

import argparse
import contextlib
import ctypes
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu" / "workloads"))

import jobs
import torch
from fingerprint import state_fingerprint
from measure_training import options_of, own_standard_output
from memory_watch import COUNTED
from pretrain_llama import build_model, build_optimizer, build_schedule, train_step

UNITS = ("compute", "copy in", "copy out")


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    jobs.add_measuring_options(parser)
    parser.add_argument("--arm", default="stock")
    parser.add_argument("--peak-bytes", type=int, help="of the training, for arms with a budget")
    return parser.parse_args(argv)


def emulated_seconds() -> dict[str, float]:
    """For each unit of the GPU, the time that it has worked and that the CPU was late for it."""
    runtime = ctypes.CDLL(None)
    found = {}
    for unit in UNITS:
        busy, late = ctypes.c_uint64(), ctypes.c_uint64()
        runtime.cudaEmulatedTimes(0, unit.encode(), ctypes.byref(busy), ctypes.byref(late))
        found |= {unit: busy.value / 1e9, f"{unit} late": late.value / 1e9}
    return found


def enqueue_seconds() -> float:
    """The CPU time of the threads that enqueue ops."""
    return sum(jobs.enqueueing_ns().values()) / 1e9


def allocator_counts() -> dict[str, int]:
    counts = torch.cuda.memory_stats()
    return {name: counts.get(name, 0) for name in COUNTED}


def mapped_page_count() -> int:
    """How often pages of the GPU were mapped: by a session only."""
    return ctypes.CDLL(None).cudaEmulatedCalls(b"cuMemMap")


def session_counts(session) -> dict[str, int]:
    names = ("relocations", "relocated_bytes", "on_demand_offloads", "on_demand_drops")
    counters = session.counters() if session else {}
    return {name: counters.get(name, 0) for name in names}


def difference(later: dict, earlier: dict) -> dict:
    return {name: later[name] - earlier[name] for name in later}


def train(args, session) -> dict:
    """Trains, and returns a record with one entry per step in each of its lists."""
    config = jobs.config_of(args)
    batches = jobs.batches_of(args, config)
    steps, losses = [], []
    with session or contextlib.nullcontext():
        model = build_model(args, config)
        optimizer = build_optimizer(args, model)
        state = (args, model, optimizer, build_schedule(args, optimizer), batches)
        for _ in range(args.steps):
            torch.cuda.synchronize()
            units, counts, enqueued = emulated_seconds(), allocator_counts(), enqueue_seconds()
            mapped, moved = mapped_page_count(), session_counts(session)
            began = time.perf_counter()
            losses.append(train_step(*state).hex())
            enqueued = enqueue_seconds() - enqueued
            torch.cuda.synchronize()
            seconds = time.perf_counter() - began
            step = {"seconds": seconds, "enqueue_seconds": enqueued}
            step["mapped_pages"] = mapped_page_count() - mapped
            step |= difference(session_counts(session), moved)
            step["units"] = difference(emulated_seconds(), units)
            steps.append(step | {"allocator": difference(allocator_counts(), counts)})
            print(f"{seconds:.3f} s", flush=True)
        session_record = record_of(session) if session else {"peak_bytes": None}
    state_hash = state_fingerprint(model, optimizer)
    return {"steps": steps, "losses": losses, "state": state_hash} | session_record


def record_of(session) -> dict:
    iterations = session.iterations()
    return {
        "peak_bytes": max(iteration["device_peak_bytes"] for iteration in iterations),
        "iterations": iterations,
        "prediction": session.prediction(),
    }


def main(argv=None) -> None:
    options = parse_arguments(argv)
    with own_standard_output() as reply:
        jobs.settle()
        args = jobs.training_options(options)
        session = None
        if options.arm != "stock":
            import teraio

            chosen = options_of(options, options.arm, options.peak_bytes)
            session = teraio.offload(device="cuda", **chosen)
        reply.write(json.dumps(train(args, session)) + "\n")


if __name__ == "__main__":
    main()
