"""The dry-run benchmark: from two traces to figures and verdicts."""

import copy
import json
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
    """Whether ops, peak, step and planned step of a dry trace are near enough to the real one's."""

    def verdicts(real, dry):
        for name, trace in (("real", real), ("dry", dry)):
            (tmp_path / f"{name}.json").write_text(json.dumps(trace))
        paths = [tmp_path / f"{name}.json" for name in ("real", "dry")]
        rows = dry_run.compare("layers", *paths, HARDWARE)
        assert [row["name"] for row in rows] == [
            f"layers: {what}" for what in ("equal ops", "peak", "step", "planned step")
        ]
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
