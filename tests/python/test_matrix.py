"""Every job of the matrix has equal bits under every budget, and when everything always leaves."""

import pytest
import torch
from matrix import budgets, catalogue

SHARES = [50, *(pytest.param(share, marks=pytest.mark.full) for share in (80, 35, 25, 15))]
STRESSED = [
    name if name == "llama, AdamW" else pytest.param(name, marks=pytest.mark.full)
    for name in catalogue.JOBS
]

pytestmark = pytest.mark.usefixtures("one_settled_thread")


@pytest.mark.parametrize("name", catalogue.JOBS)
@pytest.mark.parametrize("share", SHARES)
def test_equal_bits_within(name, share):
    budget_bytes = budgets.natural_peak_bytes(name) * share // 100
    try:
        outcome, session = budgets.train_within(catalogue.JOBS[name], budget_bytes)
    except torch.OutOfMemoryError as error:
        assert name in catalogue.LEAST_SHARES and share < catalogue.LEAST_SHARES[name], error
        assert budgets.least_bytes(error) > budget_bytes
        return
    assert outcome == budgets.reference(name)
    assert max(i["device_peak_bytes"] for i in session.iterations()) <= budget_bytes
    assert session.counters()["ssd_bytes_written"] > 0 or share == 80


@pytest.mark.parametrize("name", STRESSED)
def test_equal_bits_when_everything_leaves_after_every_op(name):
    budget_bytes = budgets.natural_peak_bytes(name)
    outcome, session = budgets.train_within(
        catalogue.JOBS[name], budget_bytes, evict_after_every_op=True
    )
    assert outcome == budgets.reference(name)
    assert session.counters()["urgent_reads"] > 300
