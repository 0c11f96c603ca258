"""Several processes train on emulated GPUs, one each, with NCCL or gloo: equal bits."""

import subprocess
import sys

import drawn
import emulated_gpu
import pytest
from front_end_trainings import ENVIRONMENT, PROGRAMS, Training, by_ranks, check_equal_bits

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# By the library and the way to train: the share of the peak.
WAYS = {
    ("nccl", "DDP"): 50,
    ("nccl", "FSDP2"): 25,
    ("nccl", "tensor parallel"): 25,
    ("nccl", "interleaved 1F1B"): 25,
    ("gloo", "DDP"): 50,
}


@pytest.mark.full
@pytest.mark.parametrize(("backend", "way"), drawn.in_turn(WAYS))
def test_two_ranks_on_a_gpu_each(warm_gpu_server, backend, way, tmp_path):
    machine = emulated_gpu.environment(
        devices=2, memory_bytes=5 << 30, seed=1, **emulated_gpu.HOSTILE
    )
    paths = f"{machine['PYTHONPATH']}:{ENVIRONMENT['PYTHONPATH']}"
    settings = {"TRAINING_DEVICE": "cuda", "TRAINING_BACKEND": backend}
    environment = machine | settings | {"PYTHONPATH": paths}

    def launch(arguments, folder):
        command = [sys.executable, *TORCHRUN, *map(str, arguments)]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )

    run = by_ranks(warm_gpu_server, 2, environment)
    words = [PROGRAMS / "parallel.py", way]
    training = Training(run, tmp_path, words, options=("--device", "cuda"))
    check_equal_bits(training, WAYS[backend, way], launch=launch)
