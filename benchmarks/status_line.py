#!/usr/bin/env python3
"""Measures what the status line costs: the CPU time of its thread while a model trains.

The line goes to a terminal of its own, and the status file to its usual place. The figure is the
CPU time of the thread over the duration. Writes build/bench/status_line.json.
"""

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import torch

import teraio

LIMIT = 0.001  # of the time
LAYERS = 60


def open_terminal():
    """Makes stderr a terminal, whose output `cat` reads and drops."""
    master, terminal = pty.openpty()
    subprocess.Popen(["cat"], stdin=master, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(master)
    os.environ.setdefault("TERM", "xterm-256color")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 160, 0, 0))
    os.dup2(terminal, 2)
    os.close(terminal)


def cpu_seconds(thread):
    """Returns the CPU time of a running thread, in seconds."""
    return int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()[0]) / 1e9


def measure(seconds, budget, ssd):
    """Trains for some seconds. Returns the CPU time of the thread, and the duration."""
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(LAYERS)])
    optimizer = torch.optim.AdamW(model.parameters())
    with teraio.offload(budget, ssd=ssd, status_line=True):
        (thread,) = (each for each in threading.enumerate() if each.name == "teraio progress")
        begin, before = time.monotonic(), cpu_seconds(thread)
        while time.monotonic() < begin + seconds:
            model(torch.ones(64, 256)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return cpu_seconds(thread) - before, time.monotonic() - begin


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--budget", default="30MB", help="of the 63 MB that the training needs")
    parser.add_argument("--ssd", help="directory on a drive (default: the cache directory)")
    parser.add_argument("--output", type=Path, default=Path("build/bench/status_line.json"))
    args = parser.parse_args(argv)
    open_terminal()
    cpu, duration = measure(args.seconds, args.budget, args.ssd)
    share = cpu / duration
    print(f"status line: {1e3 * cpu:.1f} ms of CPU time in {duration:.1f} s, {share:.4%}")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "name": "CPU time of the status line over the run",
        "value": share,
        "unit": "of the time",
    }
    row |= {"reference": LIMIT, "ratio": share / LIMIT}
    args.output.write_text(json.dumps([row]))


if __name__ == "__main__":
    main()
