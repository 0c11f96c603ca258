"""A search replaces the plan of a training by a better one, and the next run begins with that."""

import hashlib
import json

import pytest
import torch
from matrix import budgets

from teraio.directories import cache_directory

pytestmark = pytest.mark.usefixtures("one_settled_thread")

WIDTHS = (128, 512, 256, 768, 128, 384, 640, 256, 512, 128)
STEPS = 8


def trained(steps=STEPS):
    """Trains, and returns a hash of the parameters."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(*each) for each in zip(WIDTHS, WIDTHS[1:], strict=False)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(32, WIDTHS[0])
    for _ in range(steps):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    parameters = [parameter.detach().numpy().tobytes() for parameter in model.parameters()]
    return hashlib.sha256(b"".join(parameters)).hexdigest()


@pytest.fixture(autouse=True)
def slow_drive(tmp_path, monkeypatch):
    """Plans take every drive for so slow that the times of ops hardly matter."""
    with budgets.offload(budgets.UNLIMITED):
        pass  # measures the drive if nobody has
    slow = dict.fromkeys(("read_bytes_per_second", "write_bytes_per_second"), 20_000_000)
    measured = list(cache_directory().glob("probe-*.json"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for known in measured:
        probe = json.loads(known.read_text()) | slow | {"duplex": 1.0}
        (cache_directory() / known.name).write_text(json.dumps(probe))


def test_a_better_plan_takes_over_with_equal_bits(tmp_path):
    expected = trained()
    with budgets.offload(budgets.UNLIMITED) as session:
        trained(steps=2)
    peak_bytes = session.counters()["natural_peak_bytes"]
    with budgets.offload(peak_bytes * 35 // 100, recompute="off") as session:
        trained(steps=4)
    session.plan().save(tmp_path / "plan.json")  # moves more than is needed where memory is larger
    with budgets.offload(
        peak_bytes * 70 // 100,
        recompute="off",
        plan=tmp_path / "plan.json",
        effort="best",
        report=tmp_path / "report",
    ) as session:
        assert trained() == expected
    prediction, counters = session.prediction(), session.counters()
    assert prediction["is_found_by_search"] and prediction["predicted_gain"] > 0.1
    assert prediction["plan_from_step"] == 7  # the one before had step 6
    assert counters["search_ns"] > 0 and not counters["is_searching"]
    written = [each["ssd_bytes_written"] for each in session.iterations()]
    assert written[7] < written[5]
    run = json.loads((tmp_path / "report" / "run.json").read_text())
    assert run["prediction"] == prediction

    session.plan().save(tmp_path / "found.json")
    with budgets.offload(peak_bytes * 70 // 100, recompute="off", effort="best") as session:
        assert trained() == expected
    prediction = session.prediction()
    assert prediction["is_kept_plan"] and not prediction["is_found_by_search"]
    session.plan().save(tmp_path / "kept.json")
    assert (tmp_path / "kept.json").read_text() == (tmp_path / "found.json").read_text()
