"""Plans that discard tensors and make them again are executed, also where the program deviates."""

import collections
import io
import json
import subprocess

import pytest
import torch
from matrix import budgets
from tests.python.conftest import COMMAND

from teraio.hooks.verification import tensor_hash

pytestmark = pytest.mark.usefixtures("one_settled_thread")

DRIVE = {
    "duplex": 2.0,
    "name": "slow",
    "capacity_bytes": 1 << 40,
    "read_bytes_per_second": 10**8,
    "write_bytes_per_second": 10**8,
}
HARDWARE = {
    "format": "teraio-hardware/1",
    "name": "a slow drive",
    "device_memory_bytes": 1 << 40,
    "device_link": {"read_bytes_per_second": 10**12, "write_bytes_per_second": 10**12},
    "host": {"capacity_bytes": 0, "read_bytes_per_second": 10**9, "write_bytes_per_second": 10**9},
    "drives": [DRIVE],
    "request_latency_ns": 20_000,
}


def train_norms(steps, in_between=None):
    """Layers with norms of several ops, whose temporaries the program drops. In each step,
    `in_between` gets what the layers have made, before the backward pass."""
    torch.manual_seed(3)
    weights = [torch.randn(256, 256).mul_(0.06).requires_grad_() for _ in range(8)]
    scales = [torch.ones(256, requires_grad=True) for _ in weights]
    optimizer = torch.optim.SGD([*weights, *scales], lr=0.01)
    losses = []
    for _ in range(steps):
        x = torch.sin(torch.arange(1024 * 256, dtype=torch.float32)).view(1024, 256)
        made = []
        for weight, scale in zip(weights, scales, strict=True):
            normal = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale
            x = x + torch.nn.functional.silu(normal @ weight)
            if in_between:
                made.append(normal)
        loss = x.square().mean()
        if in_between:
            in_between(made)
        del made
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, [tensor_hash(tensor) for tensor in [*weights, *scales]]


@pytest.fixture(scope="module")
def plan_with_replays(tmp_path_factory, one_settled_thread):
    """The path of a plan for train_norms(8), the number of its replays, the budget, and what the
    training yields."""
    folder = tmp_path_factory.mktemp("plan")
    expected = train_norms(8)
    with budgets.offload("1GB", recompute="all") as session:
        assert train_norms(8) == expected
        peak_bytes = max(i["device_peak_bytes"] for i in session.iterations())
        session.trace().save(folder / "trace.json")
    budget_bytes = peak_bytes // 2
    (folder / "hardware.json").write_text(json.dumps(HARDWARE))
    options = ("--device-budget", str(budget_bytes * 95 // 100), "--recompute", "all")
    files = ("--trace", "trace.json", "--hardware", "hardware.json", "--out", "plan.json")
    subprocess.run([COMMAND, "plan", *files, *options], cwd=folder, check=True)
    plan = json.loads((folder / "plan.json").read_text())
    actions = collections.Counter(migration["action"] for migration in plan["migrations"])
    assert actions["recompute"] >= 8, actions
    return str(folder / "plan.json"), actions["recompute"], budget_bytes, expected


def test_a_plan_with_replays_is_executed_as_it_is(plan_with_replays):
    plan, replay_count, budget_bytes, expected = plan_with_replays
    with budgets.offload(budget_bytes, plan=plan) as session:
        assert train_norms(8) == expected
        before = session.counters()
        assert train_norms(3)[0] == expected[0][:3]
        modes = {iteration["mode"] for iteration in session.iterations()}
        peak_bytes = max(i["device_peak_bytes"] for i in session.iterations())
    assert before["discards"] > 0 and before["on_demand_replays"] == 0, before
    assert before["planned_replays"] % replay_count == 0, (before, replay_count)
    assert "planned" in modes and peak_bytes <= budget_bytes


def raise_inside_an_op(made):
    with pytest.raises(RuntimeError):
        torch.stack([*made, torch.ones(3)])


def interrupt_the_backward_pass(made):
    class Stop(Exception):
        pass

    def stop(_):
        raise Stop

    handle = made[4].register_hook(stop)
    with pytest.raises(Stop):
        made[-1].square().sum().backward(retain_graph=True, inputs=[made[0]])
    handle.remove()


# What a program does with tensors of which the plan has discarded some.
DEVIATIONS = {
    "other ops": lambda made: [tensor.exp() for tensor in made],
    "arrays": lambda made: [tensor.detach().numpy().sum() for tensor in made],
    "addresses": lambda made: [tensor.data_ptr() for tensor in made],
    "a file": lambda made: torch.save(made, io.BytesIO()),
    "an error of an op": raise_inside_an_op,
    "an exception in a backward pass": interrupt_the_backward_pass,
}


def count_replays(session):
    """Replays on demand, and those planned for a part of the plan that the program jumped to."""
    counters = session.counters()
    return counters["on_demand_replays"] + counters["planned_replays"]


@pytest.mark.parametrize(
    "deviation",
    [
        name if name == "arrays" else pytest.param(name, marks=pytest.mark.full)
        for name in DEVIATIONS
    ],
)
def test_what_a_plan_has_discarded_is_made_again_for(deviation, plan_with_replays):
    plan, _, budget_bytes, expected = plan_with_replays
    with budgets.offload(budget_bytes, plan=plan) as session:
        assert train_norms(8) == expected
        replay_counts = []

        def deviate(made):
            before = count_replays(session)
            DEVIATIONS[deviation](made)
            replay_counts.append(count_replays(session) - before)

        assert train_norms(2, deviate)[0] == expected[0][:2]
        assert any(replay_counts), replay_counts
        assert train_norms(8) == expected
