"""What ops on DTensors make is made again: parallel programs have the same bits."""

import collections
import json

import pytest
from tests.python.conftest import COMMAND
from tests.python.training.test_planned_replays import DRIVE, HARDWARE

# So slow that replays pay, however busy this machine is.
SLOW = DRIVE | {"read_bytes_per_second": 10**7, "write_bytes_per_second": 10**7}

# Compares losses and parameters with stock PyTorch's: with all that can be made again discarded
# after every op, and under a plan that discards. Prints its trace and its counters.
TRAIN = """\
import contextlib, json, subprocess, sys, torch, teraio.core
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

process_group, kind, command = sys.argv[1:]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=process_group)
rank = dist.get_rank()

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(256)
        self.gate = torch.nn.Linear(256, 512)
        self.up = torch.nn.Linear(256, 512)
        self.down = torch.nn.Linear(512, 256)

    def forward(self, x):
        y = self.norm(x)
        hidden = torch.nn.functional.silu(self.gate(y)) * self.up(y)
        return x + self.down(torch.nn.functional.dropout(hidden, 0.1))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(128, 256)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x

def split(model):
    mesh = init_device_mesh("cpu", (2,))
    # The hidden units stay DTensors between the products.
    columns = {"use_local_output": "local" in kind}
    styles = {
        "gate": ColwiseParallel(**columns),
        "up": ColwiseParallel(**columns),
        "down": RowwiseParallel() if "local" in kind else RowwiseParallel(input_layouts=Shard(-1)),
    }
    for block in model.blocks:
        parallelize_module(block, mesh, styles)

def built():
    torch.manual_seed(0)
    model = Model()
    if "tensor" in kind:
        split(model)
    else:
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)

def train(session=None, steps=2):
    said = []
    with session or contextlib.nullcontext():
        model, optimizer = built()
        for step in range(steps):
            torch.manual_seed(10 * step + (0 if "tensor" in kind else rank))
            tokens = torch.randint(128, (8, 128))
            with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in kind):
                loss = model(tokens).square().mean()
            loss.backward()
            said.append(loss.item().hex())
            optimizer.step()
            optimizer.zero_grad()
        for parameter in model.parameters():
            part = parameter.to_local() if isinstance(parameter, DTensor) else parameter.detach()
            said.append(part.double().sum().item().hex())
        said.append(torch.get_rng_state().sum().item())
    return said

def offload(budget, **options):
    return teraio.offload(budget, ssd="drive", ssd_capacity="200MB", **options)

plain = train()
teraio.core.set_options_for_tests(discard_after_every_op=True)
stress = offload("200MB", verify_replays=True)
assert train(stress) == plain, "discarding"

plain = train(steps=6)
ample = offload("200MB", recompute="all")
assert train(ample, steps=6) == plain
peak_bytes = max(iteration["device_peak_bytes"] for iteration in ample.iterations())
trace, plan = f"trace{rank}.json", f"plan{rank}.json"
ample.trace().save(trace)
planning = ["--hardware", "hardware.json", "--device-budget", str(peak_bytes * 57 // 100)]
planning += ["--recompute", "all", "--out", plan]
subprocess.run([command, "plan", "--trace", trace, *planning], check=True, capture_output=True)
planned = offload(peak_bytes * 60 // 100, plan=plan)
assert train(planned, steps=6) == plain, "planned"
print(json.dumps([stress.counters(), planned.counters()]))
dist.destroy_process_group()
"""

# By kind: the ops on DTensors, whose results are made again.
OPS = {
    "tensor": {"aten::linear", "aten::silu"},
    "tensor local bf16": {"aten::linear"},
    "fsdp": {"aten::sqrt"},
}


@pytest.mark.full
@pytest.mark.parametrize("kind", OPS)
def test_ops_on_dtensors_are_made_again_with_the_same_bits(warm_ranks, tmp_path, kind):
    (tmp_path / "drive").mkdir()
    (tmp_path / "hardware.json").write_text(json.dumps(HARDWARE | {"drives": [SLOW]}))
    (tmp_path / "train.py").write_text(TRAIN)
    for number, rank in enumerate(warm_ranks("train.py", kind, COMMAND, timeout_s=200)):
        assert rank.code == 0, rank
        ops = json.loads((tmp_path / f"trace{number}.json").read_text())["ops"]
        replayable = collections.Counter(op["name"] for op in ops if op.get("replayable"))
        assert all(replayable[name] > 1 for name in OPS[kind]), replayable
        assert not any(name.startswith(("c10d", "_c10d", "fsdp")) for name in replayable)
        stress, planned = json.loads(rank.out.splitlines()[-1])
        assert stress["verified_replays"] > 100 and stress["banned_replays"] == 0, stress
        assert planned["planned_replays"] > 0 and planned["discards"] > 0, planned
