"""Programs that a check runs: each ends with the check, whatever happens."""

import contextlib
import os
import signal
import subprocess
import tempfile

import pytest

ABORT_SECONDS = 3  # for a program that is told to abort to print where it is
KILL_SECONDS = 10  # for the system to end a killed program


def run(command, environment=None) -> str:
    """Runs a program to its end, prints its output, and returns it.

    The check fails when the program does. When the check reaches its time limit, or the user
    interrupts it, the program and all processes that it has started are ended.
    """
    with tempfile.TemporaryFile() as log:
        process = start(command, environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            process.wait()
        finally:
            end(process)
            log.seek(0)
            output = log.read().decode(errors="replace")
            print(output)
    if process.returncode != 0:
        pytest.fail(f"{os.path.basename(command[0])}: {ending(process.returncode)}", pytrace=False)
    return output


def start(command, environment=None, **streams) -> subprocess.Popen:
    """Starts a program in a process group of its own."""
    return subprocess.Popen(
        [str(word) for word in command],
        env=os.environ | {"PYTHONFAULTHANDLER": "1"} | (environment or {}),
        start_new_session=True,
        **streams,
    )


def ending(code: int) -> str:
    """Describes how a program with this return code ended."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def end(process: subprocess.Popen) -> None:
    """Ends the program and all that it has started. A running one first prints where it is.

    A program that not even SIGKILL ends (its driver may hang) is left to itself.
    """
    with interrupts_ignored():
        if process.poll() is None:
            signal_group(process, signal.SIGABRT)
            wait(process, ABORT_SECONDS)
        signal_group(process, signal.SIGKILL)
        wait(process, KILL_SECONDS)


@contextlib.contextmanager
def interrupts_ignored():
    """Ignores further interrupts: a terminal sends one to all processes, which may pass it on."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


def wait(process: subprocess.Popen, seconds: float) -> None:
    """Waits for the program's end, but no longer than `seconds`."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass


def signal_group(process: subprocess.Popen, number: int) -> None:
    """Sends a signal to all processes of the program's group that are left."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass
