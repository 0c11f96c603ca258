"""What benchmarks/varying_steps.py concludes from the records of its arms."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import varying_steps
from arms.arm import ArmResult
from varying import figures

LENGTHS = varying_steps.PROGRAMS[0]
TOKENS = [999, 100, 200, 400]  # the first step is the warm-up
WARM_UP_STEPS = 1


def step(op_count, planned_op_count, moved_bytes):
    return {
        "op_count": op_count,
        "planned_op_count": planned_op_count,
        "ssd_bytes_read": moved_bytes,
        "ssd_bytes_written": moved_bytes,
    }


SESSION = {
    "device_budget_bytes": 1000,
    "steps": [step(10, 0, 70), step(10, 10, 10), step(20, 20, 20), step(20, 15, 30)],
    "counters": {"ops": 60, "planned_ops": 45, "planning_ns": 2 * 10**9, "plans_made": 3},
    "patterns": [{"size_bytes": 40}, {"size_bytes": 60}],
}


def arm(name, step_seconds, tokens=TOKENS, session=None):
    training = {"step_seconds": step_seconds, "tokens_per_step": tokens}
    return [ArmResult(name, training, session)]


@pytest.fixture
def rows():
    """The rows of a program whose planned steps take ten seconds, by their names without its."""
    results = {
        "ideal": arm("ideal", [50, 5, 5, 5]),
        "planned": arm("planned", [99, 10, 10, 10], session=SESSION),
        "on demand": arm("on demand", [99, 20, 20, 20], session=SESSION),
        "planned, fixed": arm("planned, fixed", [99, 9, 10, 11], [200] * 4, SESSION),
        "on demand, fixed": arm("on demand, fixed", [99, 30, 30, 30], [200] * 4, SESSION),
    }
    found = figures.rows(LENGTHS, results, WARM_UP_STEPS)
    assert all(row["name"].startswith("lengths: ") for row in found)
    return {row["name"].removeprefix("lengths: "): row for row in found}


def test_a_share_leaves_out_the_warm_up(rows):
    row = rows["share of ops planned after 1 steps / target"]
    assert (row["value"], row["reference"], row["met"]) == (45 / 50, 0.90, True)
    assert rows["share of ops planned, of the whole run"]["value"] == 45 / 60


def test_seconds_per_token_are_those_of_the_median_length(rows):
    assert rows["seconds per token, planned / ideal"]["value"] == 10 / 200
    assert rows["seconds per token, planned / ideal"]["ratio"] == 2
    assert rows["overall, planned / on demand"]["value"] == 30 / 700
