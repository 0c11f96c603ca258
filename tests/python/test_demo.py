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
from arms.live import LiveArm, Rates, describe

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

    def test_bytes_and_modes_are_those_of_measured_steps(self, three_arms):
        ideal, planned, on_demand = compared(three_arms).arms
        assert (planned.read_bytes_per_step, planned.written_bytes_per_step) == (2e9, 1e9)
        assert on_demand.read_bytes_per_step == 3e9
        assert [arm.planned_steps for arm in (ideal, planned, on_demand)] == [None, 2, 0]

    def test_stock_peak_is_the_natural_one(self, three_arms):
        peaks = [arm.device_peak_bytes for arm in compared(three_arms).arms]
        assert peaks == [3_000_000_000, 990_000_000, 990_000_000]

    def test_short_runs_count_their_last_step(self):
        assert results.measured([5.0, 6.0], warm_up_steps=4) == [6.0]

    def test_json_has_the_promised_fields(self, three_arms):
        written = json.loads(json.dumps(results.as_json(compared(three_arms))))
        assert set(written) == {
            "arms",
            "natural_peak_bytes",
            "device_budget_bytes",
            "bound_fraction",
            "predicted_step_seconds",
        }
        assert list(written["arms"]) == ["ideal", "planned", "on_demand"]
        for arm in written["arms"].values():
            assert set(arm) == {
                "step_seconds",
                "fraction_of_ideal",
                "device_peak_bytes",
                "ssd_bytes_read",
                "ssd_bytes_written",
                "losses_sha256",
                "parameters_sha256",
            }
        assert written["bound_fraction"] == 0.975
        assert written["arms"]["on_demand"]["ssd_bytes_read"] == 4 * 9e9 + 3 * 3e9

    def test_without_a_planned_arm_there_is_no_bound(self, three_arms):
        comparison = compared([three_arms[0], three_arms[2]])
        assert comparison.bound_fraction is None
        assert "Bound" not in printed(comparison)

    def test_natural_peak_without_a_plan_is_the_unlimited_peak(self):
        session = recorded_session([], natural_peak_bytes=None, device_peak_bytes=7)
        assert results.natural_peak_of(ArmResult("profile", {}, session)) == 7
        session = recorded_session([])
        assert results.natural_peak_of(ArmResult("profile", {}, session)) == 3_000_000_000


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

    def test_notes_say_memory_stalls_bound_and_prediction(self, three_arms):
        text = printed(compared(three_arms), width=200)
        assert "needs 3.00 GB. Its device budget was 1.00 GB, 3.0 times less" in text
        assert "Stall per step, planned: read 0.37 s, memory 0.05 s" in text
        assert "97.5% of ideal" in text
        assert "Predicted step, planned: 10.40 s; measured: 10.50 s" in text

    def test_each_arm_is_told_when_it_has_run(self, three_arms):
        assert show.newest(compared(three_arms[:1])) == "ideal: 10.00 s per step"
        assert show.newest(compared(three_arms)) == "on demand: 20.00 s per step, 50.0% of ideal"

    def test_picture_is_drawn_without_a_display(self, three_arms, tmp_path):
        session = three_arms[1].session
        show.draw_memory(tmp_path / "memory.png", session, session, 1_000_000_000)
        assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")

    def test_moment_is_one_line(self):
        stock = Moment(9.0, step=3, loss=5.25, step_seconds=2.5)
        assert describe(stock, 0, 0) == "loss 5.2500, step 2.50 s"
        ours = Moment(9.0, step=3, loss=5.25, step_seconds=2.5, device_bytes=10**9, mode="planned")
        expected = "loss 5.2500, step 2.50 s, device 1.00 GB, SSD read 1.50, write 0.25 GB/s"
        assert describe(ours, 1.5e9, 0.25e9) == expected + ", planned"
        assert describe(Moment(0.1), 0, 0) == "starting"

    def test_rates_are_over_the_last_seconds(self):
        rates = Rates()
        seconds = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        counters = [0, 100, 200, 300, 600, 900, 1200]
        seen = [
            rates.update(Moment(at, ssd_bytes_read=size, ssd_bytes_written=2 * size))
            for at, size in zip(seconds, counters, strict=True)
        ]
        assert seen[0] == (0, 0)
        assert seen[3] == (100, 200)
        assert seen[6] == (300, 600)

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
    def test_stock_arm_runs_without_us(self, tmp_path):
        command = Arm("ideal").command(["--steps", "2"], tmp_path, DRIVES)
        assert "teraio" not in command
        assert command[1:5] == [str(arms.WARM_START), str(arms.SCRIPT), "--steps", "2"]

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

    def test_full_means_more_and_larger_steps(self):
        quick, full = demo.parse_arguments([]), demo.parse_arguments(["--full"])
        assert (full.steps, full.accumulation) == (10, 4)
        assert quick.steps < full.steps and quick.accumulation < full.accumulation
        assert quick.steps > quick.warm_up_steps + 2, "enough for a median"
        assert demo.parse_arguments(["--full", "--steps", "5"]).steps == 5

    def test_demo_budget_is_a_part_of_the_peak(self):
        args = demo.parse_arguments(["--arms", "ideal", "planned"])
        chosen = demo.arms_of(args, 1_000_000)
        assert [(arm.name, arm.device_budget) for arm in chosen] == [
            ("ideal", None),
            ("planned", "1000000"),
        ]

    def test_arguments_after_the_dashes_reach_the_script(self):
        args = demo.parse_arguments(["--preset", "tiny", "--", "--bf16", "--layers", "1"])
        assert demo.training_arguments(args, 3)[-3:] == ["--bf16", "--layers", "1"]

    @pytest.mark.full
    def test_runs_to_its_end_and_is_watched(self, tmp_path):
        (tmp_path / "run.json").write_text('{"left": "by an earlier run"}')
        training = ["--preset", "tiny", "--sequence-length", "16", "--steps", "2"]
        training += ["--data", str(c4_file(tmp_path)), "--cache", str(tmp_path / "cache")]
        moments = []
        result = run_arm(Arm("ideal"), training, tmp_path, [], moments.append)
        assert (len(result.training["losses"]), result.session) == (2, None)
        assert moments[-1].step == 2
        assert moments[-1].loss == float.fromhex(result.training["losses"][-1])
        assert "step 2/2" in (tmp_path / "log.txt").read_text()

    @pytest.mark.full
    def test_failure_shows_the_end_of_the_log(self, tmp_path):
        with pytest.raises(ArmFailed, match="(?s)ideal ended with 2;.*/nowhere.json: no such file"):
            run_arm(Arm("ideal"), ["--data", "/nowhere.json"], tmp_path, [])

    def test_leaving_early_ends_the_process(self):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        with pytest.raises(KeyboardInterrupt), arms.stopping(process):
            raise KeyboardInterrupt
        assert process.returncode is not None

    def test_warm_start_runs_the_script_as_python_would(self, warm_python, tmp_path):
        (tmp_path / "beside.py").write_text("value = 7\n")
        script = tmp_path / "script.py"
        script.write_text("import sys, beside\nprint(__name__, sys.argv, beside.value)\n")
        outcome = warm_python(arms.WARM_START, script, "--flag", "x")
        assert outcome.out == f"__main__ ['{script}', '--flag', 'x'] 7\n", outcome


def c4_file(directory):
    path = directory / "text.json"
    lines = [json.dumps({"text": f"sentence number {n} of many"}) for n in range(200)]
    path.write_text("\n".join(lines) + "\n")
    return path
