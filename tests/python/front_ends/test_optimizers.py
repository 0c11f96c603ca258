"""Optimizers of PyTorch and of other packages have equal bits in a half or quarter of the peak."""

import importlib
import importlib.util

import drawn
import pytest
import torch
from matrix import budgets
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from teraio.hooks.verification import tensor_hash

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("one_settled_thread")]

WIDTH, DEPTH, BATCH = 512, 14, 32
STEPS = 8
SHARES = (50, 25)  # percent of the natural peak
# The iteration from which a plan is in force, and the share of its ops that follow it.
FOLLOWED, PLANNED_SHARE = 5, 0.98

# Its steps end early where the loss falls little, so that their ops differ.
VARYING = ("LBFGS",)

# By what each of them shows: the module of its class, and the options.
OPTIMIZERS = {
    "SGD": ("torch.optim", "SGD", {"momentum": 0.9, "nesterov": True}),
    "AdamW, AMSGrad": ("torch.optim", "AdamW", {"amsgrad": True}),
    "Adafactor": ("torch.optim", "Adafactor", {}),
    "Muon": ("torch.optim", "Muon", {}),
    "LBFGS": ("torch.optim", "LBFGS", {"max_iter": 2, "history_size": 2}),
    "Adafactor of transformers": ("transformers.optimization", "Adafactor", {}),
    "schedule-free AdamW": ("schedulefree", "AdamWScheduleFree", {}),
    "schedule-free SGD": ("schedulefree", "SGDScheduleFree", {"momentum": 0.9}),
    "torchao's AdamW in 8 bits": ("torchao.optim", "AdamW8bit", {}),
    "torchao's AdamW in 4 bits": ("torchao.optim", "AdamW4bit", {}),
    "torchao's AdamW in fp8": ("torchao.optim", "AdamWFp8", {}),
    "bitsandbytes' AdamW": ("bitsandbytes.optim", "AdamW", {}),
    "bitsandbytes' AdamW in 8 bits": ("bitsandbytes.optim", "AdamW8bit", {}),
    "bitsandbytes' Lion in 8 bits": ("bitsandbytes.optim", "Lion8bit", {}),
    "bitsandbytes' AdEMAMix": ("bitsandbytes.optim", "AdEMAMix", {}),
}


def train(kind, options):
    """Returns the losses, and the hash of each parameter and state."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)]
    model = torch.nn.Sequential(*layers)  # of matrices only: Muon takes no others
    optimizer = kind(model.parameters(), **options)
    if hasattr(optimizer, "train"):
        optimizer.train()  # schedule-free

    @torch.enable_grad()
    def closure():
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.roll(1)).square().mean()
        loss.backward()
        return loss

    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, WIDTH)
        losses.append(optimizer.step(closure).item())
    states = {
        f"{number} {name}": value
        for number, each in enumerate(optimizer.state.values())
        for name, value in each.items()
        if isinstance(value, torch.Tensor)
    }
    assert states
    return losses, hashes_of(dict(model.named_parameters()) | states)


def hashes_of(tensors):
    """Of a tensor that is made of others, the hashes of those."""
    hashes = {}
    for name, tensor in tensors.items():
        if is_traceable_wrapper_subclass(tensor):
            parts, _ = tensor.__tensor_flatten__()
            hashes |= hashes_of({f"{name}.{part}": getattr(tensor, part) for part in parts})
        else:
            hashes[name] = tensor_hash(tensor)
    return hashes


def train_within(budget, kind, options):
    with budgets.offload(budget) as session:
        outcome = train(kind, options)
    return outcome, session


@pytest.mark.parametrize("name", drawn.in_turn(OPTIMIZERS))
def test_equal_bits(name):
    module, kind, options = OPTIMIZERS[name]
    package = module.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"missing: the package {package}")
    kind = getattr(importlib.import_module(module), kind)
    expected = train(kind, options)
    assert len(set(expected[0])) == STEPS  # it learns
    outcome, session = train_within(budgets.UNLIMITED, kind, options)
    assert outcome == expected
    peak_bytes = max(each["device_peak_bytes"] for each in session.iterations())
    share = drawn.one_of(SHARES, name)
    outcome, session = train_within(peak_bytes * share // 100, kind, options)
    assert outcome == expected, share
    iterations = session.iterations()
    assert max(each["device_peak_bytes"] for each in iterations) <= peak_bytes * share // 100
    assert session.counters()["ssd_bytes_written"] > 0
    for each in iterations[FOLLOWED:] if name not in VARYING else ():
        assert each["planned_op_count"] >= PLANNED_SHARE * each["op_count"], share
