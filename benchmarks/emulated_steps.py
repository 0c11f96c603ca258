#!/usr/bin/env python3
"""Measures training on an emulated GPU that has rates, beside what the simulator predicts.

The GPU (testing/cuda_emulation) does real work at the rates of an H100 over --slowdown: arithmetic
in fp32, memory, and the link. The link is --link times as fast as that, which stands for as many
times more tokens per step: they need more arithmetic for each byte that moves. The host is not
slower, so that its time per op counts for less than beside an H100. Arms on drives have one that
the kernel limits to the rate of --drives drives, slowed down as the link is; that needs root. Each
arm is a process of its own; ideal is stock PyTorch on the same GPU. All arms must have the same
bits. Writes emulated_steps.json.

The CPU does the work of the GPU. Where it is slower than the rates ask for, work is late; on a busy
machine that is much, and figures say little.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from arms.arm import ENVIRONMENT, ArmFailed, tail
from drives.limited import Unavailable, limited_drives
from llama.atomic import write_json
from measures.rows import PREDICTION_ERROR_MAX, row

ROOT = Path(__file__).resolve().parents[1]
MEASURED_STEPS = 3  # of an arm, the last ones
# An H100 with a link of PCIe 5: https://www.nvidia.com/en-us/data-center/h100
FLOPS_PER_SECOND, MEMORY_BYTES_PER_SECOND, LINK_BYTES_PER_SECOND = 67e12, 3.35e12, 55e9
# Tensors are small, too: with the 2 MiB of a GPU, parts of pages would be a fifth of the memory.
GRANULARITY_BYTES = 64 << 10
DRIVE_BYTES_PER_SECOND = 7e9  # of PCIe 4, reading
DRIVE_SIZE_BYTES = 4 << 30
ARMS = ("stock", "ample", "host-2", "host-3", "ssd-2")


@dataclass(frozen=True)
class ArmResult:
    """What timed_training.py tells of an arm."""

    name: str
    record: dict

    def per_step(self, *path: str) -> float:
        """The median of a figure of the measured steps."""
        return median(_at(step, path) for step in self.record["steps"][-MEASURED_STEPS:])

    @property
    def seconds(self) -> float:
        return self.per_step("seconds")

    @property
    def bits(self) -> tuple:
        return tuple(self.record["losses"]), self.record["state"]


def _at(value, path):
    for name in path:
        value = value[name]
    return value


def parse_arguments(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--arms", nargs="+", default=ARMS, help="of timed_training.py; the first two are needed")
    add("--job", default="17m")
    add("--steps", type=int, default=10)
    add("--slowdown", type=float, default=3000, help="of an H100")
    add("--link", type=float, default=4, help="how many times as fast the link is made")
    add("--drives", type=float, default=4, help="how many drives the one of an arm stands for")
    add("--output", type=Path, default=Path(os.environ.get("TERAIO_BENCH_DIR", "build/bench")))
    return parser.parse_args(argv)


def environment_of(args) -> dict[str, str]:
    rates = {
        "FLOPS": FLOPS_PER_SECOND,
        "MEMORY_BYTES": MEMORY_BYTES_PER_SECOND,
        "LINK_BYTES": LINK_BYTES_PER_SECOND * args.link,
    }
    settings = {
        f"TERAIO_EMULATED_CUDA_{name}_PER_SECOND": str(round(rate / args.slowdown))
        for name, rate in rates.items()
    }
    settings["TERAIO_EMULATED_CUDA_GRANULARITY_BYTES"] = str(GRANULARITY_BYTES)
    return {**os.environ, **ENVIRONMENT, **settings, "OMP_NUM_THREADS": "1"}


@contextlib.contextmanager
def drive_of(args, arm: str, folder: Path):
    """Yields the directory of the arm's drive, and a prefix of the command that uses it."""
    if not arm.startswith("ssd"):
        yield folder / "ssd", []
        return
    rate = round(args.drives * DRIVE_BYTES_PER_SECOND * args.link / args.slowdown)
    with (
        tempfile.TemporaryDirectory(dir=folder) as made,
        limited_drives(made, [rate], DRIVE_SIZE_BYTES) as (directories, prefix),
    ):
        # A run remembers the rates that it has measured; those of this drive are not for others.
        yield directories[0], [*prefix, "env", f"XDG_CACHE_HOME={made}"]


