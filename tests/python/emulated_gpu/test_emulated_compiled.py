"""torch.compile on the emulated GPU: each launch of a kernel of Triton is an op.

Triton's interpreter runs the kernels (testing/cuda_emulation/python/teraio_emulated_triton.py).
"""

import pytest

PROGRAM = """
import dataclasses
import os
import torch
from matrix import budgets
from tests.python.hooks.test_compiled import TRAININGS, check_within_share

os.mkdir("ssd")
torch.set_num_threads(1)
budgets.settle_kernels()
training = dataclasses.replace(
    TRAININGS["graph breaks"], device="cuda", compile_update=torch.compile, layers=2
)
session = check_within_share(training, ssd="ssd")
print("equal bits")
print(session.counters()["held_for_good_bytes"], "bytes held")
ops = session.trace().to_dict()["ops"]
print(max(len({*op["reads"], *op["writes"]}) for op in ops), "tensors of an op at most")
names = {op["name"] for op in ops}
print(*sorted({name.split("_")[0] for name in names if name.startswith("inductor::")}))
"""


@pytest.mark.full
@pytest.mark.timeout(900)
def test_equal_bits_within_a_share_of_the_peak(program, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert program(PROGRAM, seed=1, poison=1, memory_bytes=5 << 30, timeout_s=800) == [
        "equal bits",
        "0 bytes held",
        "4 tensors of an op at most",
        "inductor::empty inductor::triton",
    ]
