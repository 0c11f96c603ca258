"""Compares every bit of trainings with and without offloading (workloads/compare_bits.py)."""

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
    shape = ["--steps", "3", "--width", "64"] if workspace.is_tiny else []
    options = ["--device", workspace.device, "--ssd", workspace.ssd, *shape, *options]
    command = workspace.workload("compare_bits", "--case", case, *options)
    programs.run(command, workspace.environment)
