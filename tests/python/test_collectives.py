"""Operands of collectives: there while a library works on them, and movable again after that."""

import os

import pytest

# Two processes of gloo. Everything that can leave does so after every op, so that a large tensor is
# away unless something keeps it; `away()` runs an op that has nothing to do with it.
PRELUDE = """\
import sys, torch, teraio, teraio.core
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
LARGE = 500_000
session = teraio.offload("64MB", ssd=sys.argv[1], ssd_capacity="100MB", evict_after_every_op=True)

def large(value):
    return torch.full((LARGE,), float(value)) + 0

def bytes_away():
    torch.ones(4) + 1
    return session.counters()["bytes_away"]

def settle(expected, what):
    # The library's thread lets go of a work a moment after it has said that it is complete.
    for _ in range(10_000):
        found = bytes_away()
        if found == expected:
            return
    raise AssertionError(f"{what}: {found} bytes are away, expected {expected}")

def same(tensor, value):
    assert torch.equal(tensor[::1000], torch.full((LARGE // 1000,), float(value))), tensor
"""

PENDING = """\
with session:
    tensor = large(rank + 1)
    settle(4 * LARGE, "before")
    if rank == 1:
        store.wait(["seen"])  # the other process looks at its tensor while this one is missing
        work = dist.all_reduce(tensor, async_op=True)
    else:
        work = dist.all_reduce(tensor, async_op=True)
        for _ in range(5):
            assert bytes_away() == 0, "it moved under the collective"
        assert not work.is_completed()
        store.set("seen", "yes")
    work.wait()
    assert bytes_away() == 0, "the program has the work, and may still wait for it"
    del work
    settle(4 * LARGE, "after")
    same(tensor, 3)
"""

WAITED = """\
with session:
    tensor = large(rank + 1)
    dist.all_reduce(tensor)
    settle(4 * LARGE, "all_reduce")
    same(tensor, 3)
    dist.broadcast(tensor, 0)
    settle(4 * LARGE, "broadcast")
    halves = large(rank + 1), torch.empty(LARGE // 2)
    dist.reduce_scatter_tensor(halves[1], halves[0])
    settle(10 * LARGE, "reduce_scatter_tensor")
    assert halves[1][::1000].eq(3).all()
    gathered = [torch.empty(LARGE) for _ in range(2)]
    dist.all_gather(gathered, large(rank + 5))
    same(gathered[0], 5)
    same(gathered[1], 6)
    settle(18 * LARGE, "all_gather")
    if rank == 0:
        dist.send(gathered[0], 1)
    else:
        dist.recv(gathered[1], 0)
        same(gathered[1], 5)
    settle(18 * LARGE, "send and recv")
"""

FUNCTIONAL = """\
import torch.distributed._functional_collectives as functional

with session:
    tensor = large(rank + 1)
    for round in range(3):
        result = functional.all_reduce(tensor, "sum", dist.group.WORLD)
        for _ in range(20):
            torch.ones(4) + 1  # what can be evicted is, and poisoned
        same(result, 3)
        shards = functional.reduce_scatter_tensor(tensor, "sum", 0, dist.group.WORLD)
        for _ in range(20):
            torch.ones(4) + 1
        assert shards[::1000].eq(3).all(), shards
    del result, shards
    settle(4 * LARGE, "functional")
"""

DROPPED = """\
with session:
    # Nobody has the tensor or the work any more: the library is done, and the memory free again.
    for _ in range(20):
        dist.all_reduce(large(1), async_op=True)
        torch.ones(4) + 1
    dist.barrier()
    settle(0, "dropped")
    for _ in range(1000):
        torch.ones(4) + 1
        if session.counters()["device_bytes"] < LARGE:
            break
    else:
        raise AssertionError(session.counters()["device_bytes"])
"""

COALESCED = """\
with session:
    tensor = large(rank + 1)
    teraio.core.set_coalescing(True)  # as ProcessGroup._start_coalescing does
    dist.all_reduce(tensor)
    teraio.core.set_coalescing(False)
    for _ in range(100):
        assert bytes_away() == 0, "nobody has told that it is over"
    same(tensor, 3)
"""


@pytest.mark.parametrize("program", [PENDING, WAITED, FUNCTIONAL, DROPPED, COALESCED])
def test_operands_stay_until_the_work_is_over(python, tmp_path, program):
    ssd = tmp_path / "ssd"
    ssd.mkdir()
    end = "dist.destroy_process_group()\nprint('all is well')\n"
    (tmp_path / "program.py").write_text(PRELUDE + program + end)
    done = python(
        "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
        "program.py", ssd, env={**os.environ, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"},
    )  # fmt: skip
    assert done.code == 0, done
    assert done.out.count("all is well") == 2, done


# Says the bits of its losses and parameters, with everything evicted after every op or without us.
TRAIN = """\
import contextlib, sys, torch, teraio
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

mode, ssd = sys.argv[1:]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
evicting = teraio.offload("64MB", ssd=ssd, ssd_capacity="100MB", evict_after_every_op=True)
with evicting if mode == "evicting" else contextlib.nullcontext():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(200, 200) for _ in range(3)]
    model = torch.nn.Sequential(*(torch.nn.Sequential(layer, torch.nn.ReLU()) for layer in layers))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    said = []
    for step in range(4):
        torch.manual_seed(10 * step + rank)
        loss = model(torch.randn(128, 200)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        said.append(loss.item().hex())
    for parameter in model.parameters():
        said.append(parameter.to_local().double().sum().item().hex())
    if mode == "evicting":
        assert evicting.counters()["ssd_bytes_read"] > 10_000_000, evicting.counters()
open(f"{mode}{rank}", "w").write("\\n".join(said))
dist.destroy_process_group()
"""


def test_fsdp_has_the_same_bits(python, tmp_path):
    (tmp_path / "ssd").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    for mode in ("plain", "evicting"):
        done = python(
            "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
            "train.py", mode, tmp_path / "ssd",
            env={**os.environ, "OMP_NUM_THREADS": "1", "USE_LIBUV": "0"},
        )  # fmt: skip
        assert done.code == 0, done
    for rank in (0, 1):
        said = [(tmp_path / f"{mode}{rank}").read_text() for mode in ("plain", "evicting")]
        assert said[0] == said[1]
