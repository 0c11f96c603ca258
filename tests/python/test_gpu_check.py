"""`make gpu-check` where there is no GPU: its report, and its comparison of bits on the CPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def gpu_check():
    path = ROOT / "tools" / "gpu_check" / "gpu_check.py"
    spec = importlib.util.spec_from_file_location("gpu_check", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


def python(code):
    return [sys.executable, "-c", code]


def test_every_step_is_run_and_told(tmp_path):
    check = gpu_check()
    steps = [
        check.Step("good", python("print('fine')")),
        check.Step("bad", python("print('oh'); raise SystemExit(3)")),
        check.Step("slow", python("import time; time.sleep(60)"), timeout_seconds=1),
        check.Step("part", python("print('[  SKIPPED ] a test')")),
        check.Step("absent", ["x"], needs="a-program-that-nobody-has"),
        check.Step("unstartable", ["/nowhere/x"]),
    ]
    outcomes = [result["outcome"] for result in check.run_all(steps, tmp_path)]
    assert outcomes == [
        "passed",
        "failed",
        "failed: not done after 1 s",
        "passed, in part skipped",
        "skipped",
        "failed",
    ]
    assert len(json.loads((tmp_path / "gpu_check.json").read_text())["steps"]) == len(steps)
    text = (tmp_path / "gpu_check.txt").read_text()
    assert "--- bad\noh" in text and "--- good" not in text


def test_nothing_is_run_of_what_could_not_be_built(tmp_path):
    check = gpu_check()
    steps = [check.Step("build", python("raise SystemExit(1)")), check.Step("x", python(""))]
    assert [result["name"] for result in check.run_all(steps, tmp_path)] == ["build"]


@pytest.mark.slow
def test_bits_are_compared(tmp_path):
    script = ROOT / "tools" / "gpu_check" / "bits.py"
    command = [sys.executable, str(script), "--device", "cpu", "--case", "foreach"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["is_equal"] and result["ssd_bytes_read"] > 0
    assert result["budget_bytes"] < result["peak_bytes"]
