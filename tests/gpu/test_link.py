"""Measures the link and the drive beside what the machine can do."""

import json

import programs
import pytest


@pytest.mark.timeout(90)
@pytest.mark.needs_seconds(20)
def test_link_and_drive(workspace, record_property):
    """What the engine moves between the device and its tiers, and bare pinned copies."""
    command = [workspace.program("teraio"), "probe", "--bench", "--json"]
    command += ["--device", workspace.device, "--ssd", workspace.ssd]
    command += ["--seconds", "0.05", "--size", "256MiB"] if workspace.is_tiny else []
    output = programs.run(command, workspace.environment)
    record_property("link", json.loads(output[output.index("{") :]))
