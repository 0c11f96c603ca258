"""PyTorch and TERAIO on the emulated GPU: the CUDA path without hardware."""

from pathlib import Path

import drawn
import pytest
from emulated_gpu import HOSTILE
from matrix import catalogue

TRAININGS = Path(__file__).parents[2] / "gpu" / "workloads" / "train_matrix.py"


# A reader on a side stream: with and without the wait, and with and without record_stream.
STREAMS = """
import torch

def wrong_of_20(waits, records):
    count = 0
    for _ in range(20):
        stream = torch.cuda.Stream()
        x = torch.full((1 << 18,), 3.0, device="cuda")
        if waits:
            stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = x * 1 * 1
            z = x * 2
        if records:
            x.record_stream(stream)
        del x
        torch.zeros(1 << 18, device="cuda")
        torch.cuda.synchronize()
        count += bool((z != 6).any())
    return count

wrong_of_20(True, True)
print(wrong_of_20(True, True), wrong_of_20(False, True) > 0, wrong_of_20(True, False) > 0)
"""


def test_forgotten_waits_and_early_frees_show(program):
    assert program(STREAMS, seed=1, **HOSTILE) == ["0 True True"]


JOBS = ["llama, foreach AdamW, clipping", "encoder, autocast, fused"]


@pytest.mark.parametrize("arguments", [JOBS, ["--stress", "llama, SGD with momentum"]])
def test_jobs_have_equal_bits(arguments, on_gpu):
    done = on_gpu(TRAININGS, *arguments, memory_bytes=4 << 30, seed=1, **HOSTILE)
    assert done.code == 0, done


@pytest.mark.full
@pytest.mark.parametrize("part", drawn.in_turn(range(6)))
def test_every_job_has_equal_bits_when_everything_leaves(part, on_gpu):
    seed = drawn.one_of(range(1, 1001), part)
    jobs = list(catalogue.JOBS)[part::6]
    settings = {"memory_bytes": 4 << 30, "seed": seed, "timeout_s": 900} | HOSTILE
    done = on_gpu(TRAININGS, "--stress", *jobs, **settings)
    assert done.code == 0, (seed, done)
    assert done.out.count(": equal bits") == len(jobs)


@pytest.mark.full
def test_a_wait_that_we_forget_shows(on_gpu):
    settings = {"memory_bytes": 4 << 30, "seed": 1, "forgets_waits_of": "/teraio/torch_"} | HOSTILE
    done = on_gpu(TRAININGS, JOBS[0], **settings)
    assert done.code == 1 and f"{JOBS[0]}: differs" in done.out, done


# 192 MiB that nobody uses, and 128 MiB more of another stream, in pieces of several sizes.
SIDE_STREAM = """
stream = torch.cuda.Stream()
for piece_mib in 16, 4, 1:
    with offload("256MiB", policy="on-demand") as session:
        idle = [torch.full((4 << 20,), float(i), device="cuda") + 0 for i in range(12)]
        with torch.cuda.stream(stream):
            more = [torch.zeros(piece_mib << 18, device="cuda") for _ in range(128 // piece_mib)]
        print(session.counters()["ssd_bytes_written"] >= 64 << 20)
        del more
        print(all(float(tensor[5]) == i for i, tensor in enumerate(idle)))
        del idle
    torch.cuda.empty_cache()
"""


def test_another_stream_gets_memory_of_tensors_that_can_leave(with_sessions):
    assert with_sessions(SIDE_STREAM) == ["True"] * 6


# Tensors of another stream, which frees and reuses their memory while they are being adopted.
ADOPTED_FROM_ANOTHER_STREAM = """
stream = torch.cuda.Stream()
right = 0
for i in range(20):
    with torch.cuda.stream(stream):
        x = torch.full((1 << 18,), float(i), device="cuda")
    torch.cuda.current_stream().wait_stream(stream)
    with offload("256MiB"):
        y = x + 1
        with torch.cuda.stream(stream):
            torch.full((1 << 18,), -1.0, device="cuda")
        right += bool((y == i + 1).all())
print(right)
"""


