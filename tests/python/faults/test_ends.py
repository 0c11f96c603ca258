"""However a process ends while it trains: exit code, last words, and nothing left on the drives,
which work, refuse writes, or do not answer (testing/faulty_drives)."""

import contextlib
import itertools
import re
import signal
import subprocess
import sys
import time

import drawn
import pytest
from faulty_trainings.drives import LIBRARY, Rates

# A drive that hangs does so from step 3 on, where an operator of another thread waits for it. That
# thread uses more bytes than the budget has, again and again, so that a request comes to the drive.
TRAINING = """\
import _thread, contextlib, ctypes, os, signal, sys, threading, torch, teraio
how, rates, hangs, ssd = sys.argv[1], bytes.fromhex(sys.argv[2]), sys.argv[3], sys.argv[4:]
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
library = ctypes.CDLL(os.environ["LD_PRELOAD"]) if rates or hangs != "never" else None
def modes():
    paths = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    found = [p for p in paths if os.path.islink(p) and "/.teraio-" in os.readlink(p)]
    return {oct(os.stat(path).st_mode & 0o777) for path in found}
has_hung = threading.Event()
def use_states():
    while not has_hung.is_set():
        for parameter, state in optimizer.state.items():
            try:
                state["exp_avg"].sum() + state["exp_avg_sq"].sum() + parameter.detach().sum()
            except KeyboardInterrupt:
                return _thread.interrupt_main()
            except RuntimeError:
                if has_hung.is_set():  # an op that runs when the interpreter ends aborts PyTorch
                    return
def let_drive_hang():
    library.faulty_drives_hang(0, 2, ctypes.c_int64(0))
    threading.Thread(target=use_states, daemon=is_under_run).start()
    library.faulty_drives_wait_for_hang()
    has_hung.set()
    if hangs == "for a second":
        threading.Timer(1, library.faulty_drives_release).start()
def train(end=lambda: None):
    global steps_left
    step = 0
    while steps_left != 0:
        steps_left -= 1
        if step == 2 and rates:
            library.faulty_drives_start(
                ctypes.c_uint64(1), rates, ctypes.c_int32(-1), ctypes.c_int64(0), ctypes.c_int64(0))
        model(torch.ones(16, 256)).square().mean().backward()
        if step == 3:
            if hangs != "never":
                let_drive_hang()
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
is_under_run = teraio.running_session() is not None
with contextlib.nullcontext() if is_under_run else teraio.offload(
    "3MB", ssd=ssd, ssd_capacity="64MB"
):
    if how == "daemon":
        daemon()
        os._exit(9)
    train(ends.get(how, lambda: None))
"""


def is_faulty(drives, hangs):
    return drives == "failing" or hangs != "never"


@pytest.fixture
def arguments(tmp_path, two_drives):
    """The arguments of Python for a program that ends in some way. `hangs` tells how long a drive
    answers nothing: "never", "for a second" or "for ever"."""
    (tmp_path / "train.py").write_text(TRAINING)

    def arguments(how, drives="good", hangs="never", is_under_run=False):
        rates = bytes(Rates(write_error=0.05, late=0.1)).hex() if drives == "failing" else ""
        words = []
        if is_under_run:
            words += "-m teraio run --quiet --device-budget 3MB --ssd-capacity 64MB".split()
            words += [word for drive in two_drives for word in ("--ssd", drive)]
        return [*words, tmp_path / "train.py", how, rates, hangs, *two_drives]

    return arguments


@pytest.fixture
def started(arguments, spawn):
    """Starts a program, and returns its process when it trains with I/O under way."""

    def started(how, drives="good", hangs="never", **options):
        process = spawn(
            [sys.executable, *arguments(how, drives, hangs, **options)],
            preload=LIBRARY if is_faulty(drives, hangs) else None,
        )
        assert next_line(process) == "training 0o600\n"
        return process

    return started


@pytest.fixture
def ended(arguments, on_drives):
    """Runs a program that ends by itself, after it has trained with I/O under way."""

    def ended(how, drives="good", hangs="never", **options):
        words = arguments(how, drives, hangs, **options)
        done = on_drives(*words, are_faulty=is_faulty(drives, hangs))
        assert "training 0o600" in done.stdout.splitlines(), done
        return done

    return ended


