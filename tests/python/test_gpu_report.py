"""The report of `make gpu-check`: what it concludes from what the checks have measured."""

import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools" / "gpu_check"))

report = importlib.import_module("report")


def arm(name, seconds, **changes):
    """The properties of a test that has measured an arm whose last steps took `seconds`."""
    step = {"mode": "planned", "stall_read_ns": 10**8, "stall_memory_ns": 10**8}
    step |= {f"{t}_bytes_{w}": 10**9 for t in ("host", "ssd") for w in ("read", "written")}
    record = {
        "arm": name,
        "title": "1b-fp32",
        "outcome": "done",
        "measured_seconds": seconds,
        "losses": ["0x1p+0"],
        "state": "aa",
        "measured": [step] * len(seconds),
        "bound_fraction": 1.0,
    }
    return {"arm": record | changes}


def peer(name, seconds, peak_bytes):
    record = {"arm": name, "title": "1b-fp32", "outcome": "done"}
    return {"peer": record | {"measured_seconds": seconds, "peak_bytes": peak_bytes}}


def link(path, against, value, reference):
    ratio = value / reference
    rates = {"value": value, "reference": reference, "ratio": ratio}
    rows = [{"path": path, "phase": "both", "against": against, **rates}]
    return {"link": {"rows": rows, "no_fio": "fio is not installed"}}


STOCK = arm("stock", [1.0, 1.0, 1.2])
AMPLE = arm("ample", [1.005, 1.004, 1.006])
AGAIN = arm("stock-again", [1.02, 1.01, 1.03])


@pytest.fixture
def reported(tmp_path):
    """Writes a log of tests that have left these properties; gives report.md."""

    def reported(*properties):
        phase = {"$report_type": "TestReport", "outcome": "passed", "when": "teardown"}
        lines = [
            phase | {"nodeid": f"test_{n}", "sections": [], "user_properties": list(p.items())}
            for n, p in enumerate(properties)
        ]
        log = tmp_path / "log.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
        report.write(tmp_path, "It has ended.", {"gpu": "none"}, [log, tmp_path / "missing.jsonl"])
        return (tmp_path / "report.md").read_text()

    return reported


FRACTION = "1b-fp32, host, peak/budget 2: fraction of ideal"


@pytest.mark.parametrize(
    ("seconds", "bound", "line"),
    [
        (1.04, 1.0, "| met | 0.962 | 0.950 |"),
        (1.08, 1.0, "| MISSED | 0.926 | 0.950 |"),
        (1.08, 0.94, "| met | 0.926 | 0.912 |"),
        (2.2, 0.5, "| MISSED | 0.455 | 0.485 |"),
        (1.04, None, "| met | 0.962 | 0.950 |"),
    ],
)
def test_the_target_is_lower_where_no_plan_can_be_faster(reported, seconds, bound, line):
    host = arm("host-2", [9.0, seconds, seconds], bound_fraction=bound)
    text = reported(STOCK, AMPLE, host, AGAIN)
    assert f"{line} {FRACTION} |" in text
    assert "4.00 GB moved and 0.200 s waited; 3 of 3 steps planned" in text


def test_ideal_is_the_faster_of_stock_and_ample(reported):
    text = reported(STOCK, arm("ample", [0.5] * 3), arm("host-2", [1.0] * 3))
    assert f"| MISSED | 0.500 | 0.950 | {FRACTION} |" in text
    assert "| met | 0.500 | 1.010 | 1b-fp32, budget >= peak: step / stock step |" in text


def test_a_session_with_room_for_everything_may_cost_a_hundredth(reported):
    assert "| met | 1.009 | 1.010 |" in reported(STOCK, arm("ample", [1.009] * 3))
    assert "| MISSED | 1.011 | 1.010 |" in reported(STOCK, arm("ample", [1.011] * 3))


def test_a_second_measurement_counts_as_the_first(reported):
    stock, host = arm("stock", [3.0] * 3), arm("host-2", [2.0] * 3)
    text = reported(STOCK, arm("host-2", [4.0] * 3), stock, host)
    assert "step 3.000 s, ideal 2.100 s" in text