@pytest.mark.full
def test_an_adopted_tensor_of_another_stream_has_its_bytes(with_sessions):
    assert with_sessions(ADOPTED_FROM_ANOTHER_STREAM, seed=1, lazy=1) == ["20"]


# Tensors that were discarded, used by another stream, which waits for the session's as it should.
DISCARDED_FOR_ANOTHER_STREAM = """
stream = torch.cuda.Stream()
with offload("256MiB", discard_after_every_op=True) as session:
    right = 0
    for i in range(20):
        x = torch.full((1 << 18,), float(i), device="cuda")
        y = x * 2
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = y + 1
        torch.cuda.current_stream().wait_stream(stream)
        right += bool((z == 2 * i + 1).all())
    print(right, session.counters()["on_demand_replays"] >= 20)
"""


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_another_stream_gets_tensors_that_are_made_again(seed, with_sessions):
    assert with_sessions(DISCARDED_FOR_ANOTHER_STREAM, seed=seed, **HOSTILE) == ["20 True"]


# A tensor that both streams read and nobody writes: the program makes neither wait. The session
# adopts it on its stream, or has brought it back there.
READ_BY_BOTH_STREAMS = """
stream = torch.cuda.Stream()
right = 0
for i in range(20):
    x = torch.full((1 << 18,), float(i), device="cuda")
    torch.cuda.synchronize()
    with offload("256MiB", evict_after_every_op=i % 2 == 1):
        y = x + 1
        with torch.cuda.stream(stream):
            z = (x + 2).cpu()
        right += bool((y == i + 1).all()) and bool((z == i + 2).all())
print(right)
"""


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
def test_a_tensor_that_two_streams_read_is_there_for_both(seed, with_sessions):
    assert with_sessions(READ_BY_BOTH_STREAMS, seed=seed, **HOSTILE) == ["20"]


# What a session has left on the GPU is used on any stream, and dropped while that use is pending.
USED_AFTER_THE_SESSION = """
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    with offload("256MiB"):
        left = [torch.full((1 << 20,), float(i), device="cuda") for i in range(16)]
torch.cuda.synchronize()
doubled = [left.pop(0) * 2 for _ in range(16)]
print(sum(bool((y == 2 * i).all()) for i, y in enumerate(doubled)))
"""


def test_what_a_session_left_is_used_on_another_stream(with_sessions):
    assert with_sessions(USED_AFTER_THE_SESSION, seed=1, **HOSTILE) == ["16"]


# PyTorch's allocator takes Python's lock for the stack of each allocation, small ones here, and has
# its own lock meanwhile, which the runtime takes. PyTorch indexes with Python's lock.
HISTORY = """
import threading

torch.cuda.memory._record_memory_history(context="all", stacks="python")

def work(is_indexing):
    x = torch.empty(1 << 18, device="cuda")
    for _ in range(500):
        y = x[7:] if is_indexing else torch.empty(1 << 18, device="cuda")
        small = torch.empty(1, device="cuda")
        del y, small

with offload("256MiB") as session:
    threads = [threading.Thread(target=work, args=[i == 0]) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(len(torch.cuda.memory._snapshot()["device_traces"][0]) > 1000)
"""


@pytest.mark.full
def test_the_history_of_memory_is_recorded_beside_other_threads(with_sessions):
    assert with_sessions(HISTORY, timeout_s=60) == ["True"]


TRAINS_ELSEWHERE = """
from contextlib import ExitStack

def run(*contexts):
    with ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context() if callable(context) else context)
        x = torch.ones(1 << 18, device="cuda")
        for _ in range(250):
            x = x + 1

stream = torch.cuda.stream(torch.cuda.Stream())
session = lambda: offload("256MiB")
run(ORDER)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("order", "is_warned"),
    [("session, stream", True), ("stream, session", False), ("session", False)],
)
def test_a_program_that_trains_on_another_stream_is_warned(order, is_warned, outcome_with_sessions):
    done = outcome_with_sessions(TRAINS_ELSEWHERE.replace("ORDER", order))
    assert done.code == 0, done
    assert ("the program runs on another stream" in done.err) == is_warned


# What has not moved since the program ordered its streams.
NOTHING_TO_WAIT_FOR = """
import ctypes

