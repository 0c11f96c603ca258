"""How long work lasts on an emulated GPU that has rates: its own time, not the CPU's."""

import pytest

RATES = {
    "flops_per_second": 10**9,
    "memory_bytes_per_second": 10**8,
    "link_bytes_per_second": 10**7,
}

# Prints the microseconds that the units of the GPU work for the operation `op`, without those by
# which the CPU is late. At the first call of an operator the shapes of its results are unknown.
MEASURE = """
import ctypes, torch

runtime = ctypes.CDLL("libcudart.so.13")

def microseconds(unit):
    busy, late = ctypes.c_uint64(), ctypes.c_uint64()
    runtime.cudaEmulatedTimes(0, unit, ctypes.byref(busy), ctypes.byref(late))
    return (busy.value - late.value) / 1e3

def measure(unit, op):
    for _ in range(2):
        torch.cuda.synchronize()
        before = microseconds(unit)
        result = op()
        torch.cuda.synchronize()
    print(round(microseconds(unit) - before))

def tensor(*shape):
    return torch.ones(shape, device="cuda")

attention = torch.nn.functional.scaled_dot_product_attention
"""

# (what it takes, the operation, its FLOPs or None, its bytes or None: what it lasts by)
KERNELS = [
    ("x = tensor(100, 200); y = tensor(200, 300)", "x @ y", 2 * 100 * 200 * 300, None),
    ("x = tensor(2, 4, 200, 16)", "attention(x, x, x)", 4 * 8 * 200 * 200 * 16, None),
    (
        "x = tensor(2, 4, 200, 16)",
        "attention(x, x, x, is_causal=True)",
        2 * 8 * 200 * 200 * 16,
        None,
    ),
    ("x = tensor(4, 10, 20); y = tensor(4, 20, 300)", "x @ y", None, 4 * 4 * (200 + 6000 + 3000)),
    ("x = tensor(1000); y = tensor(1000)", "x + y", None, 12_000),
    ("x = tensor(1000, 9); y = tensor(9).expand(1000, 9)", "x + y", None, 72_036),
    ("x = tensor(1000)", "x.add_(1)", None, 8_000),
    ("x = [tensor(1000), tensor(500)]", "torch._foreach_add_(x, 1)", None, 12_000),
    ("x = tensor(9000, 100); y = torch.zeros(10, dtype=int).cuda()", "x[y]", None, 8_080),
    ("x = tensor(1000)", "x.clone()", None, 8_000),
    ("x = tensor(1000)", "x.zero_()", None, 4_000),
]


def test_a_kernel_lasts_as_long_as_its_work(program):
    lines = [f"{make}\nmeasure(b'compute', lambda: {op})" for make, op, *_ in KERNELS]
    measured = program("\n".join([MEASURE, *lines]), **RATES)
    for (_, op, flops, size_bytes), microseconds in zip(KERNELS, measured, strict=True):
        seconds = flops / 1e9 if flops else size_bytes / 1e8
        assert int(microseconds) == pytest.approx(seconds * 1e6, abs=1), op


def test_a_copy_lasts_as_long_as_its_bytes_on_the_link(program):
    text = (
        MEASURE
        + """
device, pinned, pageable = tensor(1000), torch.ones(1000).pin_memory(), torch.ones(1000)
measure(b"copy in", lambda: device.copy_(pinned, non_blocking=True))
measure(b"copy in", lambda: device.copy_(pageable))
measure(b"copy out", lambda: pinned.copy_(device, non_blocking=True))
measure(b"copy out", lambda: device.copy_(pinned, non_blocking=True))
"""
    )
    assert program(text, **RATES) == ["400", "400", "400", "0"]


def test_rates_go_without_an_order_by_seed(on_gpu, tmp_path):
    (tmp_path / "program.py").write_text("import torch; torch.ones(1, device='cuda')")
    done = on_gpu(tmp_path / "program.py", seed=1, **RATES)
    assert done.code == 2
    assert "TERAIO_EMULATED_CUDA_SEED=0" in done.err
