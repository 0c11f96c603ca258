"""A step of the check: a command with limits, run in a process group of its own.

A step that fails, hangs or cannot start is told in its result and keeps nothing else from running.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Kept of the end of what a step has printed.
PASSED_CHARACTERS, FAILED_CHARACTERS = 4_000, 200_000
POLL_SECONDS = 0.1
ABORT_SECONDS = 3  # for a program that was told to end to say where it stood


@dataclass
class Step:
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    timeout_seconds: float = 120
    quiet_seconds: float = 0  # it hangs when it has printed nothing for so long; 0: it may
    needs_seconds: float = 0  # it is not begun when less time than this is left
    needs: str = ""  # a program without which the step is skipped
    attempts: int = 1  # for a command that goes on where it stood; exit code 1: it has done all


class Clock:
    """The time that is left of what the whole check may take."""

    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def stop(self):
        """What runs is ended, and nothing else is begun."""
        self.end = time.monotonic()


def run_step(step, clock):
    """What came of it, as a dict. Skipped tests of a C++ program make it skipped in part."""
    result = {"name": step.name, "command": [str(word) for word in step.command]}
    if step.needs and shutil.which(step.needs) is None:
        return result | {"outcome": "skipped", "output": f"{step.needs} is not installed"}
    if clock.left() < max(step.needs_seconds, 1):
        reason = f"{clock.left():.0f} s were left, it needs {max(step.needs_seconds, 1):.0f} s"
        return result | {"outcome": "skipped", "output": reason}
    began = time.monotonic()
    for _ in range(step.attempts):
        outcome, output = run_once(step, clock)
        if outcome in ("passed", "failed: exit code 1") or clock.left() < step.needs_seconds:
            break
    if outcome == "passed" and "[  SKIPPED ]" in output:
        outcome = "passed, in part skipped"
    seconds = round(time.monotonic() - began, 1)
    kept = PASSED_CHARACTERS if outcome.startswith("passed") else FAILED_CHARACTERS
    return result | {"outcome": outcome, "seconds": seconds, "output": output[-kept:]}


def run_once(step, clock):
    """(outcome, output)"""
    with tempfile.TemporaryFile() as log:
        try:
            process = subprocess.Popen(
                [str(word) for word in step.command],
                cwd=ROOT,
                env=os.environ | {"PYTHONFAULTHANDLER": "1"} | step.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return "failed", str(error)
        try:
            hung = watch(process, step, clock, log)
        finally:
            end_group(process)
        output = read(log)
    if hung:
        return hung, output
    return ("passed" if process.returncode == 0 else f"failed: {ending(process)}"), output


def ending(process):
    """How it ended, in words."""
    if process.returncode < 0:
        return f"ended by {signal.Signals(-process.returncode).name}"
    return f"exit code {process.returncode}"


def watch(process, step, clock, log):
    """Waits for its end. The outcome when it must be ended before; empty when it ended itself."""
    began = heard = time.monotonic()
    size = 0
    while process.poll() is None:
        now = time.monotonic()
        if os.fstat(log.fileno()).st_size != size:
            heard, size = now, os.fstat(log.fileno()).st_size
        if clock.left() <= 0:
            return f"cut off after {now - began:.0f} s"
        if now - began >= step.timeout_seconds:
            return f"failed: not done after {now - began:.0f} s"
        if step.quiet_seconds and now - heard >= step.quiet_seconds:
            return f"failed: nothing was heard of it for {step.quiet_seconds:.0f} s"
        time.sleep(POLL_SECONDS)
    return ""


def end_group(process):
    """Ends the process and all that it has started. First it may tell where it stands."""
    if process.poll() is None:
        signal_group(process, signal.SIGABRT)
        try:
            process.wait(ABORT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
    signal_group(process, signal.SIGKILL)
    process.wait()


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it


def read(log):
    log.seek(0)
    return log.read().decode(errors="replace")


def run_together(steps, clock, at_once, tell):
    """Runs them so many at a time; `tell` gets each result as it comes, one at a time."""
    with ThreadPoolExecutor(max(1, at_once)) as pool:
        for done in as_completed(pool.submit(run_step, step, clock) for step in steps):
            tell(done.result())
