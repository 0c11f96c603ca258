#!/usr/bin/env python3
"""Compares the path of the engine to a drive with fio on the same directory, in turns.

Each round measures fio (io_uring, direct, 1 MiB, depth 16) and the engine (`teraio probe --bench`)
for reading, writing and both at once; a figure is the median over the rounds, a ratio the median of
their ratios. It compares an urgent read behind a full queue of planned writes with one on an idle
drive, and two drives of 200 and 100 MB/s together with the sum of their rates, and reports the
memory of the store.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from drives.limited import Unavailable, limited_drives

ROOT = Path(__file__).resolve().parents[1]
PHASES = ["read", "write", "both"]
RATE_TARGET = 0.95
CPU_TARGET = 1.2
DEPTH = 16
STRIPED_TARGET = 0.97
LIMITED_RATES = [200_000_000, 100_000_000]
LIMITED_BYTES = 320 << 20


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ssd", type=Path, default=ROOT / "build", help="directory on the drive")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="seconds per measurement")
    parser.add_argument("--size", type=int, default=1 << 30, help="size of the file in bytes")
    parser.add_argument("--teraio", type=Path, default=ROOT / "build/bin/teraio")
    return parser.parse_args(argv)


def fio(arguments, folder, phase):
    """Runs fio once; returns bytes per second and CPU seconds per GB.

    Like the engine, it fills a new file before it measures, so that a writeback that is still going
    on slows both equally.
    """
    path = Path(folder) / "fio"
    half = arguments.size // 2
    command = [
        *("fio", "--output-format=json", "--ioengine=io_uring", "--direct=1", "--bs=1M"),
        *(f"--iodepth={DEPTH}", f"--filename={path}", "--thread", "--overwrite=1"),
        *("--name=fill", "--rw=write", f"--size={arguments.size}"),
    ]
    for number, direction in enumerate(["read", "write"] if phase == "both" else [phase]):
        offset = 0 if direction == "read" else half
        command += [f"--name={direction}", f"--rw={direction}", f"--size={half}"]
        command += [f"--offset={offset}", "--time_based", f"--runtime={arguments.seconds}s"]
        command += ["--stonewall"] if number == 0 else []
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, arguments.size)
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    path.unlink()
    jobs = [job for job in report["jobs"] if job["jobname"] != "fill"]
    moved = sum(job[side]["io_bytes"] for job in jobs for side in ("read", "write"))
    rate = sum(job[side]["bw_bytes"] for job in jobs for side in ("read", "write"))
    cpu = sum((job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3 for job in jobs)
    return rate, cpu / (moved * 1e-9)


def engine(arguments, directories, size, prefix=()):
    command = [*prefix, str(arguments.teraio), "probe", "--bench", "--json"]
    command += [f"--seconds={arguments.seconds}", f"--size={size}"]
    command += [word for directory in directories for word in ("--ssd", str(directory))]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def rate_and_cpu(measured):
    rate = measured["read_bytes_per_second"] + measured["write_bytes_per_second"]
    return rate, measured["cpu_seconds_per_gb"]


def entry(name, unit, values, references):
    ratios = [value / reference for value, reference in zip(values, references, strict=True)]
    return {
        "name": name,
        "unit": unit,
        "value": median(values),
        "reference": median(references),
        "ratio": median(ratios),
        "rounds": ratios,
    }


def measure(arguments):
    """Returns the entries of the phases, and the reports of the engine."""
    theirs, reports = {phase: [] for phase in PHASES}, []

    def measure_fio():
        with tempfile.TemporaryDirectory(dir=arguments.ssd) as folder:
            for phase in PHASES:
                theirs[phase].append(fio(arguments, folder, phase))

    def measure_engine():
        reports.append(engine(arguments, [arguments.ssd], arguments.size))

    for number in range(arguments.rounds):
        # The drive is colder for the first of a pair, so the order alternates.
        arms = [measure_fio, measure_engine]
        for run in arms if number % 2 == 0 else reversed(arms):
            run()
    entries = []
    for place, phase in enumerate(PHASES):
        ours = [rate_and_cpu(report["measured"][place]) for report in reports]
        for name, unit, column in [("rate", "B/s", 0), ("cpu", "s/GB", 1)]:
            values = [result[column] for result in ours]
            references = [result[column] for result in theirs[phase]]
            entries.append(entry(f"storage_{phase}_{name}", unit, values, references))
    return entries, reports


def urgent(reports):
    """Compares a read of one request behind a full queue of planned writes with an idle drive.

    Its target is twice the idle time plus one request, which the drive has already begun.
    """
    reads = [report["urgent_read"] for report in reports]
    behind = [read["behind_writes_ns"] for read in reads]
    allowed = [2 * read["idle_ns"] + read["idle_write_ns"] for read in reads]
    idle_ns = median(read["idle_ns"] for read in reads)
    memory = median(report["memory_bytes"] for report in reports)
    return [
        entry("storage_urgent_read", "ns", behind, allowed) | {"target": 1.0, "idle_ns": idle_ns},
        {"name": "storage_memory", "unit": "B", "value": memory},
    ]


def striped(arguments):
    """Measures two drives of known and unequal rates together."""
    shared_memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    try:
        with (
            tempfile.TemporaryDirectory(dir=shared_memory) as folder,
            limited_drives(folder, LIMITED_RATES, LIMITED_BYTES) as (directories, prefix),
        ):
            report = engine(arguments, directories, LIMITED_BYTES // 2, prefix)
    except Unavailable as reason:
        print(f"storage: no striped drives measured: {reason}", file=sys.stderr)
        return []
    entries = []
    for phase in report["measured"][:2]:
        rate = phase[f"{phase['phase']}_bytes_per_second"]
        result = entry(f"storage_striped_{phase['phase']}", "B/s", [rate], [sum(LIMITED_RATES)])
        entries.append(result | {"target": STRIPED_TARGET})
    return entries


def verdict(each):
    """Compares a figure with its target, in words; empty without a target."""
    if "ratio" not in each:
        return ""
    is_rate = each["unit"] == "B/s"
    target = each.get("target", RATE_TARGET if is_rate else CPU_TARGET)
    met = each["ratio"] >= target if is_rate else each["ratio"] <= target
    reference = f"against {each['reference']:>10.4g}  ratio {each['ratio']:.3f}"
    return reference if met else f"{reference} (missed: {target})"


def main():
    arguments = parse_arguments()
    if shutil.which("fio") is None:
        sys.exit("storage: fio is not installed")
    entries, reports = measure(arguments)
    entries += urgent(reports) + striped(arguments)
    results = Path(os.environ.get("TERAIO_BENCH_DIR", ROOT / "build/bench"))
    results.mkdir(parents=True, exist_ok=True)
    (results / "storage.json").write_text(json.dumps(entries, indent=1) + "\n")
    for each in entries:
        print(f"{each['name']:<22} {each['value']:>12.4g} {each['unit']:<5} {verdict(each)}")


if __name__ == "__main__":
    main()
