"""The demo: how an arm is run and watched, and what is said about arms that have run."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import demo
from arms import results, show
from arms.arm import ArmResult

SESSION = {
    "natural_peak_bytes": 3_000_000_000,
    "device_peak_bytes": 990_000_000,
    "ssd_bytes_read": 2_000_000_000,
    "ssd_bytes_written": 1_000_000_000,
    "predicted_step_seconds": 10.4,
    "bound_fraction": 0.975,
    "stall_by_cause_seconds": {"memory": 0.05, "read": 0.37},
    "steps": [
        {"mode": "planned", "ssd_bytes_read": 10**9, "ssd_bytes_written": 10**9, "stall_seconds": 0}
    ],
}


def trained(losses=("0x1.8p+2", "0x1.4p+2"), parameters="aa", optimizer="bb"):
    """What the training script records."""
    return {
        "losses": list(losses),
        "losses_sha256": " ".join(losses),
        "parameters_sha256": parameters,
        "optimizer_sha256": optimizer,
        "step_seconds": [30.0, 10.0, 9.0, 11.0],
        "tokens_per_step": 4096,
    }


def compared(planned):
    """Compares stock PyTorch with an arm that recorded `planned`. What is printed comes second."""
    arms = [ArmResult("ideal", trained(), None), ArmResult("planned", planned, SESSION)]
    comparison = results.compare(arms, 3_000_000_000, 1_000_000_000, warm_up_steps=1)
    out = io.StringIO()
    show.show(Console(file=out, width=80), comparison)
    return comparison, out.getvalue()


class TestComparison:
    def test_equal_arms_have_no_differences(self):
        comparison, text = compared(trained())
        assert comparison.differences == [] and "Bit-identical" in text
        assert [arm.step_seconds for arm in comparison.arms] == [10.0, 10.0]
        assert max(map(len, text.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("change", "difference"),
        [
            ({"losses": ("0x1.8p+2", "0x1.5p+2")}, "the loss of step 2 (1 of 2 differ)"),
            ({"losses": ("0x1.8p+2",)}, "the number of steps"),
            ({"parameters": "ab"}, "the final parameters"),
            ({"optimizer": "bc"}, "the final optimizer"),
        ],
    )
    def test_every_difference_is_named(self, change, difference):
        comparison, text = compared(trained(**change))
        assert comparison.differences == [f"planned differs from ideal in {difference}"]
        assert "NOT EQUAL" in text and "Bit-identical" not in text


class TestDemo:
    @pytest.mark.full
    def test_three_arms_under_a_third_of_the_memory(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        sizes = ["--preset", "tiny", "--steps", "7", "--micro-batch", "8", "--accumulation", "1"]
        shape = ["--dim", "256", "--layers", "3", "--ffn-dim", "704"]
        files = ["--data", str(c4_file(tmp_path)), "--output", str(tmp_path / "demo")]
        assert demo.main([*sizes, *files, "--", *shape]) == 0, capsys.readouterr()
        assert "Bit-identical" in capsys.readouterr().out
        written = json.loads((tmp_path / "demo" / "results.json").read_text())
        ideal, planned, on_demand = written["arms"].values()
        budget = written["device_budget_bytes"]
        assert budget == written["natural_peak_bytes"] // 3
        for arm in (planned, on_demand):
            assert arm["device_peak_bytes"] <= budget
            assert arm["ssd_bytes_read"] > budget and arm["ssd_bytes_written"] > budget
            assert arm["parameters_sha256"] == ideal["parameters_sha256"]
        assert (tmp_path / "demo" / "memory.png").stat().st_size > 1000
        assert not list((tmp_path / "demo" / "ssd").iterdir())
        page = (tmp_path / "demo" / "planned" / "report.html").read_text()
        assert "It works: the training needs" in page
        assert "tensors moved on demand" in (tmp_path / "demo/on_demand/report.html").read_text()


def c4_file(directory):
    path = directory / "text.json"
    lines = [json.dumps({"text": f"sentence number {n} of many"}) for n in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return path
