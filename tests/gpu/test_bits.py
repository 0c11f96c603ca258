"""Compares every bit of trainings with and without offloading (workloads/train_matrix.py)."""

import os
import shutil
import sysconfig
from pathlib import Path

import programs
import pytest

COMPILED = "llama, compiled"
JOBS = (
    "llama, AdamW",
    "llama, foreach AdamW, clipping",
    "llama, fused AdamW, schedule",
    "llama, bf16 autocast, gradients zeroed",
    "llama, reentrant checkpointing",
    "encoder, dropout, evaluation",
    COMPILED,
)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "job", ["llama, changing lengths", *(pytest.param(job, marks=pytest.mark.full) for job in JOBS)]
)
def test_bits(workspace, job):
    """Within half of the peak, and with everything evicted or discarded after every op."""
    missing = missing_for_compile(workspace.device) if job == COMPILED else ""
    if missing:
        pytest.skip(f"torch.compile needs {missing}")
    options = ["--device", workspace.device, "--ssd", workspace.ssd, "--stress", job]
    programs.run(workspace.workload("train_matrix", *options), workspace.environment)


def missing_for_compile(device) -> str:
    """Returns what torch.compile lacks here; nothing else of the checks compiles code.

    On a GPU it compiles what launches its kernels, on the CPU the kernels.
    """
    variable, compilers = ("CC", ("gcc", "clang")) if device == "cuda" else ("CXX", ("g++",))
    candidates = [os.environ[variable]] if variable in os.environ else compilers
    if not any(map(shutil.which, candidates)):
        return f"a compiler: there is no {' or '.join(candidates)}"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return "" if header.exists() else f"Python's headers: there is no {header}"
