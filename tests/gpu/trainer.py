"""A process that trains a job, one arm at a time."""

import json
import os
import subprocess
import tempfile
import time

import programs
import pytest

STEPS = 15
CLOSE_SECONDS = 10


class Trainer:
    """Starts workloads/measure_training.py with the first arm, and again after an arm has ended it.

    The arms of a job share a process, so that they meet the same kernels and the same clock rates.
    """

    def __init__(self, workspace, training):
        options = workspace.job_options(training.job, training.precision, STEPS)
        is_profiled = training.is_profiled and workspace.device == "cuda"
        options += ["--profile", workspace.work / "results"] if is_profiled else []
        self.command = workspace.workload("measure_training", *options)
        self.environment = workspace.environment
        self.training = training
        self.peak_bytes = None  # what the training takes when the budget holds everything
        self.requested = set()  # arms
        self.began = None
        self.process = None
        self.log = tempfile.TemporaryFile()
        self.printed_bytes = 0  # of the log

    def measure(self, arm) -> dict:
        """The record of the arm. Skips the test when the training has had its time.

        Fails the test when the process ends, and ends the process when the test reaches its time
        limit. An arm that raised an error has a record too: `outcome` tells.
        """
        self.began = self.began or time.monotonic()
        if time.monotonic() - self.began > self.training.seconds:
            pytest.skip(f"the training has had its {self.training.seconds:.0f} s")
        if not arm.startswith(("stock", "ample")) and "ample" not in self.requested:
            self.request("ample")  # it tells the peak
        return self.request(arm) | {"title": self.training.title}

    def request(self, arm) -> dict:
        """Sends the arm to the process and waits for its record."""
        if self.process is None:
            pipe = subprocess.PIPE
            streams = {"stdin": pipe, "stdout": pipe, "stderr": self.log}
            self.process = programs.start(self.command, self.environment, **streams)
        request = json.dumps({"arm": arm, "peak_bytes": self.peak_bytes})
        self.requested.add(arm)
        reply = b""
        try:
            self.process.stdin.write(request.encode() + b"\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            pass  # as when it ends before it replies
        finally:
            code = None if reply else self.end()
            self.print_log()
        if not reply:
            pytest.fail(f"{arm} ended its process: {programs.ending(code)}", pytrace=False)
        record = json.loads(reply)
        if arm == "ample":
            self.peak_bytes = record.get("peak_bytes")
        return record

    def print_log(self) -> None:
        """Prints what the process has written since the last time.

        The process shares the position of the file, which must not move.
        """
        length = os.fstat(self.log.fileno()).st_size - self.printed_bytes
        text = os.pread(self.log.fileno(), length, self.printed_bytes)
        self.printed_bytes += len(text)
        print(text.decode(errors="replace"))

    def end(self) -> int | None:
        """Ends the process wherever it is. Its return code."""
        process, self.process = self.process, None
        programs.end(process)
        process.stdout.close()
        return process.returncode

    def close(self) -> None:
        """Lets the process end, if there is one: it has answered all requests."""
        if self.process is not None:
            self.process.stdin.close()
            programs.wait(self.process, CLOSE_SECONDS)
            self.end()
        self.log.close()


class Trainers:
    """The trainer of one job at a time."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.current = None

    def of(self, training) -> Trainer:
        """The trainer of the job. That of another job is closed before."""
        if self.current is None or self.current.training is not training:
            self.close()
            self.current = Trainer(self.workspace, training)
        return self.current

    def close(self) -> None:
        current, self.current = self.current, None
        if current is not None:
            current.close()
