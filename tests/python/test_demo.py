"""The demo: how an arm is run and watched, and what is said about arms that have run."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import demo
from arms import arm as arms
from arms import results, show
from arms.arm import Arm, ArmFailed, ArmResult, Moment, run_arm
from arms.live import LiveArm

DRIVES = [Path("/mnt/a"), Path("/mnt/b")]


def recorded_training(seconds, losses=("0x1.8p+2", "0x1.4p+2"), parameters="aa", optimizer="bb"):
    """What the training script records."""
    return {
        "losses": list(losses),
        "losses_sha256": " ".join(losses),
        "parameters_sha256": parameters,
        "optimizer_sha256": optimizer,
        "step_seconds": seconds,
        "tokens_per_step": 4096,
    }


def recorded_session(modes, **changes):
    """What a session reports; a step on plan moves less than one that is on demand."""
    moved = {"planned": 2_000_000_000, "on demand": 3_000_000_000, "deviated": 9_000_000_000}
    steps = [
        {
            "seconds": 1.0,
            "mode": mode,
            "ssd_bytes_read": moved[mode],
            "ssd_bytes_written": moved[mode] // 2,
            "stall_seconds": 0.5,
        }
        for mode in modes
    ]
    session = {
        "natural_peak_bytes": 3_000_000_000,
        "device_peak_bytes": 990_000_000,
        "ssd_bytes_read": sum(step["ssd_bytes_read"] for step in steps),
        "ssd_bytes_written": sum(step["ssd_bytes_written"] for step in steps),
        "predicted_step_seconds": 10.4,
        "bound_fraction": 0.975,
        "stall_by_cause_seconds": {"memory": 0.05, "read": 0.37},
        "steps": steps,
        "memory_timeline": [[5.0, 100_000_000], [5.5, 990_000_000], [6.0, 50_000_000]],
    }
    return session | changes


@pytest.fixture
def three_arms():
    """Four warm-up steps and three that count, of each arm."""
    warm_up = [30.0, 30.0, 30.0, 30.0]
    warm_up_modes = ["deviated"] * 4
    return [
        ArmResult("ideal", recorded_training([*warm_up, 10.0, 9.0, 11.0]), None),
        ArmResult(
            "planned",
            recorded_training([*warm_up, 12.5, 10.5, 10.0]),
            recorded_session([*warm_up_modes, "on demand", "planned", "planned"]),
        ),
        ArmResult(
            "on_demand",
            recorded_training([*warm_up, 20.0, 20.0, 21.0]),
            recorded_session([*warm_up_modes, *["on demand"] * 3]),
        ),
    ]


def compared(arms_that_ran):
    return results.compare(
        arms_that_ran,
        natural_peak_bytes=3_000_000_000,
        device_budget_bytes=1_000_000_000,
        warm_up_steps=4,
    )


def printed(comparison, width=80):
    out = io.StringIO()
    show.show(Console(file=out, width=width), comparison)
    return out.getvalue()


class TestResults:
    def test_medians_leave_the_warm_up_out(self, three_arms):
        ideal, planned, on_demand = compared(three_arms).arms
        assert [arm.step_seconds for arm in (ideal, planned, on_demand)] == [10.0, 10.5, 20.0]
        assert planned.fraction_of_ideal == pytest.approx(10 / 10.5)
        assert on_demand.fraction_of_ideal == 0.5


class TestEquality:
    def test_equal_arms_have_no_differences(self, three_arms):
        assert compared(three_arms).differences == []
        assert "Bit-identical" in printed(compared(three_arms))

    @pytest.mark.parametrize(
        ("change", "difference"),
        [
            ({"losses": ("0x1.8p+2", "0x1.5p+2")}, "the loss of step 2 (1 of 2 differ)"),
            ({"losses": ("0x1.8p+2",)}, "the number of steps"),
            ({"parameters": "ab"}, "the final parameters"),
            ({"optimizer": "bc"}, "the final optimizer"),
        ],
    )
    def test_every_difference_is_named(self, three_arms, change, difference):
        other = ArmResult("planned", recorded_training([1.0] * 7, **change), three_arms[1].session)
        comparison = compared([three_arms[0], other])
        assert comparison.differences == [f"planned differs from ideal in {difference}"]
        assert "NOT EQUAL" in printed(comparison)
        assert "Bit-identical" not in printed(comparison)


class TestShow:
    def test_table_fits_a_terminal(self, three_arms):
        lines = printed(compared(three_arms)).splitlines()
        row = next(line for line in lines if "planned" in line and "%" in line)
        assert row.split() == "planned 10.50 s 95.2% 0.99 GB 2.00 GB 1.00 GB 2 of 3".split()
        assert max(map(len, lines)) <= 80

    def test_without_a_terminal_every_step_is_a_line(self):
        out = io.StringIO()
        with LiveArm(Console(file=out, width=140), "planned", steps=4) as live:
            live(Moment(1.0))
            live(Moment(2.0, step=1, loss=6.0, step_seconds=1.5))
            live(Moment(3.0, step=1, loss=6.0, step_seconds=1.5))
            live(Moment(4.0, step=2, loss=5.0, step_seconds=1.5))
        assert out.getvalue().splitlines() == [
            "planned    1/4  loss 6.0000, step 1.50 s, 6 s left",
            "planned    2/4  loss 5.0000, step 1.50 s, 4 s left",
        ]


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

    def test_without_the_package_it_says_what_to_do(self, monkeypatch, capsys):
        monkeypatch.setattr(demo.importlib.util, "find_spec", lambda name: None)
        assert demo.main(["--preset", "tiny"]) == 2
        assert "has no teraio: run make build" in capsys.readouterr().err


class TestArm:
    def test_budgeted_arm_runs_the_same_script_under_a_session(self, tmp_path):
        stock = Arm("ideal").command(["--steps", "2"], tmp_path, DRIVES)
        ours = Arm("x", "1000", "on-demand").command(["--steps", "2"], tmp_path, DRIVES)
        assert ours[1:8] == [
            "-m",
            "teraio",
            "run",
            "--device-budget",
            "1000",
            "--policy",
            "on-demand",
        ]
        assert ours[8:14] == ["--ssd", "/mnt/a", "--ssd", "/mnt/b", "--report", str(tmp_path)]
        assert ours[14:] == stock[1:]

    @pytest.mark.full
    def test_failure_shows_the_end_of_the_log(self, tmp_path):
        with pytest.raises(ArmFailed, match="(?s)ideal ended with 2;.*/nowhere.json: no such file"):
            run_arm(Arm("ideal"), ["--data", "/nowhere.json"], tmp_path, [])

    def test_leaving_early_ends_the_process(self):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        with pytest.raises(KeyboardInterrupt), arms.stopping(process):
            raise KeyboardInterrupt
        assert process.returncode is not None


def c4_file(directory):
    path = directory / "text.json"
    lines = [json.dumps({"text": f"sentence number {n} of many"}) for n in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return path