def run_arm(args, arm: str, peak_bytes: int | None) -> ArmResult:
    folder = args.output.resolve() / "emulated_steps"
    command = [ROOT / "testing" / "cuda_emulation" / "run", sys.executable]
    command += [ROOT / "benchmarks" / "emulated" / "timed_training.py", "--arm", arm]
    command += ["--job", args.job, "--steps", args.steps]
    command += ["--cache", ROOT / "build" / "demo" / "data"]
    command += ["--peak-bytes", peak_bytes] if peak_bytes else []
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{arm}.log"
    with log.open("wb") as errors, drive_of(args, arm, folder) as (drive, prefix):
        done = subprocess.run(
            list(map(str, [*prefix, *command, "--ssd", drive])),
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment_of(args),
        )
    if done.returncode != 0:
        raise ArmFailed(f"{arm} ended with {done.returncode}; {log}:\n{tail(log)}")
    (folder / f"{arm}.json").write_bytes(done.stdout)
    return ArmResult(arm, json.loads(done.stdout))


def run_arms(args) -> list[ArmResult]:
    """Raises ArmFailed when an arm fails or has other bits than the first."""
    results, peak_bytes = [], None
    for arm in args.arms:
        try:
            results.append(run_arm(args, arm, peak_bytes))
        except Unavailable as error:
            print(f"{arm} is left out: {error}", file=sys.stderr)
            continue
        if arm == "ample":
            peak_bytes = results[-1].record["peak_bytes"]
        if results[-1].bits != results[0].bits:
            raise ArmFailed(f"{arm}: other bits than {results[0].name}")
    return results


def rows_of(result: ArmResult, ideal_seconds: float) -> list[dict]:
    """The rows of an arm in emulated_steps.json."""
    seconds = result.seconds
    compute_seconds = result.per_step("units", "compute")
    rows = [row("fraction of ideal", ideal_seconds, seconds, None)]
    if prediction := result.record.get("prediction"):
        predicted = prediction["step_ns"] / 1e9
        met = abs(predicted / seconds - 1) <= PREDICTION_ERROR_MAX
        rows.append(row("predicted step / measured", predicted, seconds, met))
        rows.append(row("bound / measured", prediction["bound_ns"] / 1e9, seconds, None))
    rows.append(row("GPU idle, of the step", seconds - compute_seconds, seconds, None))
    rows.append(row("late, of compute", result.per_step("units", "compute late"), seconds, None))
    if result.name != "stock":
        rows.append(row("pages mapped", result.per_step("mapped_pages"), 0, None))
    for unit in ("copy in", "copy out"):
        rows.append(row(f"{unit}, of the step", result.per_step("units", unit), seconds, None))
    for count in ("num_alloc_retries", "num_device_alloc", "num_device_free"):
        rows.append(row(count, result.per_step("allocator", count), 0, None))
    return [entry | {"name": f"{result.name}: {entry['name']}"} for entry in rows]


def main(argv=None) -> int:
    args = parse_arguments(argv)
    try:
        results = run_arms(args)
    except ArmFailed as error:
        print(f"emulated_steps: {error}", file=sys.stderr)
        return 1
    rows = [entry for result in results for entry in rows_of(result, results[0].seconds)]
    write_json(args.output / "emulated_steps.json", rows)
    for entry in rows:
        verdict = {True: "  met", False: "  MISSED", None: ""}[entry["met"]]
        ratio = "" if entry["ratio"] is None else f": {entry['ratio']:.3f}"
        print(f"{entry['name']}: {entry['value']:.3f}{ratio}{verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
