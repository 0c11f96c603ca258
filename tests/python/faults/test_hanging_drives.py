"""Drives that do not answer (testing/faulty_drives): Ctrl-C, the end, and --io-timeout."""

import signal
import sys

import pytest
from faulty_trainings.drives import LIBRARY

# Tensors of 1 MB within a budget of 6 MB: most of them are on the drives.
HEAD = """\
import ctypes, os, signal, sys, threading, time, torch, teraio
library = ctypes.CDLL(os.environ["LD_PRELOAD"])
READS, WRITES = 0, 1
drives = sys.argv[1:]
torch.set_num_threads(1)

def new_tensors():
    return [torch.full((512, 512), float(number)).add_(0) for number in range(12)]

def add(tensors):
    for tensor in tensors:
        tensor.add_(1)

def hang(direction):
    library.faulty_drives_hang(0, direction, ctypes.c_int64(0))

def interrupt_after(wait):
    def run():
        wait()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=run, daemon=True).start()

def session(**options):
    return teraio.offload("6MB", ssd=drives, ssd_capacity="64MB", policy="on-demand", **options)
"""


@pytest.fixture
def run(on_drives, tmp_path, two_drives):
    """Runs a program on one or both drives; under `teraio run` if its options are given. Returns
    its exit code, the lines that it prints and TERAIO does not, and stderr."""

    def run(program, options=(), drive_count=1):
        (tmp_path / "train.py").write_text(HEAD + program)
        command = ["train.py", *two_drives[:drive_count]]
        if options:
            limits = ["--device-budget", "6MB", "--ssd-capacity", "64MB"]
            command = ["-m", "teraio", "run", *limits, "--ssd", two_drives[0], *options, *command]
        done = on_drives(*command)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("teraio: ")]
        return done.returncode, lines, done.stderr

    return run


@pytest.mark.parametrize("direction", ["READS", pytest.param("WRITES", marks=pytest.mark.full)])
def test_interrupt_under_teraio_run(run, direction):
    code, lines, err = run(
        f"""
tensors = new_tensors()
add(tensors)
hang({direction})
interrupt_after(library.faulty_drives_wait_for_hang)
try:
    while True:
        add(tensors)
except KeyboardInterrupt as interrupt:
    print("caught", interrupt, flush=True)
    raise
""",
        options=["--policy", "on-demand"],
    )
    assert lines[0].startswith("caught") and "has not answered" in lines[0], err
    assert "KeyboardInterrupt" in err
    assert code == -signal.SIGINT, err


# The first Ctrl-C comes within an op, and what ends the end's wait comes in that wait.
INTERRUPTED_END = """
def wait_for_end():  # until the main thread has been in the core for a while
    calls = 0
    while calls < 20:
        frame = sys._current_frames()[threading.main_thread().ident]
        calls = calls + 1 if frame.f_code.co_name == "_end" else 0
        time.sleep(0.01)

def interrupted_training(end_of_wait):
    with session() as run:
        tensors = new_tensors()
        add(tensors)
        hang(READS)
        interrupt_after(library.faulty_drives_wait_for_hang)
        try:
            while True:
                add(tensors)
        except KeyboardInterrupt:
            threading.Thread(target=end_of_wait, daemon=True).start()
            kept.extend(tensors)
            raise

kept = []
"""


@pytest.mark.full
def test_second_interrupt_ends_the_end_and_names_what_is_lost(run):
    code, _, err = run(f"""{INTERRUPTED_END}
def press_again():
    wait_for_end()
    os.kill(os.getpid(), signal.SIGINT)
interrupted_training(press_again)
""")
    assert "of 12 tensors did not come back: " in err
    assert "has not answered a read of" in err.splitlines()[-1], err
    assert code == -signal.SIGINT


@pytest.mark.full
def test_drive_that_answers_after_one_interrupt_gives_all_tensors_back(run):
    code, lines, err = run(f"""{INTERRUPTED_END}
def answer():
    wait_for_end()
    library.faulty_drives_release()
try:
    interrupted_training(answer)
except KeyboardInterrupt:
    print(*(len(tensor.unique()) for tensor in kept))
    print(all(tensor.min() > number for number, tensor in enumerate(kept)))
""")
    assert lines == ["1 " * 11 + "1", "True"], err
    assert code == 0, err


def test_op_goes_on_when_the_handler_raises_nothing(run):
    code, lines, err = run("""
def handle(number, frame):
    print("handled", flush=True)
    library.faulty_drives_release()
with session():
    signal.signal(signal.SIGINT, handle)
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    interrupt_after(library.faulty_drives_wait_for_hang)
    add(tensors)
print(*(int(tensor.unique()) for tensor in tensors))
""")
    assert lines == ["handled", " ".join(str(number + 2) for number in range(12))], err
    assert code == 0


def test_signal_between_the_handler_that_the_program_sets_and_the_wait(run):
    code, lines, err = run("""
import collections, functools
raise_signal = getattr(ctypes.CDLL(None), "raise")  # which, unlike Python's, handles none
def handle(number, frame):
    print("handled", flush=True)
    library.faulty_drives_release()
with session():
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    signal.signal(signal.SIGINT, handle)  # no bytecode is run between the signal and the ops
    calls = [functools.partial(raise_signal, signal.SIGINT)]
    calls += [functools.partial(tensor.add_, 1) for tensor in tensors]
    collections.deque(map(functools.partial.__call__, calls), maxlen=0)
print(*(int(tensor.unique()) for tensor in tensors))
""")
    assert lines == ["handled", " ".join(str(number + 2) for number in range(12))], err
    assert code == 0


