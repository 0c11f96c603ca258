"""Finds the GPU and measures the drive, which the other checks rely on."""

import programs
import pytest


def test_gpu_is_found(workspace):
    if workspace.device != "cuda":
        pytest.skip(f"the device is {workspace.device}")
    command = [workspace.program("device_tests"), "--gtest_filter=*TellsWhatItIs"]
    if "[  SKIPPED ]" in programs.run(command):
        pytest.fail("our build finds no GPU that it can use", pytrace=False)


@pytest.mark.timeout(60)
def test_drive_is_measured(workspace):
    """The rates stay in the cache of the checks; nothing else runs meanwhile."""
    command = [workspace.program("teraio"), "probe", "--thorough", "--ssd", workspace.ssd]
    command += ["--out", workspace.work / "hardware.json"]
    command += ["--seconds", "0.1"] if workspace.is_tiny else []
    programs.run(command, workspace.environment)
