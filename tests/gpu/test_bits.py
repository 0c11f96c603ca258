"""Compares every bit of trainings with and without offloading (workloads/compare_bits.py)."""

import os
import shutil
import sysconfig
from pathlib import Path

import programs
import pytest

CASES = ("single", "foreach", "fused", "autocast", "checkpointing", "compile")
full = pytest.mark.full


@full
@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", [*CASES, "deviation"])
def test_planned(workspace, case):
    """The budget is half of the peak."""
    compare_bits(workspace, case)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("case", ["deviation", *(pytest.param(case, marks=full) for case in CASES)])
def test_evicted_after_every_op(workspace, case):
    compare_bits(workspace, case, "--stress")


def compare_bits(workspace, case, *options):
    """Fails when the bits differ or nothing has moved."""
    missing = missing_for_compile(workspace.device) if case == "compile" else ""
    if missing:
        pytest.skip(f"torch.compile needs {missing}")
    shape = ["--steps", "3", "--width", "64"] if workspace.is_tiny else []
    options = ["--device", workspace.device, "--ssd", workspace.ssd, *shape, *options]
    command = workspace.workload("compare_bits", "--case", case, *options)
    programs.run(command, workspace.environment)


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