def test_an_uneven_machine_gives_no_verdict(reported):
    text = reported(STOCK, AMPLE, arm("host-2", [1.0]), arm("stock-again", [1.2]))
    assert f"|  | 1.000 | 0.950 | {FRACTION} |" in text
    assert "| MISSED | 1.200 | 1.100 | 1b-fp32: stock PyTorch, slower / faster run" in text


def test_arms_with_other_bits_are_named(reported):
    wrong = arm("ssd-2", [1.0], state="bb")
    text = reported(STOCK, AMPLE, arm("host-2", [1.0]), wrong, AGAIN)
    assert "| MISSED | 2.000 | 3.000 | 1b-fp32: arms whose losses and state" in text
    assert "| differ: ssd-2 |" in text


def test_bits_get_no_verdict_where_stock_differs_from_itself(reported):
    text = reported(STOCK, AMPLE, arm("stock-again", [1.02], losses=["0x1.8p+0"]))
    assert "|  | 1.000 | 1.000 | 1b-fp32: arms whose losses and state" in text
    assert "stock PyTorch differs from itself" in text


def test_what_was_measured_counts_where_other_arms_have_failed(reported):
    failed = arm("host-2", [], outcome="failed: OutOfMemoryError")
    text = reported(STOCK, AMPLE, failed)
    assert "budget >= peak" in text and "peak/budget 2" not in text
    assert "fraction of ideal" not in reported(arm("host-2", [1.0]))  # of what?


@pytest.mark.parametrize(
    ("taken_bytes", "verdict"),
    [(4_050_000_000, "| met | 1.012 |"), (5 * 10**9, "| MISSED | 1.250 |")],
)
def test_the_budget_is_what_cuda_says_that_is_taken(reported, taken_bytes, verdict):
    counts = {"num_ooms": 0, "num_alloc_retries": 3}
    memory = {"budget_bytes": 4 * 10**9, "sampled_peak_bytes": taken_bytes, "allocator": counts}
    text = reported(STOCK, arm("host-2", [1.0], **memory))
    assert (
        f"{verdict} 1.030 | 1b-fp32, host-2: memory taken / budget | 0 ooms, 3 alloc_retries"
        in text
    )


def test_peers_are_compared_within_their_own_peak(reported):
    peers = [peer("save_on_cpu", [3.0, 2.5, 2.5], 5 * 10**9), peer("fsdp2", [2.0], 7)]
    text = reported(STOCK, arm("host-at-5000000000", [1.0] * 3), *peers)
    assert "| met | 2.500 | 2.000 | 1b-fp32, save_on_cpu at its peak" in text
    assert "at 5.00 GB |" in text
    assert "|  |  | 2.000 | 1b-fp32, fsdp2 at its peak" in text


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (link("host", "bare", 9.6e9, 1e10), "| met | 0.960 | 0.950 | device <-> host, both"),
        (link("host", "torch", 5e9, 1e10), "|  | 0.500 | 0.950 | device <-> host, both"),
        (link("ssd", "fio", 9.4e9, 1e10), "| MISSED | 0.940 | 0.950 | device <-> drive, both"),
    ],
)
def test_the_engine_has_to_be_as_fast_as_bare_copies_and_fio(reported, properties, line):
    text = reported(properties)
    assert line in text
    assert "The drive was not compared with fio: fio is not installed" in text


def test_a_record_that_gives_no_figure_does_not_hide_the_results(reported):
    text = reported(STOCK, arm("host-2", [1.0], measured=[{}]))
    assert "The figures cannot be made" in text and "KeyError" in text
    assert "| passed | 0.0 | test_1 |" in text


def test_a_log_that_is_cut_off_is_read_up_to_there(reported, tmp_path):
    reported(STOCK, AMPLE)
    log = tmp_path / "log.jsonl"
    log.write_text(log.read_text()[:-20])
    assert [result["name"] for result in report.read_results(log)] == ["test_0"]
