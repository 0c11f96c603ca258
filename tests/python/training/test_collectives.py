"""Operands of collectives: there while a library works on them, and movable again after that."""

import pytest

# Two processes of gloo. Everything that can leave does so after every op, so that a large tensor is
# away unless something keeps it; `away()` runs an op that has nothing to do with it.
PRELUDE = """\
import sys, time, torch, teraio, teraio.core
import torch.distributed as dist

dist.init_process_group("gloo", init_method=sys.argv[1])
rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
LARGE = 500_000
teraio.core.set_options_for_tests(evict_after_every_op=True)
session = teraio.offload("64MB", ssd=sys.argv[2], ssd_capacity="100MB")

def large(value):
    return torch.full((LARGE,), float(value)) + 0

def bytes_away():
    torch.ones(4) + 1
    return session.counters()["bytes_away"]

def wait_until(reached, what):
    # The library's thread releases a work some time after it has reported that it is complete, and
    # nothing tells when. A program that waits for what does not come is ended by the test.
    print("waits:", what, flush=True)
    while not reached():
        time.sleep(0.001)

def settle(expected, what):
    wait_until(lambda: bytes_away() == expected, f"{what}, until {expected} bytes are away")

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
        assert session.counters()["collective_bytes"] == 4 * LARGE
        store.set("seen", "yes")
    work.wait()
    assert bytes_away() == 0, "the program has the work, and may still wait for it"
    del work
    settle(4 * LARGE, "after")
    assert session.counters()["collective_bytes"] == 0
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

# Some of a result that nobody has waited for: PyTorch handles those past the hooks.
FUNCTIONAL = """\
import torch.distributed._functional_collectives as functional

group = dist.group.WORLD
halves = [LARGE // 2] * 2

def after_others(result):
    for _ in range(20):
        torch.ones(4) + 1  # what can be evicted is, and poisoned
    return result

with session:
    tensor = large(rank + 1)
    for round in range(3):
        same(after_others(functional.all_reduce(tensor, "sum", group)), 3)
        shard = after_others(functional.reduce_scatter_tensor(tensor, "sum", 0, group))
        assert shard[::1000].eq(3).all(), shard
        same(after_others(functional.all_gather_tensor(shard, 0, group)), 3)
        pairs = after_others(functional.all_gather_tensor(tensor.view(2, -1), 1, group))
        assert pairs[:, : halves[0] : 1000].eq(1).all() and pairs[:, halves[0] :: 1000].eq(2).all()
        same(after_others(functional.broadcast(tensor, 1, group)), 2)
        mixed = after_others(functional.all_to_all_single(tensor, halves, halves, group))
        assert mixed[: halves[0] : 1000].eq(1).all() and mixed[halves[0] :: 1000].eq(2).all()
        for result in after_others(functional.all_reduce_coalesced([tensor] * 2, "sum", group)):
            same(result, 3)
        for result in after_others(
            functional.all_gather_into_tensor_coalesced([shard] * 2, group)
        ):
            same(result, 3)
    del result, shard, pairs, mixed
    settle(4 * LARGE, "functional")
"""

BACKWARD = """\
import torch.distributed._functional_collectives as functional

class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient

with session:
    tensor = large(rank + 1).requires_grad_()
    (Summed.apply(tensor) * (rank + 1)).sum().backward()
    settle(8 * LARGE, "backward")
    same(tensor.grad, 3)
    whole = functional.all_gather_tensor_autograd(tensor, 0, dist.group.WORLD)
    (whole * (rank + 1)).sum().backward()
    del whole
    settle(8 * LARGE, "functional backward")
    same(tensor.grad, 6)
    assert session.counters()["held_for_good_bytes"] == 0
"""

DROPPED = """\
with session:
    # Nobody has the tensor or the work any more: the library is done, and the memory free again.
    for _ in range(20):
        dist.all_reduce(large(1), async_op=True)
        torch.ones(4) + 1
    dist.barrier()
    settle(0, "dropped")
    def is_free():
        torch.ones(4) + 1
        return session.counters()["device_bytes"] < LARGE
    wait_until(is_free, "until the memory is free")
"""

# The budget holds one of the two tensors.
SHORT = """\
with session:
    tensor = torch.full((10_000_000,), float(rank + 1)).add_(0)
    if rank == 1:
        store.wait(["short"])
        time.sleep(0.2)  # the other process lacks memory by then
    dist.all_reduce(tensor, async_op=True)
    store.set("short", "yes")
    other = torch.zeros(10_000_000)
    del other
    assert tensor[::1000].eq(3).all()
"""

COALESCED = """\
with session:
    for has_failed in False, True:
        tensor = large(rank + 1)
        settle(4 * LARGE, "before")
        teraio.core.begin_coalescing()  # as ProcessGroup._start_coalescing does
        dist.all_reduce(tensor)
        for _ in range(100):
            assert bytes_away() == 0, "the group has not ended"
        assert session.counters()["collective_bytes"] == 4 * LARGE
        work = dist.all_reduce(large(0), async_op=True)  # in the place of the group's own work
        if has_failed:
            teraio.core.fail_coalescing()
        else:
            teraio.core.end_coalescing(work)
        for _ in range(100):
            assert bytes_away() == 0, "its work is not over"
        work.wait()
        del work
        if not has_failed:
            settle(4 * LARGE, "after")
            same(tensor, 3)
        del tensor
    tensor = large(rank)
    teraio.core.begin_coalescing()
    dist.all_reduce(tensor)
    teraio.core.end_coalescing(None)  # it is ordered with the stream
    settle(4 * LARGE, "without a work")
"""


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(PENDING, marks=pytest.mark.full),
        *(WAITED, FUNCTIONAL, BACKWARD, DROPPED, SHORT, COALESCED),
    ],
    ids=["pending", "waited", "functional", "backward", "dropped", "short", "coalesced"],
)
def test_operands_stay_until_the_work_is_over(warm_ranks, tmp_path, program):
    ssd = tmp_path / "ssd"
    ssd.mkdir()
    end = "dist.destroy_process_group()\nprint('all is well')\n"
    (tmp_path / "program.py").write_text(PRELUDE + program + end)
    for rank in warm_ranks("program.py", ssd, timeout_s=120):
        assert rank.code == 0 and rank.out.endswith("all is well\n"), rank


# Compares the bits of losses and parameters without us and with everything evicted after every op.
TRAIN = """\
import contextlib, sys, torch, teraio.core
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

process_group, ssd, *kinds = sys.argv[1:]
dist.init_process_group("gloo", init_method=process_group)
rank = dist.get_rank()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(400, 400) for _ in range(6))

    def forward(self, value, left_out):
        for layer in self.layers:
            if layer is not left_out:
                value = layer(value).relu()
        return value

