"""The dry-run benchmark: from two traces to figures and verdicts."""

import argparse
import copy
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import dry_run

HARDWARE = Path(__file__).parents[1] / "data" / "traces" / "h100_ssd.json"
MB = 10**6


def trace_of(layers):
    """A step over layers of 100 MB: forward, and backward in reverse order."""
    tensors = [
        {"id": n, "bytes": 100 * MB, "persistent": True, "kind": "parameter"} for n in range(layers)
    ]
    order = [*range(layers), *reversed(range(layers))]
    ops = [
        {
            "name": f"aten::{number}",
            "duration_ns": 20 * MB,
            "reads": [number],
            "writes": [],
            "frees": [],
            "workspace_bytes": 0,
        }
        for number in order
    ]
    return {
        "format": "teraio-trace/1",
        "name": "layers",
        "source": "test",
        "tensors": tensors,
        "ops": ops,
    }


@pytest.fixture
def verdicts(tmp_path):
    """Whether ops, peak, step and planned steps of a dry trace are near enough."""
    args = argparse.Namespace(folder=tmp_path)

    def verdicts(real, dry):
        budget = max(dry_run.peak(real) // 3, 5 * dry_run.largest_op_bytes(real) // 4)
        planned = [dry_run.planned_step(args, trace, HARDWARE, budget) for trace in (dry, real)]
        rows = dry_run.compare("layers", real, dry, *planned, [planned[1], planned[1]])
        assert [row["name"].removeprefix("layers: ") for row in rows] == [
            *("equal ops", "peak", "step", "planned step", "planned step, of a real profile")
        ]
        assert rows.pop()["met"]
        return [row["met"] for row in rows]

    return verdicts


def test_equal_traces_are_near_enough(verdicts):
    assert verdicts(trace_of(12), trace_of(12)) == [True, True, True, True]


def test_slower_ops_are_seen_in_both_steps(verdicts):
    slow = trace_of(12)
    for op in slow["ops"]:
        op["duration_ns"] = 23 * MB
    assert verdicts(trace_of(12), slow) == [True, True, False, False]


def test_other_op_and_larger_tensor_are_seen(verdicts):
    other = copy.deepcopy(trace_of(12))
    other["ops"][3]["name"] = "aten::other"
    assert verdicts(trace_of(12), other) == [False, True, True, True]
    other["tensors"][0]["bytes"] += 60 * MB
    assert verdicts(trace_of(12), other)[:2] == [False, False]


def test_missing_ops_are_seen(verdicts):
    short = trace_of(12)
    del short["ops"][-1]
    assert verdicts(trace_of(12), short)[0] is False


def rounds_of(steps, runs):
    """Rounds of (foretold, real) steps, and of the same for planned runs."""
    real = trace_of(2)
    rounds = [dry_run.compare("layers", real, real, 1, 1, run) for run in runs]
    for rows, (foretold, found) in zip(rounds, steps, strict=True):
        rows[2] = dry_run.row("layers: step", "s", foretold, found, dry_run.STEP_ERROR_MAX)
    return rounds


def test_rounds_count_by_the_one_in_the_middle():
    rounds = rounds_of([(1.0, 1.0), (1.3, 1.02), (1.02, 1.0)], [[1, 1], [1, 2], [1.06, 1]])
    rows = dry_run.combine("layers", rounds)
    assert [row["met"] for row in rows] == [True, True, True, True, True, True]
    assert rows[2]["value"] == 1.02
    assert rows[-1]["name"] == "layers: real step, slowest / fastest round"
    assert rows[-1]["ratio"] == pytest.approx(1.02)


def test_planned_run_that_takes_longer_than_foretold_is_seen():
    rows = dry_run.combine("layers", rounds_of([(1, 1)] * 3, [[1, 1.1], [1, 1.1], [1, 1]]))
    assert [row["met"] for row in rows] == [True, True, True, True, False, True]


def test_uneven_machine_gets_no_verdict_on_times():
    rows = dry_run.combine("layers", rounds_of([(1, 1), (1, 1.2), (1, 1)], [[1, 1]] * 3))
    assert [row["met"] for row in rows] == [True, True, None, None, None, False]


def test_one_unequal_round_is_enough_for_ops_and_peak():
    rounds = rounds_of([(1, 1)] * 3, [[1, 1]] * 3)
    rounds[1][0] = dry_run.row("layers: equal ops", "", 3, 4, 0)
    assert [row["met"] for row in dry_run.combine("layers", rounds)][:2] == [False, True]
