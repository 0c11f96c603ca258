"""However a process ends while it trains: exit code, last words, and nothing left on the drive."""

import random
import signal
import subprocess
import sys
import time

import pytest

TRAINING = """\
import os, signal, sys, threading, torch, teraio
ssd, how = sys.argv[1:]
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def modes():
    paths = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    found = [p for p in paths if os.path.islink(p) and "/.teraio-" in os.readlink(p)]
    return {oct(os.stat(path).st_mode & 0o777) for path in found}
def train(end=lambda: None):
    step = 0
    while True:
        model(torch.ones(16, 256)).square().mean().backward()
        if step == 3:
            print("training", *modes(), flush=True)
            end()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
def fail():
    raise ValueError("the program's own")
ends = {"error": fail, "exit": lambda: sys.exit(7), "_exit": lambda: os._exit(8)}
def daemon():
    reached = threading.Event()
    threading.Thread(target=train, args=(reached.set,), daemon=True).start()
    reached.wait()
with teraio.offload("3MB", ssd=ssd, ssd_capacity="64MB"):
    if how == "daemon":
        daemon()
        os._exit(9)
    train(ends.get(how, lambda: None))
"""


@pytest.fixture
def ssd(tmp_path):
    (tmp_path / "ssd").mkdir()
    return tmp_path / "ssd"


@pytest.fixture
def started(tmp_path, ssd):
    """Starts a program, and returns its process when it trains with I/O under way."""
    (tmp_path / "train.py").write_text(TRAINING)
    processes = []

    def started(how):
        process = subprocess.Popen(
            [sys.executable, tmp_path / "train.py", ssd, how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        line = process.stdout.readline()
        assert line == "training 0o600\n", (line, process.stderr.read() if not line else "")
        return process

    yield started
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def last_words(process, ssd):
    """Waits for the end; nothing of ours is left, and no C++ error is among the last words."""
    words = process.communicate(timeout=120)[1]
    assert list(ssd.iterdir()) == []
    assert "terminate called" not in words and "teraio/" not in words, words
    return words


@pytest.mark.parametrize(
    "how, code, text",
    [
        ("error", 1, "ValueError: the program's own"),
        pytest.param("exit", 7, "", marks=pytest.mark.full),
        pytest.param("_exit", 8, "", marks=pytest.mark.full),
        pytest.param("daemon", 9, "", marks=pytest.mark.full),
    ],
)
def test_ends_by_itself(started, ssd, how, code, text):
    process = started(how)
    words = last_words(process, ssd)
    assert process.returncode == code, words
    assert text in words if text else words == ""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ends_by_a_signal(started, ssd, number):
    chance = random.Random(1)
    for _ in range(3):
        process = started("signal")
        time.sleep(chance.random() / 5)
        process.send_signal(number)
        assert last_words(process, ssd) == ""
        assert process.returncode == -number
