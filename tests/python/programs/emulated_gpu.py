"""Running Python programs on the emulated GPU (testing/cuda_emulation)."""

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
# Its operators are built for one version of PyTorch.
NEWEST_BUILD = ROOT / "build-newest-gpu"
BUILD = ROOT / "build" if torch.__version__.startswith("2.11.") else NEWEST_BUILD
LIBRARIES = BUILD / "emulated_cuda"
# Forgotten waits and early frees show: streams in an order by seed, late, and new memory poisoned.
HOSTILE = {"lazy": 1, "poison": 1}
# The begin of programs with sessions.
SESSIONS = """
import tempfile
import stress_modes
import torch
import teraio

directory = tempfile.mkdtemp(dir=".")
torch.ones(1, device="cuda")

def offload(budget, **options):
    options = {"ssd": directory, "ssd_capacity": "600MB", "device": "cuda"} | options
    return stress_modes.offload(budget, **options)
"""

PYTHON_FOLDERS = ("testing/cuda_emulation/python", "tests/python/programs", "")
PRELOADED = ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1", "libnccl.so.2")


def skip_without_machine():
    """Skips a test where the machine cannot be, or was not, built for the PyTorch of the tests."""
    if torch.version.cuda is None or not torch.version.cuda.startswith("13."):
        pytest.skip("not applicable: the emulated GPU needs a PyTorch for CUDA 13")
    if not (LIBRARIES / "operators.so").exists():
        pytest.skip(f"missing: the emulated GPU (ninja -C {BUILD.name} emulated_cuda)")


def environment(**settings):
    """os.environ for a program on the machine. `seed=1` sets TERAIO_EMULATED_CUDA_SEED."""
    return (
        os.environ
        | {
            "LD_PRELOAD": ":".join(str(LIBRARIES / name) for name in PRELOADED),
            "TERAIO_EMULATED_CUDA_OPERATORS": str(LIBRARIES / "operators.so"),
            "PYTHONPATH": ":".join(
                [*(f"{ROOT}/{each}" for each in PYTHON_FOLDERS), os.environ.get("PYTHONPATH", "")]
            ),
            "OMP_NUM_THREADS": "1",
        }
        | {f"TERAIO_EMULATED_CUDA_{name.upper()}": str(value) for name, value in settings.items()}
    )