def reduced(model, kind):
    ddp = DistributedDataParallel(
        model, bucket_cap_mb=1, gradient_as_bucket_view="views" in kind,
        static_graph="static" in kind, find_unused_parameters="unused" in kind,
    )
    if "native" in kind:
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    elif "compressed" in kind:
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return ddp

def flat(model):
    each = ModuleWrapPolicy({torch.nn.Linear})
    return FullyShardedDataParallel(model, auto_wrap_policy=each, device_id=torch.device("cpu"))

def sharded(model):
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)

def built(kind):
    torch.manual_seed(0)
    model = Model()
    if "ddp" in kind:
        model = reduced(model, kind)
    else:
        model = flat(model) if "flat" in kind else sharded(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, foreach="foreach" in kind)

def backward(model, kind, step):
    layers = model.layers if "fsdp" in kind else model.module.layers
    left_out = layers[step % 3] if "unused" in kind else None
    loss = model(torch.randn(32, 400), left_out).square().mean()
    loss.backward()
    return loss.item().hex()

def train(kind, session=None):
    parts = built(kind) if "before" in kind else None
    said = []
    with session or contextlib.nullcontext():
        model, optimizer = parts or built(kind)
        for step in range(5):
            torch.manual_seed(10 * step + rank)
            if "accumulated" in kind:
                with model.no_sync():
                    said.append(backward(model, kind, step))
            said.append(backward(model, kind, step))
            optimizer.step()
            optimizer.zero_grad(set_to_none="kept" not in kind)
        for parameter in model.parameters():
            part = parameter.to_local() if "fsdp" in kind else parameter.detach()
            said.append(part.double().sum().item().hex())
        if session:
            assert ("native" in kind) == (session.counters()["held_for_good_bytes"] > 0), kind
    return said

def offload(budget, **options):
    return teraio.offload(budget, ssd=ssd, ssd_capacity="200MB", **options)

for kind in kinds:
    plain = train(kind)
    ample = offload("200MB")
    assert train(kind, ample) == plain, kind
    teraio.core.set_options_for_tests(evict_after_every_op=True)
    evicting = offload("200MB")
    assert train(kind, evicting) == plain, f"{kind}, evicting"
    assert evicting.counters()["ssd_bytes_read"] > 10_000_000, (kind, evicting.counters())
    peak = max(iteration["device_peak_bytes"] for iteration in ample.iterations())
    tight = offload(int(0.35 * peak))
    assert train(kind, tight) == plain, f"{kind}, within {0.35 * peak} bytes"
    assert tight.counters()["ssd_bytes_read"] > 1_000_000, (kind, tight.counters())
    print("the same:", kind)
dist.destroy_process_group()
"""


REDUCED = [
    "ddp static",
    "ddp accumulated",
    "ddp before",
    "ddp views before",
    "ddp views kept",
    "ddp unused kept",
    "ddp compressed",
]


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(["ddp views unused"], id="ddp"),
        pytest.param(["fsdp"], id="fsdp"),
        pytest.param(REDUCED, id="other ddp", marks=pytest.mark.full),
        pytest.param(["fsdp foreach", "flat"], id="other fsdp", marks=pytest.mark.full),
    ],
)
def test_training_in_processes_has_the_same_bits(warm_ranks, tmp_path, kinds):
    (tmp_path / "ssd").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    for rank in warm_ranks("train.py", tmp_path / "ssd", *kinds, timeout_s=400):
        assert rank.code == 0 and rank.out.count("the same:") == len(kinds), rank
