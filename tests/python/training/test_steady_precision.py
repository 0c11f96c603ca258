"""A program that changes the precision of float32 products within its steps has no replays."""

import json

import pytest
import torch
from matrix import budgets, catalogue

from teraio.hooks.verification import tensor_hash

pytestmark = pytest.mark.usefixtures("one_settled_thread")


@pytest.fixture
def set_precision():
    """Sets the precision of float32 products until the end of the test."""
    matmul = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    yield lambda precision: setattr(matmul, "fp32_precision", precision)
    matmul.fp32_precision = before


@pytest.mark.parametrize("within_steps", [True, False])
def test_training_that_changes_the_precision_within_steps_has_no_replays(
    within_steps, set_precision, tmp_path
):
    def train(steps):
        torch.manual_seed(1)
        model = catalogue.models.Llama(layers=2)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(steps):
            set_precision("ieee" if step % 2 else "bf16")
            loss = model(*catalogue.models.tokens(step))
            if within_steps:
                set_precision("bf16" if step % 2 else "ieee")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return [tensor_hash(parameter) for parameter in model.parameters()]

    expected = train(8)
    with budgets.offload("1GB", recompute="all") as session:
        assert train(8) == expected
        peak_bytes = max(i["device_peak_bytes"] for i in session.iterations())
        session.trace().save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert any(op.get("replayable") for op in trace["ops"]) == (not within_steps)
    with budgets.offload(peak_bytes // 2, recompute="all") as session:
        assert train(8) == expected
    assert not within_steps or session.counters()["discards"] == 0