@pytest.mark.full
def test_handler_adopts_a_tensor_while_an_op_waits_to_adopt_another(run):
    code, lines, err = run("""
old = [torch.full((512, 512), float(number)) for number in range(13)]
def handle(number, frame):
    library.faulty_drives_release()
    with teraio.pin(old[12]):
        print("handled", flush=True)
with session():
    signal.signal(signal.SIGINT, handle)
    hang(WRITES)
    interrupt_after(library.faulty_drives_wait_for_hang)
    add(old[:12])
print(*(int(tensor.unique()) for tensor in old[:12]))
""")
    assert lines == ["handled", " ".join(str(n + 1) for n in range(12))], err
    assert code == 0


@pytest.mark.full
def test_interrupt_while_the_main_thread_waits_in_cpp_for_another(run):
    code, lines, err = run("""
answer = torch.futures.Future()
def run():
    time.sleep(1)  # the main thread waits in C++ by then
    try:
        while True:
            add(tensors)
    except BaseException as error:
        print("thread", type(error).__name__, flush=True)
    answer.set_result(None)
with session():
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    def thread_waits():
        library.faulty_drives_wait_for_hang()
        time.sleep(2)  # a signal before the wait is not for it
    interrupt_after(thread_waits)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        answer.wait()
        thread.join()
    except KeyboardInterrupt:
        print("main", flush=True)
    library.faulty_drives_release()
    thread.join()
""")
    assert lines == ["thread KeyboardInterrupt", "main"], err
    assert code == 0, err


def test_interrupt_before_the_wait_of_a_thread_that_the_main_thread_needs(run):
    code, lines, err = run("""
import _thread, collections, functools
libc = ctypes.CDLL(None)
may_add = _thread.allocate_lock()
def add_after_the_signal():
    may_add.acquire()
    add(tensors)
with session():
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    may_add.acquire()
    thread = threading.Thread(target=add_after_the_signal)
    thread.start()
    calls = [functools.partial(getattr(libc, "raise"), signal.SIGINT), may_add.release]
    calls += [library.faulty_drives_wait_for_hang, functools.partial(libc.usleep, 300_000)]
    calls += [functools.partial(tensor.add_, 1) for tensor in tensors]
    try:  # no bytecode is run between the signal and the ops
        collections.deque(map(functools.partial.__call__, map(functools.partial, calls)), maxlen=0)
    except KeyboardInterrupt:
        print("main", flush=True)
    library.faulty_drives_release()
    thread.join()
""")
    assert lines == ["main"], err
    assert code == 0, err


def test_interrupt_within_an_op_that_waits_then(run):
    code, lines, err = run("""
from teraio.hooks import op_origins
def interrupted():
    signal.raise_signal(signal.SIGINT)
with session():
    hang(READS)
    op_origins.origin_of_op = interrupted
    try:
        tensors = new_tensors()
        while True:
            add(tensors)
    except KeyboardInterrupt as interrupt:
        print("main", flush=True)
    library.faulty_drives_release()
""")
    assert lines == ["main"], err
    assert code == 0, err


def test_writes_that_hang_go_to_the_other_drive(run):
    code, lines, err = run(
        """
with session(io_timeout=2) as run:
    tensors = new_tensors()
    add(tensors)
    hang(WRITES)
    for _ in range(3):
        add(tensors)
    library.faulty_drives_wait_for_hang()
    counters = run.counters()
    print(*(drive["unanswered_count"] for drive in counters["ssd_drives"]))
    print(counters["unanswered_bytes"] > 0)
print(*(int(tensor.unique()) for tensor in tensors))
""",
        drive_count=2,
    )
    values = " ".join(str(number + 4) for number in range(12))
    assert lines == ["1 0", "True", values], err
    assert code == 0
    assert "drive0) has not answered a write of" in err
    assert "it is left alone until it answers" in err


def test_read_that_hangs_is_an_error_that_names_tensor_and_drive(run):
    code, lines, err = run("""
with session(io_timeout=2) as run:
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    try:
        add(tensors)
    except RuntimeError as error:
        print(error, flush=True)
    library.faulty_drives_release()
    while run.counters()["unanswered_bytes"] > 0:
        torch.ones(1).add_(1)
    print(len([tensor.sum() for tensor in tensors]))
""")
    *told, last = lines
    assert "did not come back" in told[0] and "tensor " in told[0], err
    assert "drive0) has not answered a read of" in " ".join(told)
    assert last == "12", err
    assert code == 0


# At the end, what has registered first runs last: after static objects have been destroyed.
ANSWERED_LAST = """\
import ctypes, os
at_exit = getattr(ctypes.CDLL(None), "__cxa_atexit")
at_exit(ctypes.CDLL(None).usleep, ctypes.c_void_p(500_000), None)
at_exit(ctypes.CDLL(os.environ["LD_PRELOAD"]).faulty_drives_release, None, None)
"""


def test_drive_that_answers_while_the_process_ends(spawn, end_of, tmp_path, two_drives):
    program = """
with session(io_timeout=0.5):
    tensors = new_tensors()
    add(tensors)
    hang(READS)
    add(tensors)
"""
    (tmp_path / "train.py").write_text(ANSWERED_LAST + HEAD + program)
    done = end_of(spawn([sys.executable, tmp_path / "train.py", two_drives[0]], preload=LIBRARY))
    assert "did not come back" in done.stderr
    assert "answers reads again" in done.stderr
    assert done.returncode == 1, done.stderr
