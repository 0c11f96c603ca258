"""What `make gpu-check` makes of its measurements: figures, references, verdicts, text."""

import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "gpu_check"))

targets = importlib.import_module("targets")
report = importlib.import_module("report")


def record(arm, *seconds, **changes):
    moved = {f"{t}_bytes_{w}": 10**9 for t in ("host", "ssd") for w in ("read", "written")}
    waited = {"stall_read_ns": 10**8, "stall_memory_ns": 10**8}
    result = {
        "arm": arm,
        "outcome": "done",
        "measured_seconds": list(seconds),
        "losses": ["0x1p+0"],
        "state": "aa",
        "measured": [{"mode": "planned", **moved, **waited} for _ in seconds],
        "bound_fraction": 1.0,
    }
    return result | changes


def arms_of(*records):
    return targets.Arms("1b-fp32", [list(records)])


STOCK = record("stock", 1.0, 1.0, 1.2)
AMPLE = record("ample", 1.005, 1.004, 1.006)
AGAIN = record("stock-again", 1.02, 1.01, 1.03)


def verdicts(rows):
    return [entry["met"] for entry in rows]


@pytest.mark.parametrize(
    "seconds, bound, target, met",
    [
        (1.04, 1.0, 0.95, True),
        (1.08, 1.0, 0.95, False),
        (1.08, 0.94, 0.97 * 0.94, True),
        (2.2, 0.5, 0.97 * 0.5, False),
        (1.04, None, 0.95, True),
    ],
)
def test_a_fraction_of_ideal_is_held_against_the_bound(seconds, bound, target, met):
    arm = record("host-2", 9 * seconds, seconds, seconds, bound_fraction=bound)
    row, _ = targets.training_rows(arms_of(STOCK, AMPLE, arm, AGAIN))
    assert row["name"] == "1b-fp32, host, peak/budget 2: fraction of ideal"
    assert row["value"] == pytest.approx(1 / seconds)
    assert row["reference"] == pytest.approx(target)
    assert row["ratio"] == pytest.approx(1 / seconds / target)
    assert row["met"] is met
    assert "4.00 GB moved and 0.200 s waited" in row["note"] and "3 of 3 steps" in row["note"]


def test_the_ideal_is_the_better_of_stock_and_ample():
    fast = record("ample", 0.5, 0.5, 0.5)
    row, cost = targets.training_rows(arms_of(STOCK, fast, record("ssd-3", 1.0, 1.0, 1.0)))
    assert row["value"] == 0.5 and cost["value"] == 0.5 and cost["met"]


def test_an_idle_session_may_cost_a_hundredth():
    rows = [
        targets.training_rows(arms_of(STOCK, record("ample", *[seconds] * 3)))[0]
        for seconds in (1.009, 1.011)
    ]
    assert verdicts(rows) == [True, False]


def test_rounds_are_taken_together():
    second = [record("stock", 3.0, 3.0, 3.0), record("host-2", 2.0, 2.0, 2.0)]
    arms = targets.Arms("x", [[STOCK, record("host-2", 4.0, 4.0, 4.0)], second])
    assert arms.seconds("stock") == pytest.approx(2.1)
    assert arms.seconds("host-2") == 3.0


def test_uneven_times_give_no_verdict():
    arms = arms_of(STOCK, AMPLE, record("host-2", 1.0), record("stock-again", 1.2))
    assert verdicts(targets.training_rows(arms)) == [None, None, False]


def test_arms_that_failed_have_no_rows():
    failed = {"arm": "host-2", "outcome": "failed: OutOfMemoryError"}
    assert len(targets.training_rows(arms_of(STOCK, AMPLE, failed))) == 1
    assert targets.training_rows(arms_of(failed)) == []
    assert targets.bits_rows(arms_of(failed)) == []


def test_arms_with_other_bits_are_named():
    wrong = record("ssd-2", 1.0, state="bb")
    (row,) = targets.bits_rows(arms_of(STOCK, AMPLE, record("host-2", 1.0), wrong, AGAIN))
    assert (row["value"], row["reference"], row["met"]) == (2, 3, False)
    assert row["note"] == "differ: ssd-2"


def test_bits_are_not_judged_where_stock_differs_from_itself():
    (row,) = targets.bits_rows(arms_of(STOCK, AMPLE, AGAIN | {"losses": ["0x1.8p+0"]}))
    assert row["met"] is None and "stock PyTorch differs from itself" in row["note"]


def test_peers_are_compared_within_their_own_peak():
    ours = record("host-at-5000000000", 1.0, 1.0, 1.0)
    peers = [
        record("save_on_cpu", 3.0, 2.5, 2.5, peak_bytes=5 * 10**9),
        record("fsdp2", 2.0, peak_bytes=7),
        {"arm": "zero-offload", "outcome": "skipped"},
    ]
    first, second = targets.peer_rows(arms_of(STOCK, ours), peers)
    assert (first["value"], first["met"]) == (2.5, True) and "at 5.00 GB" in first["note"]
    assert second["value"] is None and second["met"] is None


def test_the_engine_is_held_against_bare_copies_and_fio():
    def rate(path, against, ratio):
        return {
            **{"path": path, "phase": "both", "against": against},
            **{"value": ratio * 1e10, "reference": 1e10, "ratio": ratio},
        }

    rates = [rate("host", "bare", 0.96), rate("host", "torch", 0.5), rate("ssd", "fio", 0.94)]
    assert verdicts(targets.link_rows({"rows": rates})) == [True, None, False]


def test_the_report_says_which_targets_are_met_and_what_has_failed(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    missed = record("host-2", 2.0, 2.0, 2.0)
    failed = {"arm": "host-3", "outcome": "failed: OutOfMemoryError: x"}
    lines = [json.dumps(r) for r in ({"arm": "stock", "outcome": "failed: y"}, STOCK, AMPLE)]
    lines += [json.dumps(r) for r in (missed, failed)]
    (work / "1b-long-fp32-1.arms.jsonl").write_text("\n".join(lines))
    rows = report.write(out, work, {"gpu": "none"}, [])
    assert verdicts(rows) == [False, True, True]
    text = (out / "gpu_check.txt").read_text()
    assert "MISSED    0.500    0.950  1b-long-fp32, host, peak/budget 2: fraction of ideal" in text
    assert "met       1.005    1.010  1b-long-fp32, budget >= peak: step / stock step" in text
    assert "1b-long-fp32 host-3: failed: OutOfMemoryError: x" in text
    assert "stock: failed" not in text
    content = json.loads((out / "gpu_check.json").read_text())
    assert content["rows"] == rows and content["machine"] == {"gpu": "none"}
