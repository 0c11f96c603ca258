"""The emulated NCCL (testing/cuda_emulation/nccl) under PyTorch's own process group."""

import socket
from pathlib import Path

import emulated_gpu
import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "emulated_collectives.py"
# A rank that gives up does not wait until the other one has told of its collectives.
RANKS = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1"}
CHECKS = ("reductions", "moves", "parts", "transfers", "groups", "waits")


@pytest.fixture
def ranks(warm_gpu_server, tmp_path):
    """Runs checks on two ranks, each with a GPU of its own; gives their exit statuses and texts."""

    def ranks(*checks, **settings):
        with socket.create_server(("localhost", 0)) as found:
            address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(found.getsockname()[1])}
        machine = emulated_gpu.environment(
            devices=2, memory_bytes=1 << 30, **emulated_gpu.HOSTILE, **settings
        )
        programs = [
            ([PROGRAM, *checks], address | RANKS | {"RANK": rank, "LOCAL_RANK": rank})
            for rank in ("0", "1")
        ]
        done = warm_gpu_server.run(programs, tmp_path, machine)
        return [each.returncode for each in done], [each.stdout + each.stderr for each in done]

    return ranks


def told(text):
    """The checks that a rank tells the success of, among the warnings of PyTorch."""
    end = " as expected"
    return tuple(line.removesuffix(end) for line in text.splitlines() if line.endswith(end))


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.full)])
def test_collectives_get_tensors_that_have_left(ranks, seed):
    # "waits" looks at rank 0 while rank 1 is missing, when what leaves waits for the collective.
    checks = (*CHECKS[:-1], "ends_of_groups")
    codes, texts = ranks("--session", *checks, seed=seed)
    assert codes == [0, 0], texts
    assert told(texts[0]) == checks


@pytest.mark.full
def test_a_wait_that_the_library_forgets_shows(ranks):
    codes, texts = ranks("waits", seed=1, forgets_waits_of="libtorch_cuda")
    assert codes[0] != 0 and "it has not waited" in texts[0], (codes, texts)
