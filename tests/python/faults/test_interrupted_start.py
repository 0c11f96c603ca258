"""Ctrl-C while a session's start waits for another process that measures drives."""

import fcntl
import signal
import sys

import pytest

PROGRAM = """\
import sys, teraio
if sys.argv[2] == "handled":
    import signal
    def handler(number, frame):
        print("handled", flush=True)
    signal.signal(signal.SIGINT, handler)
try:
    with teraio.offload("40MB", ssd=sys.argv[1], ssd_capacity="256MB"):
        print("started", flush=True)
except KeyboardInterrupt as interrupt:
    print("interrupted:", interrupt, flush=True)
    raise
"""


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """The lock of a process that measures drives."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "teraio" / "probe.lock"
    path.parent.mkdir(parents=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


@pytest.fixture
def waiting(tmp_path, lock, spawn):
    """Starts a program, and returns its process when it waits for the lock."""

    def waiting(how):
        (tmp_path / "drive").mkdir()
        process = spawn([sys.executable, "-c", PROGRAM, tmp_path / "drive", how])
        line = ""
        while "waiting for" not in line:
            line = process.stdout.readline()
            assert line, process.communicate()
        assert lock.name in line
        return process

    return waiting


def test_interrupt_ends_the_start(waiting, lock):
    process = waiting("raised")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    # Python raises it without a message where the signal comes before the wait.
    assert out == "interrupted: \n" or lock.name in out, out
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in err


@pytest.mark.full
def test_start_goes_on_when_the_handler_raises_nothing(waiting, lock):
    process = waiting("handled")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "handled\n"
    fcntl.flock(lock, fcntl.LOCK_UN)
    out, err = process.communicate(timeout=120)
    assert out.endswith("started\n"), err
    assert process.returncode == 0