runtime = ctypes.CDLL("libcudart.so.13")
stream = torch.cuda.Stream()
with offload("256MiB") as session:
    x = torch.ones(1 << 20, device="cuda") + 1
    stream.wait_stream(torch.cuda.current_stream())
    before = runtime.cudaEmulatedCalls(b"cudaStreamWaitEvent")
    with torch.cuda.stream(stream):
        y = x * 2 + 3
    print(runtime.cudaEmulatedCalls(b"cudaStreamWaitEvent") - before)
    torch.cuda.current_stream().wait_stream(stream)
    print(float(y[7]))
"""


@pytest.mark.full
def test_another_stream_does_not_wait_for_nothing(with_sessions):
    assert with_sessions(NOTHING_TO_WAIT_FOR) == ["0", "7.0"]


POISONED = """
with offload("64MB", evict_after_every_op=True) as session:
    x = torch.ones(1 << 20, device="cuda")
    y = x + 1  # x leaves
    z = torch.empty(4 << 20, dtype=torch.uint8, device="cuda")
    print([hex(byte) for byte in z.unique().tolist()])
"""


@pytest.mark.full
def test_released_memory_is_poisoned_in_stress_modes(with_sessions):
    assert with_sessions(POISONED) == ["['0xcb']"]


PEAKS = """
parameter = torch.nn.Parameter(torch.ones(1 << 18, device="cuda"))
optimizer = torch.optim.SGD([parameter], lr=0.1)
with offload("256MiB") as session:
    torch.zeros(64 << 20, dtype=torch.uint8, device="cuda")
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    for _ in range(5):
        (parameter * 2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(torch.cuda.max_memory_allocated() >= allocated >= 64 << 20)
    print(torch.cuda.max_memory_reserved() >= reserved >= 64 << 20)
    print(session.counters()["device_reserved_peak_bytes"] >= 64 << 20)
"""


def test_a_gpu_is_the_device_where_there_is_one(program):
    assert program("import teraio; print(teraio.offload().device_budget_bytes < 1 << 30)") == [
        "True"
    ]


@pytest.mark.full
def test_the_programs_peaks_of_memory_are_its_own(with_sessions):
    assert with_sessions(PEAKS) == ["True"] * 3


FRACTIONS = """
fraction = torch.cuda.get_per_process_memory_fraction
for options in (
    {"ssd": "/nowhere/at/all"},
    {"ssd_capacity": "900TB"},
    {"host_limit": "900TB"},
):
    try:
        offload("64MB", **options)
    except teraio.Error:
        print(fraction())
torch.cuda.set_per_process_memory_fraction(0.5)
with offload("64MB"):
    print(fraction() < 0.1)
print(fraction())
with offload("900MB"):
    print(fraction() <= 0.5)
    tensors = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") + 0 for _ in range(10)]
    print(torch.cuda.memory_reserved() <= 512 << 20)
"""


@pytest.mark.full
def test_the_programs_own_limit_comes_back(with_sessions):
    failed = ["1.0"] * 3
    assert with_sessions(FRACTIONS) == [*failed, "True", "0.5", "True", "True"]


SHARED = """
with offload("64MB"):
    tensor = torch.ones(1 << 20, device="cuda")
    try:
        tensor.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        print("share a copy on the CPU" in str(error))
print(float(tensor.sum()))
"""


@pytest.mark.full
def test_a_sessions_tensor_is_not_shared_with_another_process(with_sessions):
    assert with_sessions(SHARED) == ["True", "1048576.0"]


# The machine has 1024 MiB.
AFTER_A_SESSION = """
with offload("800MB", ssd=False, ssd_capacity=0, host_limit="600MB"):
    kept = torch.ones(1 << 20, device="cuda")
    others = [torch.ones(32 << 20, device="cuda") for _ in range(4)]
    del others[1:]
print(torch.cuda.memory_reserved() >> 20)
stocks = torch.empty(700 << 20, dtype=torch.uint8, device="cuda")
del others, stocks
print(torch.cuda.memory_reserved() - 700 * (1 << 20) >> 20, float(kept.sum()))
"""


def test_a_session_leaves_the_memory_that_it_does_not_use(with_sessions):
    assert with_sessions(AFTER_A_SESSION) == ["132", "4 1048576.0"]


PINNED = """
options = {"ssd": False, "ssd_capacity": 0, "host_limit": "64MB", "evict_after_every_op": True}
with offload("64MB", **options):
    tensors = [torch.full((1 << 20,), float(i), device="cuda") for i in range(8)]
    print([float(tensor.sum()) / (1 << 20) for tensor in tensors])
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [({}, False), ({"registers_host": 0}, False), ({"pinnable_bytes": 1 << 20}, True)],
)
def test_the_driver_has_pinned_memory_where_none_can_be_registered(
    settings, is_warned, outcome_with_sessions
):
    done = outcome_with_sessions(PINNED, seed=1, **settings, **HOSTILE)
    assert done.code == 0, done
    assert done.out.strip() == str([float(i) for i in range(8)])
    assert ("cannot be pinned" in done.err) == is_warned


