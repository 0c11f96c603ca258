"""The step-time benchmark: from recorded rounds to figures and verdicts."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import step_time
from arms.results import ArmResult

GOOD = step_time.Figures(
    stock=10.0,
    unlimited=10.05,
    planned=10.4,
    on_demand=16.0,
    drift=0.02,
    bound_fraction=0.99,
    predicted=10.2,
    drive_rate=1.9e9,
    fio_rate=2e9,
)


def verdicts(figures):
    planned, on_demand, idle, prediction, drives, _, drift = step_time.measures(figures)
    return [entry["met"] for entry in (planned, on_demand, idle, prediction, drives, drift)]


def rounds(*times, session=None):
    return [ArmResult("arm", {"step_seconds": [99.0, *seconds]}, session) for seconds in times]


def test_figures_are_medians_over_all_rounds():
    drive = {"read_bytes_per_second": 3e9, "write_bytes_per_second": 1e9}
    foretold = {
        "bound_fraction": 0.98,
        "predicted_step_seconds": 3.5,
        "counters": {"ssd_drives": [drive]},
    }
    results = {
        "stock": rounds([1, 2, 9], [1, 2, 3], [2, 3, 4]),
        "unlimited": rounds([2], [2], [3]),
        "planned": rounds([4], [4], [8], session=foretold),
        "on_demand": rounds([5], [6], [7]),
    }
    assert step_time.figures(results, [5e9, 4e9, 6e9], warm_up_steps=1) == step_time.Figures(
        stock=2,
        unlimited=2,
        planned=4,
        on_demand=6,
        drift=0.5,
        bound_fraction=0.98,
        predicted=3.5,
        drive_rate=4e9,
        fio_rate=5e9,
    )


def test_a_drive_that_was_never_loaded_has_no_rate():
    idle = {"read_bytes_per_second": 3e9, "write_bytes_per_second": 0}
    assert step_time.rate_under_load({"ssd_drives": [idle]}) is None
    assert len(step_time.measures(replace(GOOD, drive_rate=None))) == 6


def test_ideal_is_the_better_of_stock_and_unlimited():
    assert replace(GOOD, unlimited=9.0).ideal == 9.0
    assert replace(GOOD, unlimited=11.0).ideal == 10.0


def test_all_targets_met():
    assert verdicts(GOOD) == [True] * 6


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"planned": 10.6, "predicted": 10.6}, 0),
        ({"on_demand": 10.3}, 1),
        ({"unlimited": 10.2}, 2),
        ({"predicted": 9.8}, 3),
        ({"predicted": 11.0}, 3),
        ({"drive_rate": 1.7e9}, 4),
    ],
)
def test_a_missed_target_is_told(change, missed):
    expected = [True] * 6
    expected[missed] = False
    assert verdicts(replace(GOOD, **change)) == expected


def test_a_slow_drive_lowers_the_target():
    slow = replace(GOOD, planned=12.0, predicted=12.0, bound_fraction=0.85)
    planned = step_time.measures(slow)[0]
    assert planned["met"]
    assert planned["reference"] == pytest.approx(0.97 * 0.85)


def test_without_a_plan_nothing_is_said_of_it():
    rows = step_time.measures(replace(GOOD, predicted=None, bound_fraction=None))
    assert rows[0]["reference"] == 0.95
    assert not any(word in entry["name"] for entry in rows for word in ("predicted", "bound"))
    assert step_time.median_known([None, 2.0, 3.0]) == 2.5
    assert step_time.median_known([None]) is None


def test_an_uneven_machine_gives_no_verdict(capsys):
    uneven = replace(GOOD, drift=0.3)
    assert verdicts(uneven) == [None, None, None, None, None, False]
    step_time.show(step_time.measures(uneven))
    assert "no verdict" in capsys.readouterr().out
