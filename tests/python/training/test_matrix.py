"""Jobs of the matrix have equal bits within budgets, with plans that replay, and when everything
always leaves. Each has half of its peak. In the full level, jobs take turns, and the day draws
another budget.
"""

import json

import drawn
import pytest
import torch
from matrix import budgets, catalogue

FURTHER_SHARES = (80, 35, 25, 15)
WITHIN = [(name, 50) for name in catalogue.JOBS] + [
    pytest.param(name, drawn.one_of(FURTHER_SHARES, name), marks=pytest.mark.full)
    for name in drawn.in_turn(catalogue.JOBS)
]
STRESSED = ["llama, AdamW"] + [
    pytest.param(name, marks=pytest.mark.full)
    for name in drawn.in_turn(list(catalogue.JOBS))
    if name != "llama, AdamW"
]

pytestmark = pytest.mark.usefixtures("one_settled_thread")


@pytest.mark.parametrize(("name", "share"), WITHIN)
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


@pytest.fixture(scope="module")
def plans_for_a_slow_drive(tmp_path_factory):
    """The drive counts as so slow that plans replay what they can.

    Sessions take its rates from the cache of measurements, where the first session puts them.
    """
    with pytest.MonkeyPatch.context() as patch:
        cache = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(cache))
        with budgets.offload(budgets.UNLIMITED):
            pass
        (entry,) = (cache / "teraio").glob("probe-*.json")
        slow = {"read_bytes_per_second": 2_000_000, "write_bytes_per_second": 2_000_000}
        entry.write_text(json.dumps(json.loads(entry.read_text()) | slow))
        yield


@pytest.mark.full
@pytest.mark.usefixtures("plans_for_a_slow_drive")
@pytest.mark.parametrize("name", drawn.in_turn(catalogue.JOBS))
def test_equal_bits_with_planned_replays(name):
    least = catalogue.LEAST_SHARES.get(name, 0)
    budget_bytes = budgets.natural_peak_bytes(name) * max(40, least) // 100
    outcome, session = budgets.train_within(catalogue.JOBS[name], budget_bytes, verify_replays=True)
    assert outcome == budgets.reference(name)
    counters = session.counters()
    assert counters["differing_replays"] == 0
    assert counters["verified_replays"] == counters["discards"]
    prediction = session.prediction()
    assert prediction is None or prediction["bound_ns"] <= prediction["step_ns"]
    if name.startswith("llama"):  # experts change patterns, an LSTM is one op
        assert counters["planned_replays"] > 0
