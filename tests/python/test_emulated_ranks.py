"""Several processes train on emulated GPUs, one each, with gloo between them: equal bits."""

import subprocess
import sys

import emulated_gpu
import pytest
from front_end_trainings import ENVIRONMENT, Training, check_equal_bits

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# By the way to train: what is recognised of it, and the shares of the peak.
WAYS = {
    "DDP": ("DDP", (50,)),
    "FSDP2": ("FSDP2, DTensor", (25,)),
    "tensor parallel": ("DTensor", (25,)),
}


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_on_a_gpu_each(way, tmp_path):
    emulated_gpu.skip_without_machine()
    machine = emulated_gpu.environment(
        devices=2, memory_bytes=5 << 30, seed=1, **emulated_gpu.HOSTILE
    )
    paths = f"{machine['PYTHONPATH']}:{ENVIRONMENT['PYTHONPATH']}"
    environment = machine | {"PYTHONPATH": paths, "TRAINING_DEVICE": "cuda"}

    def run(arguments, folder):
        command = [sys.executable, *TORCHRUN, *map(str, arguments)]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )

    training = Training(run, tmp_path, "parallel.py", way, options=("--device", "cuda"))
    check_equal_bits(training, *WAYS[way])
