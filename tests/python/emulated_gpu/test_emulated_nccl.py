"""The emulated NCCL (testing/cuda_emulation/nccl) under PyTorch's own process group."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import emulated_gpu
import pytest
import torch

PROGRAM = Path(__file__).parents[1] / "programs" / "emulated_collectives.py"
# A rank that gives up does not wait until the other one has told of its collectives.
RANKS = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "1"}
CHECKS = ("reductions", "moves", "parts", "transfers", "groups", "waits")


@pytest.fixture
def ranks(tmp_path):
    """Runs checks on two ranks, each with a GPU of its own; gives their exit statuses and texts."""
    emulated_gpu.skip_without_machine()

    def ranks(*checks, **settings):
        with socket.create_server(("localhost", 0)) as found:
            address = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(found.getsockname()[1])}
        machine = emulated_gpu.environment(
            devices=2, memory_bytes=1 << 30, **emulated_gpu.HOSTILE, **settings
        )
        processes = [
            subprocess.Popen(
                [sys.executable, PROGRAM, *checks],
                cwd=tmp_path,
                env=machine | address | RANKS | {"RANK": rank, "LOCAL_RANK": rank},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in ("0", "1")
        ]
        try:
            texts = [process.communicate(timeout=180)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        return [process.returncode for process in processes], texts

    return ranks


def told(text):
    """The checks that a rank tells the success of, among the warnings of PyTorch."""
    end = " as expected"
    return tuple(line.removesuffix(end) for line in text.splitlines() if line.endswith(end))


@pytest.mark.full
@pytest.mark.parametrize("seed", [0, 2])
def test_each_collective_gives_what_it_must(ranks, seed):
    codes, texts = ranks(*CHECKS, seed=seed)
    assert codes == [0, 0], texts
    assert told(texts[0]) == CHECKS


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


@pytest.mark.full
def test_a_rank_whose_peer_is_killed_ends_and_leaves_nothing(ranks):
    before = set(os.listdir("/dev/shm"))
    (code, killed), texts = ranks("end_of_a_rank", seed=1)
    assert killed == -9
    assert code != 0 and "rank 1 has ended" in texts[0], (code, texts)
    assert set(os.listdir("/dev/shm")) <= before


def test_the_library_has_what_pytorch_asks_for():
    """A name that is missing would end a program at its first call."""
    emulated_gpu.skip_without_machine()
    if shutil.which("nm") is None:
        pytest.skip("missing: nm (binutils)")
    asked = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    names = [
        subprocess.run(["nm", "-D", kind, path], capture_output=True, text=True, check=True).stdout
        for kind, path in (
            ("--undefined-only", asked),
            ("--defined-only", emulated_gpu.LIBRARIES / "libnccl.so.2"),
        )
    ]
    asked, defined = (
        {line.split()[-1].split("@")[0] for line in text.splitlines()} for text in names
    )
    asked = {name for name in asked if name.startswith("nccl")}
    assert len(asked) > 30
    assert asked <= defined, asked - defined
