"""Measures other ways to train with less memory, and ours within the peaks that they take."""

import json

import programs
import pytest
from trainings import Training

PEERS = ("save_on_cpu", "fsdp2")
ARMS = ("stock", "ample", *PEERS)
JOBS = [
    pytest.param(Training("1b", "fp32", ARMS, 60), marks=pytest.mark.full, id="1b-fp32"),
    pytest.param(Training("1b", "bf16", ARMS, 60), marks=pytest.mark.full, id="1b-bf16"),
    pytest.param(Training("tiny", "fp32", ARMS, 60), marks=pytest.mark.tiny, id="tiny-fp32"),
]
STEPS = 5


@pytest.fixture(scope="module")
def peaks():
    """The peaks in bytes that peers have told so far, by job and peer."""
    return {}


@pytest.mark.parametrize("training", JOBS, scope="class")
class TestJob:
    @pytest.mark.timeout(60)
    @pytest.mark.needs_seconds(20)
    @pytest.mark.parametrize("peer", PEERS)
    def test_peer(self, workspace, training, peaks, peer, trainers, tmp_path, record_property):
        trainers.close()
        out = tmp_path / "record.json"
        options = workspace.job_options(training.job, training.precision, STEPS)
        command = workspace.workload("measure_peer", "--peer", peer, "--out", out, *options)
        programs.run(command, workspace.training_environment)
        record = json.loads(out.read_text())
        record_property("peer", record | {"title": training.title})
        peaks[training.title, peer] = record["peak_bytes"]

    @pytest.mark.timeout(75)
    @pytest.mark.needs_seconds(20)
    @pytest.mark.parametrize("arm", ARMS, ids=lambda arm: f"within-{arm}" if arm in PEERS else arm)
    def test_ours(self, training, measure, peaks, arm):
        """Measures ours within the peak of each peer, with stock and ample beside it."""
        found = {peer: peaks.get((training.title, peer)) for peer in PEERS}
        if not any(found.values()):
            pytest.skip("no peer has told its peak")
        if arm in PEERS and not found[arm]:
            pytest.skip(f"{arm} has not told its peak")
        measure(training, f"host-at-{found[arm]}" if arm in PEERS else arm)
