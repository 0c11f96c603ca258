"""GPUDirect Storage on the emulated GPU: from an operator to the drive, with a stand-in for cuFile.

The stand-in moves bytes between files and the GPU's memory at once, in no stream's order, and
counts what real cuFile would refuse or do slowly.
"""

import pytest
from emulated_gpu import HOSTILE, ROOT

CUFILE = ROOT / "build" / "testing" / "fake_cufile" / "1150" / "libcufile.so.0"

PROGRAM = """
import ctypes, os, tempfile
import torch
from matrix import budgets, catalogue, jobs

cufile = ctypes.CDLL(os.environ["TERAIO_LIBCUFILE"])
observe, fail = cufile.fake_cufile_observed, cufile.fake_cufile_fail
observe.restype = ctypes.c_int64
fail.argtypes = [ctypes.c_int64, ctypes.c_int64]
torch.set_num_threads(1)
budgets.settle_kernels()
torch.set_default_device("cuda")
job = catalogue.JOBS["llama, AdamW"]
jobs.train(job)  # the emulated operators learn the shapes of their results
expected = jobs.train(job)


def train(budget, **options):
    with tempfile.TemporaryDirectory(dir=".") as ssd:
        outcome, session = budgets.train_within(job, budget, device="cuda", ssd=ssd, **options)
    print("equal bits" if outcome == expected else "other bits")
    (drive,) = session.counters()["ssd_drives"]
    direct = [drive["gpu_direct_bytes_" + way] for way in ("read", "written")]
    return session, drive, direct, [drive["bytes_" + way] for way in ("read", "written")]


def peak_bytes(session):
    return max(iteration["device_peak_bytes"] for iteration in session.iterations())
"""

DIRECT = """
session, drive, direct, moved = train("800MB")
half = peak_bytes(session) // 2
for options in {}, {"evict_after_every_op": True}:
    session, drive, direct, moved = train(half, **options)
    assert drive["gpu_direct_off"] == "" and direct == moved and min(moved) > 0, drive
    torch.cuda.empty_cache()
for what in "handle", "compat", "misaligned", "memory", "memory_misuse":
    print(what, observe(f"{what}_count".encode()))
print("registered", observe(b"registered_call_count") > 0.9 * observe(b"call_count"))
"""

# The GPU of the program stays its current one.
ANOTHER_GPU = """
import tempfile
import teraio
import torch

torch.ones(1, device="cuda:0")
with tempfile.TemporaryDirectory(dir=".") as ssd:
    weight = torch.ones(1 << 20, device="cuda:1")
    with teraio.offload("64MiB", device="cuda:1", ssd=ssd) as session:
        weight = (weight + 1).detach()
        print(torch.cuda.current_device(), session.counters()["ssd_drives"][0]["gpu_direct_off"])
print(torch.cuda.current_device())
"""

FAILING = """
session, drive, direct, moved = train("800MB")
fail(observe(b"call_count") + 200, -5030)
session, drive, direct, moved = train(peak_bytes(session) // 2)
print(drive["gpu_direct_off"].split(" failed: ")[-1])
print(0 < direct[0] < moved[0], 0 < direct[1] < moved[1])
"""


@pytest.fixture
def direct_program(program, monkeypatch):
    monkeypatch.setenv("TERAIO_LIBCUFILE", str(CUFILE))
    return lambda text: program(PROGRAM + text, seed=1, **HOSTILE)


def test_all_bytes_go_directly_and_segments_are_registered(direct_program):
    assert direct_program(DIRECT) == [
        *["equal bits"] * 3,
        *("handle 0", "compat 0", "misaligned 0", "memory 0", "memory_misuse 0"),
        "registered True",
    ]


def test_training_goes_on_through_host_memory_when_cufile_fails(direct_program):
    assert direct_program(FAILING) == [
        *["equal bits"] * 2,
        "internal error (cuFile error 5030)",
        "True True",
    ]


def test_the_programs_current_gpu_stays_so(program, monkeypatch):
    monkeypatch.setenv("TERAIO_LIBCUFILE", str(CUFILE))
    assert program(ANOTHER_GPU, devices=2, **HOSTILE) == ["0 ", "0"]
