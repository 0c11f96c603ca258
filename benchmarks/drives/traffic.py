"""Reads and writes that fio makes on drives at given rates, beside something that is measured."""

import contextlib
import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

FILE_BYTES = 512 << 20  # of each direction and drive
BLOCK_BYTES = 1 << 20
OPTIONS = ("--ioengine=io_uring", "--direct=1", f"--bs={BLOCK_BYTES}", "--iodepth=16", "--thread")


class TrafficFailed(Exception):
    """Raised when fio fails; the message has fio's own words."""


@dataclass
class Traffic:
    """What fio moved, in bytes per second over all drives; known once the traffic has ended."""

    read_bytes_per_second: float = 0.0
    written_bytes_per_second: float = 0.0


@dataclass(frozen=True)
class Job:
    """One direction of one drive, at a rate in bytes per second."""

    direction: str  # "read" or "write", as fio calls them
    path: Path
    rate: float

    def options(self, *more: str) -> list[str]:
        return [
            f"--name={self.direction}",
            f"--filename={self.path}",
            f"--size={FILE_BYTES}",
            *more,
        ]


@contextlib.contextmanager
def fio_traffic(directories: list[Path], read_rate: float, write_rate: float):
    """Runs fio within the block: `read_rate` and `write_rate` bytes per second over all drives.

    Every drive takes an equal share. Yields a Traffic, which is filled when the block ends. Raises
    TrafficFailed when fio fails. Leaves no file behind.
    """
    jobs = [
        Job(direction, directory / f"traffic-{direction}", rate / len(directories))
        for directory in directories
        for direction, rate in (("read", read_rate), ("write", write_rate))
        if rate >= 1
    ]
    traffic = Traffic()
    try:
        if jobs:
            lay_out(jobs)
        with contextlib.ExitStack() as running:
            if jobs:
                running.enter_context(moving(jobs, traffic))
            yield traffic
    finally:
        for job in jobs:
            job.path.unlink(missing_ok=True)


def lay_out(jobs: list[Job]) -> None:
    """Writes the files, so that reads find data and writes change blocks that exist."""
    fill = [word for job in jobs for word in job.options("--rw=write")]
    done = subprocess.run(["fio", *OPTIONS, *fill], capture_output=True, text=True)
    if done.returncode != 0:
        raise TrafficFailed(f"fio could not write its files: {done.stderr.strip()}")


@contextlib.contextmanager
def moving(jobs: list[Job], traffic: Traffic):
    move = [
        word
        for job in jobs
        for word in job.options(f"--rw={job.direction}", f"--rate={int(job.rate)}")
    ]
    command = ["fio", "--output-format=json", *OPTIONS, "--time_based", "--runtime=1d", *move]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_until_moving(process)
        yield
    finally:
        ended_early = process.poll() is not None
        process.send_signal(signal.SIGINT)  # at which fio reports what it has moved
        out, err = process.communicate()
    if ended_early:
        raise TrafficFailed(f"fio ended with {process.returncode}: {err.strip()}")
    add(traffic, json.loads(out[out.index("{") :]))  # a line about the signal comes first


def wait_until_moving(process: subprocess.Popen) -> None:
    """Returns when fio has moved a block: interrupted before, it would report nothing."""
    while process.poll() is None and moved_bytes(process.pid) < BLOCK_BYTES:
        time.sleep(0.01)


def moved_bytes(process_id: int) -> int:
    """What a process has read from drives and written to them, 0 when it has ended."""
    try:
        lines = Path(f"/proc/{process_id}/io").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts["read_bytes"]) + int(counts["write_bytes"])


def add(traffic: Traffic, report: dict) -> None:
    for job in report["jobs"]:
        traffic.read_bytes_per_second += job["read"]["bw_bytes"]
        traffic.written_bytes_per_second += job["write"]["bw_bytes"]
