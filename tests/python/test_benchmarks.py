"""The benchmarks of training run to their end with tiny models, and leave the rows they promise."""

import json
import math
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_steps
import dry_run
import recompute
import step_time
import varying_steps
from drives.limited import Unavailable, loop_drive
from drives.traffic import fio_traffic

pytestmark = pytest.mark.full


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.json"
    lines = [json.dumps({"text": f"sentence number {n} of many"}) for n in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def rows(path):
    """The rows of a benchmark, by name; each has a measure and a reference."""
    found = {row["name"]: row for row in json.loads(path.read_text())}
    for row in found.values():
        assert all(math.isfinite(row[key]) and row[key] > 0 for key in ("value", "reference")), row
        assert row["ratio"] == pytest.approx(row["value"] / row["reference"])
    return found


@pytest.mark.skipif(not shutil.which("fio"), reason="missing: fio")
def test_step_time_compares_arms_with_ideal_and_with_the_prediction(text, tmp_path, capsys):
    small = ["--preset", "tiny", "--rounds", "1", "--accumulation", "1", "--ratio", "1.5"]
    steps = ["--steps", "6", "--warm-up-steps", "4"]
    assert step_time.main([*small, *steps, "--data", text, "--output", str(tmp_path)]) == 0
    found = rows(tmp_path / "step_time.json")
    assert {
        "planned, fraction of ideal",
        "on demand, fraction of ideal",
        "unlimited budget / stock step time",
        "predicted / measured step time",
        "bound of compute and drive, fraction of ideal",
        "planned, fraction of stock beside fio",
        "stock beside fio, fraction of ideal",
        "stock step time, slowest / fastest round",
    } <= found.keys()
    assert found["bytes per second of that fio / of planned steps"]["value"] > 0.1
    assert not list(tmp_path.rglob("traffic-*"))
    assert found["stock step time, slowest / fastest round"]["value"] == 1, "there is one round"
    assert "planned, fraction of ideal: " in capsys.readouterr().out


def test_recompute_compares_plans_with_and_without_replays(text, tmp_path, capsys):
    small = ["--preset", "tiny", "--rounds", "1", "--limit", "100"]
    case = ["--ratio", "1.5", "--precision", "bf16"]
    steps = ["--steps", "6", "--warm-up-steps", "4"]
    assert recompute.main([*small, *case, *steps, "--data", text, "--output", str(tmp_path)]) == 0
    found = rows(tmp_path / "recompute.json")
    assert "bf16, ratio 1.5, as it is: step without / with replays" in found
    assert "bf16, ratio 1.5, as it is: step without / with replays: " in capsys.readouterr().out


def test_compiled_steps_compares_eager_and_compiled(text, tmp_path):
    small = ["--preset", "tiny", "--rounds", "1", "--ratio", "1.5"]
    steps = ["--steps", "6", "--warm-up-steps", "4"]
    files = ["--data", text, "--output", str(tmp_path)]
    assert compiled_steps.main([*small, *steps, *files]) == 0
    assert rows(tmp_path / "compiled_steps.json").keys() == {
        *(f"{mode}: planned, fraction of ideal" for mode in ("eager", "compiled")),
        *(f"{mode}: planned, fraction without stalls" for mode in ("eager", "compiled")),
        *(f"{mode}: stock beside fio, fraction of ideal" for mode in ("eager", "compiled")),
        *(f"{mode}: predicted / measured" for mode in ("eager", "compiled")),
        "within the budget: eager / compiled",
    }


@pytest.fixture
def loop_devices(tmp_path):
    """Skips where there are none."""
    try:
        with loop_drive(tmp_path / "loop", 64 << 20):
            pass
    except Unavailable as reason:
        pytest.skip(f"not applicable: {reason}")


@pytest.mark.usefixtures("loop_devices")
@pytest.mark.skipif(not shutil.which("fio"), reason="missing: fio")
def test_compiled_steps_measures_on_a_drive_in_memory(text, tmp_path):
    small = ["--preset", "tiny", "--rounds", "1", "--ratio", "1.5", "--modes", "compiled"]
    steps = ["--steps", "6", "--warm-up-steps", "4", "--drive-in-memory"]
    files = ["--data", text, "--output", str(tmp_path)]
    assert compiled_steps.main([*small, *steps, *files]) == 0
    found = rows(tmp_path / "compiled_steps.json")
    assert "compiled: planned, fraction of ideal" in found
    assert not any("eager" in name for name in found)


@pytest.mark.skipif(not shutil.which("fio"), reason="missing: fio")
def test_traffic_has_begun_when_its_block_does(tmp_path):
    with fio_traffic([tmp_path], 400e6, 0) as traffic:
        pass
    assert traffic.read_bytes_per_second > 0


def test_varying_steps_compares_planned_shares_with_their_targets(text, tmp_path, capsys):
    programs = ["--programs", "lengths", "interruptions"]
    files = ["--data", text, "--cache", str(tmp_path / "cache"), "--output", str(tmp_path)]
    assert varying_steps.main(["--quick", *programs, *files]) == 0
    found = rows(tmp_path / "varying_steps.json")
    assert {
        "lengths: share of ops planned after 10 steps / target",
        "lengths: seconds per token planned, drawn / fixed lengths",
        "interruptions: share of ops planned after 10 steps / target",
    } <= found.keys()
    assert "interruptions: plans made / patterns: " in capsys.readouterr().out
    assert not list(tmp_path.rglob("checkpoint.pt"))


def test_dry_run_has_the_ops_and_the_peak_of_the_real_run(text, tmp_path, monkeypatch):
    programs = dry_run.programs
    monkeypatch.setattr(dry_run, "programs", lambda args: dict([*programs(args).items()][:1]))
    monkeypatch.setattr(
        dry_run, "BUDGET_RATIO", 1.5
    )  # ops of the tiny model need more than a third
    small = ["--preset", "tiny", "--rounds", "1", "--data", text]
    folders = ["--cache", str(tmp_path / "cache"), "--output", str(tmp_path)]
    assert dry_run.main([*small, *folders]) == 0
    found = rows(tmp_path / "dry_run.json")
    assert found["llama tiny: equal ops"]["ratio"] == 1
    assert found["llama tiny: peak"]["met"] is True
    steps = ("step", "planned step", "planned step, of a real profile")
    assert {f"llama tiny: {step}" for step in steps} <= found.keys()