def next_line(process):
    """The next line that the program prints and TERAIO does not."""
    while (line := process.stdout.readline()).startswith("teraio: "):
        pass
    return line or pytest.fail(process.communicate()[1])


def assert_ended(done, code, text):
    """Apart from the log, `text` is among the last words, which are empty if it is."""
    words = done.stderr
    assert done.returncode == code, words
    own = [line for line in words.splitlines() if not re.match(r"\[\d{4}-.*?\] \[", line)]
    assert text in words if text else own == [], words


ENDS = [
    ("error", 1, "ValueError: the program's own"),
    ("exit", 7, ""),
    ("_exit", 8, ""),
    ("daemon", 9, ""),
    ("killed child", 0, ""),
]


def always_or_in_turn(ends):
    """The fast level has the first. In the full level, the others take turns."""
    return [
        ends[0],
        *(pytest.param(*end, marks=pytest.mark.full) for end in drawn.in_turn(ends[1:])),
    ]


@pytest.mark.parametrize(
    "drives, how, code, text",
    always_or_in_turn([(drives, *end) for drives in ("good", "failing") for end in ENDS]),
)
def test_ends_by_itself(ended, how, code, text, drives):
    assert_ended(ended(how, drives), code, text)


@pytest.mark.parametrize("how, code, text", always_or_in_turn(ENDS))
def test_ends_while_a_drive_hangs_for_a_second(ended, how, code, text):
    assert_ended(ended(how, hangs="for a second"), code, text)


@pytest.mark.full
@pytest.mark.parametrize("how, code, text", drawn.in_turn(ENDS[:4]))
def test_ends_under_teraio_run_while_a_drive_hangs_for_ever(ended, how, code, text):
    """No tensor has to come back: the process ends by itself."""
    assert_ended(ended(how, hangs="for ever", is_under_run=True), code, text)


def press_ctrl_c_until_ended(process):
    """As a user does who sees nothing happen: the end waits for 2 s whether the drive answers."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return
    pytest.fail("the process goes on")


@pytest.mark.full
@pytest.mark.parametrize("how", drawn.in_turn(["error", "exit", "signal"]))
def test_ctrl_c_ends_the_end_while_a_drive_hangs_for_ever(started, end_of, how):
    process = started(how, hangs="for ever")
    press_ctrl_c_until_ended(process)
    assert_ended(end_of(process), -signal.SIGINT, "tensors did not come back: ")


@pytest.mark.full
def test_ctrl_c_under_teraio_run_while_a_drive_hangs_for_ever(started, end_of):
    process = started("signal", hangs="for ever", is_under_run=True)
    process.send_signal(signal.SIGINT)
    assert_ended(end_of(process), -signal.SIGINT, "KeyboardInterrupt")


DRIVES = [("good", "never"), ("failing", "never")]
KILLS = list(itertools.product([signal.SIGTERM, signal.SIGKILL], [*DRIVES, ("good", "for ever")]))
CTRL_CS = list(itertools.product([1, 2], [*DRIVES, ("good", "for a second")]))


@pytest.mark.full
@pytest.mark.parametrize("number, drives_hang", drawn.in_turn(KILLS))
def test_ends_by_a_signal(started, end_of, number, drives_hang):
    process = started("signal", *drives_hang)
    time.sleep(drawn.one_of(range(200), f"{number} {drives_hang}") / 1000)
    process.send_signal(number)
    assert_ended(end_of(process), -number, "")


@pytest.mark.full
@pytest.mark.parametrize("times, drives_hang", drawn.in_turn(CTRL_CS))
def test_ends_by_ctrl_c(started, end_of, times, drives_hang):
    """Python's own ending: a traceback, and the exit status of SIGINT."""
    process = started("signal", *drives_hang)
    for press in range(times):
        time.sleep(drawn.one_of(range(50), f"{press} of {times} {drives_hang}") / 1000)
        process.send_signal(signal.SIGINT)
    assert_ended(end_of(process), -signal.SIGINT, "KeyboardInterrupt")
