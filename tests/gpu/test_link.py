"""Measures the link and the drive beside what the machine can do (workloads/measure_link.py)."""

import json

import programs
import pytest


@pytest.mark.timeout(90)
@pytest.mark.needs_seconds(20)
def test_link_and_drive(workspace, tmp_path, record_property):
    out = tmp_path / "link.json"
    options = ["--teraio", workspace.program("teraio"), "--device", workspace.device]
    options += ["--ssd", workspace.ssd, "--out", out]
    if workspace.is_tiny:
        options += ["--rounds", "1", "--seconds", "0.05", "--size", str(1 << 28)]
    try:
        programs.run(workspace.workload("measure_link", *options), workspace.environment)
    finally:
        if out.exists():  # the rounds that were measured count, even when a later one fails
            record_property("link", json.loads(out.read_text()))


@pytest.mark.timeout(60)
@pytest.mark.needs_seconds(20)
def test_copies_within_the_gpu(workspace, tmp_path, record_property):
    if workspace.device != "cuda":
        pytest.skip(f"the device is {workspace.device}")
    out = tmp_path / "copies.json"
    options = ["--out", out, *(["--tiny", "--seconds", "0.05"] if workspace.is_tiny else [])]
    programs.run(workspace.workload("measure_copies", *options), workspace.training_environment)
    record_property("copies", json.loads(out.read_text()))
