"""Streams, graphs and scattered memory in a session (workloads/exercise_streams.py)."""

import programs
import pytest


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", ["side-stream", "record-stream", "capture", "fragmentation"])
def test_results_are_those_without_a_session(workspace, case):
    if workspace.device != "cuda":
        pytest.skip("not applicable: the device has no streams")
    rounds = 10 if workspace.is_tiny else 200
    options = ["--case", case, "--rounds", rounds, "--ssd", workspace.ssd]
    programs.run(workspace.workload("exercise_streams", *options), workspace.environment)
