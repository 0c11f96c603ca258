"""`make gpu-check` where there is no GPU: its steps, its limits, and the whole flow on the CPU."""

import gzip
import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "gpu_check"
WORKLOADS = ROOT / "tests" / "gpu" / "workloads"
sys.path[:0] = [str(TOOL), str(WORKLOADS)]

steps = importlib.import_module("steps")
gpu_check = importlib.import_module("gpu_check")
fingerprint = importlib.import_module("fingerprint").fingerprint
Step, Clock = steps.Step, steps.Clock


def python(code):
    return [sys.executable, "-c", code]


def outcome(step, seconds=100):
    return steps.run_step(step, Clock(seconds))["outcome"]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def dies(pid, seconds=60):
    """Whether it does; the system may take its time over one that it was told to end."""
    deadline = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.mark.parametrize(
    "step, expected",
    [
        (Step("good", python("print('fine')")), "passed"),
        (Step("bad", python("raise SystemExit(3)")), "failed: exit code 3"),
        (Step("part", python("print('[  SKIPPED ] a test')")), "passed, in part skipped"),
        (Step("absent", ["x"], needs="a-program-that-nobody-has"), "skipped"),
        (Step("unstartable", ["/nowhere/x"]), "failed"),
        (Step("killed", ["sh", "-c", "kill -SEGV $$"]), "failed: ended by SIGSEGV"),
        (Step("expensive", python(""), needs_seconds=200), "skipped"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_came_of_a_step_is_told(step, expected):
    assert outcome(step) == expected


def test_a_slow_step_is_ended_with_all_that_it_started(tmp_path):
    child = tmp_path / "child"
    step = Step("slow", ["sh", "-c", f"sleep 600 & echo $! >{child}; wait"], timeout_seconds=2)
    assert outcome(step) == "failed: not done after 2 s"
    assert dies(int(child.read_text()))


def test_a_step_that_has_stopped_to_speak_tells_where_it_stands():
    code = "import time\ndef lingers():\n  time.sleep(60)\nprint('x', flush=True)\nlingers()"
    step = Step("silent", python(code), quiet_seconds=3)
    result = steps.run_step(step, Clock(100))
    assert result["outcome"] == "failed: nothing was heard of it for 3 s"
    assert "in lingers" in result["output"]


def test_a_step_that_was_killed_goes_on_and_one_that_has_failed_does_not(tmp_path):
    seen = tmp_path / "seen"
    killed_once = f"[ -e {seen} ] || {{ touch {seen}; kill -KILL $$; }}"
    assert outcome(Step("goes on", ["sh", "-c", killed_once], attempts=2)) == "passed"
    fails = Step("fails", ["sh", "-c", f"echo x >>{seen}; exit 1"], attempts=2)
    assert outcome(fails) == "failed: exit code 1"
    assert seen.read_text() == "x\n"


def test_when_time_is_up_what_runs_is_ended_and_the_rest_skipped():
    clock, told = Clock(2), []
    waiting = [Step("a", python("import time; time.sleep(60)")), Step("b", python("print(1)"))]
    steps.run_together(waiting, clock, 1, told.append)
    assert [result["outcome"] for result in told] == ["cut off after 2 s", "skipped"]


def test_equal_tensors_have_equal_fingerprints_and_others_have_not():
    torch = pytest.importorskip("torch")
    values = torch.arange(5_000_000, dtype=torch.float32)
    same, other = values.clone(), values.clone()
    other.view(torch.int32)[4_999_999] ^= 1
    swapped = values.clone()
    swapped[[0, 1]] = swapped[[1, 0]]
    zero, minus = torch.zeros(3), -torch.zeros(3)
    assert fingerprint([values]) == fingerprint([same])
    assert len({fingerprint([t]) for t in (values, other, swapped, zero, minus)}) == 5
    assert fingerprint([zero, values]) != fingerprint([values, zero])
    with pytest.raises(ValueError, match="bfloat16"):
        fingerprint([zero.bfloat16()])


def test_the_report_is_there_after_every_step(tmp_path):
    options = gpu_check.parse_arguments(
        ["--out", str(tmp_path / "out"), "--build", str(tmp_path), "--device", "cpu"]
    )
    check = gpu_check.Check(options)
    assert not check.run(Step("bad", python("print('oh'); raise SystemExit(3)")))
    assert check.run(Step("good", python("print('fine')")))
    check.skip("late", "no time")
    content = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert [step["name"] for step in content["steps"]] == ["bad", "good", "late"]
    text = (tmp_path / "out" / "gpu_check.txt").read_text()
    assert "--- bad\noh" in text and "--- good" not in text and "late (no time)" in text


def test_nothing_is_run_of_what_could_not_be_built(tmp_path, monkeypatch):
    arguments = ["--out", tmp_path / "out", "--build", tmp_path, "--device", "cpu"]
    fails = [Step("configure", python("raise SystemExit(1)")), Step("build", python(""))]
    monkeypatch.setattr(gpu_check.parts, "build_steps", lambda place: fails)
    assert gpu_check.main([str(word) for word in arguments]) == 1
    content = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert [step["name"] for step in content["steps"]] == ["configure"]


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    """Runs the tool on a pretended GPU: all steps pass, and leave a record where one is given.

    Gives the commands by the steps' names.
    """

    def run(*arguments, records=None):
        ran = {}

        def pretend(step, clock):
            ran[step.name] = [str(word) for word in step.command]
            if step.name in (records or {}):
                file, record = records[step.name]
                (tmp_path / "build" / "gpu-check" / file).write_text(json.dumps(record) + "\n")
            return {"name": step.name, "outcome": "passed", "output": ""}

        monkeypatch.setattr(gpu_check, "run_step", pretend)
        monkeypatch.setattr(steps, "run_step", pretend)
        words = ["--out", tmp_path / "out", "--build", tmp_path / "build", *arguments]
        assert gpu_check.main([str(word) for word in words]) == 0
        return ran

    return run


def test_what_matters_most_comes_first(pretended):
    ran = list(pretended())
    first = ["configure", "a GPU is there", "bits: fused", "link and drive", "training 1b-fp32-1"]
    then = ["training 1b-long-fp32-2", "peer fsdp2 1b fp32", "training 1b-bf16-3"]
    last = ["training llama3-8b-fp32-4", "training llama3-8b-bf16-5"]
    places = [ran.index(name) for name in first + then + last]
    assert places == sorted(places)
    cases = ("autocast", "checkpointing", "compile", "deviation", "foreach", "fused", "single")
    for case in cases:
        assert f"bits: {case}" in ran and f"bits under stress: {case}" in ran
    assert "device tests under compute-sanitizer" in ran


def test_parts_can_be_chosen_and_what_others_have_measured_stays(tmp_path, pretended):
    work = tmp_path / "build" / "gpu-check"
    work.mkdir(parents=True)
    kept, gone = work / "link.json", work / "1b-fp32-1.arms.jsonl"
    kept.write_text(json.dumps({"rows": [], "no_fio": "", "ssd_io_path": ""}))
    gone.write_text("")
    ran = pretended("--parts", "training")
    assert not any(name.startswith(("build", "bits", "peer")) for name in ran)
    assert kept.exists() and not gone.exists()


def test_ours_is_measured_within_the_peak_that_a_peer_took(pretended):
    shared = {"outcome": "done", "measured_seconds": [1.0]}
    ample = shared | {"arm": "ample", "peak_bytes": 900}
    peer = shared | {"arm": "fsdp2", "peak_bytes": 300}
    records = {
        "training 1b-fp32-1": ("1b-fp32-1.arms.jsonl", ample),
        "peer fsdp2 1b fp32": ("1b-fp32.peers.jsonl", peer),
    }
    command = pretended("--parts", "training", "peers", records=records)["training 1b-fp32-3"]
    assert "host-at-300" in command and command[-2:] == ["--peak-bytes", "900"]


@pytest.fixture
def bench(tmp_path):
    """A place that uses the build under test, and a text of its own. Gives options of the tool."""
    if not torch.__version__.startswith("2.11."):
        pytest.skip("gpu-check is for PyTorch 2.11, as the CUDA backend is")
    build = tmp_path / "build"
    build.mkdir()
    for name in ("bin", "python"):
        (build / name).symlink_to(ROOT / "build" / name)
    carry = tmp_path / "carry"
    carry.mkdir()
    words = (ROOT / "docs" / "architecture.md").read_text()
    with gzip.open(carry / "text.json.gz", "wt") as lines:
        for _ in range(8):
            lines.write(json.dumps({"text": words}) + "\n")
    return ["--build", build, "--carry", carry, "--out", tmp_path / "out", "--device", "cpu"]


def run_tool(script, arguments, **options):
    command = [str(word) for word in (sys.executable, script, *arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)


@pytest.mark.slow
def test_an_arm_that_fails_keeps_no_other_from_being_measured(tmp_path, bench):
    out = tmp_path / "arms.jsonl"
    out.write_text(json.dumps({"arm": "ssd-2", "outcome": "failed: it ended the process"}) + "\n")
    arms = ["host-2", "stock", "ample", "host-at-100000", "ssd-2", "both-2"]
    words = ["--arms", *arms, "--device", "cpu", "--ssd", tmp_path, "--steps", 7, "--out", out]
    words += ["--cache", tmp_path / "cache", "--data", bench[3] / "text.json.gz"]
    done = run_tool(WORKLOADS / "measure_training.py", words)
    assert done.returncode == 1, done.stdout + done.stderr
    records = {r["arm"]: r for r in map(json.loads, out.read_text().splitlines())}
    assert records["host-2"]["outcome"].startswith("failed: NoPeak")
    assert records["host-at-100000"]["outcome"].startswith("failed: ")
    assert records["ssd-2"]["outcome"] == "failed: it ended the process"
    stock, ample, both = (records[arm] for arm in ("stock", "ample", "both-2"))
    assert stock["losses"] == ample["losses"] == both["losses"] and len(stock["losses"]) == 7
    assert stock["state"] == ample["state"] == both["state"]
    assert both["budget_bytes"] == ample["peak_bytes"] // 2 >= both["peak_bytes"]
    assert sum(step["host_bytes_read"] for step in both["measured"]) > 0


@pytest.mark.slow
def test_the_whole_flow_without_a_gpu(tmp_path, bench):
    parts = ["checks", "link", "training", "peers"]
    done = run_tool(TOOL / "gpu_check.py", [*bench, "--tiny", "--parts", *parts])
    assert done.returncode == 0, done.stdout + done.stderr
    content = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    by_name = {row["name"]: row for row in content["rows"]}
    bits = by_name["tiny-fp32: arms whose losses and state have stock's bits"]
    assert bits["met"] and bits["value"] == 4
    for tiers in ("host, peak/budget 2", "ssd, peak/budget 2", "host and ssd, peak/budget 3"):
        row = by_name[f"tiny-fp32, {tiers}: fraction of ideal"]
        assert 0 < row["value"] and 0 < row["reference"] <= 0.95
    assert any(name.startswith("device <-> host, both: engine / bare") for name in by_name)
    outcomes = {step["name"]: step["outcome"] for step in content["steps"]}
    assert outcomes["bits under stress: deviation"] == "passed"
    assert outcomes["peer save_on_cpu tiny fp32"] == "passed"
    assert outcomes["peer fsdp2 tiny fp32"] == "passed"
    peers = {record["arm"]: record for record in content["records"]["peers"]["tiny-fp32"]}
    stock = content["records"]["trainings"]["tiny-fp32"][0][0]
    assert peers["save_on_cpu"]["losses"] == stock["losses"][: len(peers["save_on_cpu"]["losses"])]


@pytest.mark.slow
def test_a_run_that_is_told_to_end_leaves_its_report(tmp_path, bench):
    words = [sys.executable, TOOL / "gpu_check.py", *bench, "--tiny", "--parts", "checks"]
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "out" / "gpu_check.json").exists():
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1
    content = json.loads((tmp_path / "out" / "gpu_check.json").read_text())
    assert content["steps"][-1]["outcome"].startswith(("skipped", "cut off"))