CACHED = """
blocks = [torch.empty(32 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
del blocks
print(torch.cuda.memory_reserved() >> 20)
with offload("64MB") as session:
    tensor = torch.ones(1 << 20, device="cuda")
    print(torch.cuda.memory_reserved() <= 64e6, session.counters()["device_reserved_bytes"] <= 64e6)
"""


def test_a_budget_below_what_pytorch_has_cached(with_sessions):
    assert with_sessions(CACHED) == ["258", "True True"]


# A kernel that fails, as an assertion on the device does, ends the use of the GPU.
DEVICE_FAILURE = """
options = {"ssd": False, "host_limit": "64MB", "ssd_capacity": 0, "evict_after_every_op": True}
session = offload("64MB", **options)
session.__enter__()
x = torch.ones(1 << 20, device="cuda") + 1
table = torch.ones(3, device="cuda")
try:
    for place in 1, 7:  # the machine runs the first one at once
        table.gather(0, torch.tensor([place], device="cuda")).cpu()
except RuntimeError:
    print("failed")
for end in lambda: x + 1, lambda: session.__exit__(None, None, None):
    try:
        end()
    except Exception as error:
        print("cudaErrorLaunchFailure" in str(error), "errno" in str(error))
"""


@pytest.mark.full
def test_a_failure_of_the_gpu_is_told_as_it_is(outcome_with_sessions):
    done = outcome_with_sessions(DEVICE_FAILURE, timeout_s=60)
    assert done.out.splitlines() == ["failed", "True False", "True False"], done
    assert "the device has failed" in done.err and "doctor" not in done.err, done


# The runtime keeps a thread's last error, and PyTorch would raise it as one of its own.
LAST_ERRORS = """
import ctypes

runtime = ctypes.CDLL("libcudart.so.13")
errors = set()
with offload("64MB", evict_after_every_op=True) as session:
    tensors = [torch.full((1 << 20,), float(i), device="cuda") for i in range(12)]
    for _ in range(3):
        for i, tensor in enumerate(tensors):
            tensor += 1
            errors.add(runtime.cudaPeekAtLastError())
print(errors, [float(tensor[7]) for tensor in tensors[:2]])
"""


@pytest.mark.parametrize(
    "allocator", ["", pytest.param("backend:cudaMallocAsync", marks=pytest.mark.full)]
)
def test_we_leave_no_error_behind(allocator, with_sessions, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", allocator)
    settings = HOSTILE | {"poison": int(not allocator)}  # which only segments have
    assert with_sessions(LAST_ERRORS, seed=1, **settings) == ["{0} [3.0, 4.0]"]
