"""However a process ends while it trains: exit code, last words, and nothing left on the drives,
which work or refuse writes (testing/faulty_drives)."""

import random
import re
import signal
import sys
import time

import pytest
from faulty_trainings.drives import LIBRARY, Rates

TRAINING = """\
import ctypes, os, signal, sys, threading, torch, teraio
how, rates, ssd = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3:]
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
def modes():
    paths = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    found = [p for p in paths if os.path.islink(p) and "/.teraio-" in os.readlink(p)]
    return {oct(os.stat(path).st_mode & 0o777) for path in found}
def train(end=lambda: None):
    global steps_left
    step = 0
    while steps_left != 0:
        steps_left -= 1
        if step == 2 and rates:
            ctypes.CDLL(os.environ["LD_PRELOAD"]).faulty_drives_start(
                ctypes.c_uint64(1), rates, ctypes.c_int32(-1), ctypes.c_int64(0), ctypes.c_int64(0))
        model(torch.ones(16, 256)).square().mean().backward()
        if step == 3:
            print("training", *modes(), flush=True)
            end()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
def fail():
    raise ValueError("the program's own")
def lose_child():
    process = os.fork()
    if process == 0:
        signal.pause()
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    global steps_left
    steps_left = 3
steps_left = -1
ends = {"error": fail, "exit": lambda: sys.exit(7), "_exit": lambda: os._exit(8),
        "killed child": lose_child}
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
def started(tmp_path, two_drives, spawn):
    """Starts a program, and returns its process when it trains with I/O under way."""
    (tmp_path / "train.py").write_text(TRAINING)

    def started(how, drives="good"):
        is_failing = drives == "failing"
        rates = bytes(Rates(write_error=0.05, late=0.1)).hex() if is_failing else ""
        process = spawn(
            [sys.executable, tmp_path / "train.py", how, rates, *two_drives],
            preload=LIBRARY if is_failing else None,
        )
        line = process.stdout.readline()
        assert line == "training 0o600\n", (line, process.stderr.read() if not line else "")
        return process

    return started


def assert_ended(process, two_drives, code, text):
    """Nothing of ours is left. Apart from the log, `text` is among the last words, which are empty
    if it is, and no C++ error is."""
    words = process.communicate(timeout=120)[1]
    assert [name for folder in two_drives for name in folder.iterdir()] == []
    assert process.returncode == code, words
    own = [line for line in words.splitlines() if not re.match(r"\[\d{4}-.*?\] \[", line)]
    assert "terminate called" not in words
    assert text in words if text else own == [], words


DRIVES = ["good", pytest.param("failing", marks=pytest.mark.full)]


@pytest.mark.parametrize("drives", DRIVES)
@pytest.mark.parametrize(
    "how, code, text",
    [
        ("error", 1, "ValueError: the program's own"),
        pytest.param("exit", 7, "", marks=pytest.mark.full),
        pytest.param("_exit", 8, "", marks=pytest.mark.full),
        pytest.param("daemon", 9, "", marks=pytest.mark.full),
        pytest.param("killed child", 0, "", marks=pytest.mark.full),
    ],
)
def test_ends_by_itself(started, two_drives, how, code, text, drives):
    assert_ended(started(how, drives), two_drives, code, text)


@pytest.mark.full
@pytest.mark.parametrize("drives", ["good", "failing"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ends_by_a_signal(started, two_drives, number, drives):
    chance = random.Random(1)
    for _ in range(3):
        process = started("signal", drives)
        time.sleep(chance.random() / 5)
        process.send_signal(number)
        assert_ended(process, two_drives, -number, "")


@pytest.mark.full
@pytest.mark.parametrize("drives", ["good", "failing"])
@pytest.mark.parametrize("times", [1, 2])
def test_ends_by_ctrl_c(started, two_drives, times, drives):
    """Python's own ending: a traceback, and the exit status of SIGINT."""
    chance = random.Random(times)
    for _ in range(3):
        process = started("signal", drives)
        for _ in range(times):
            time.sleep(chance.random() / 20)
            process.send_signal(signal.SIGINT)
        assert_ended(process, two_drives, -signal.SIGINT, "KeyboardInterrupt")
