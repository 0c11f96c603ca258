"""The checks of `make gpu-check` with PyTorch and our build, on the CPU and on an emulated GPU."""

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from emulated_gpu import environment, skip_without_machine

ROOT = Path(__file__).resolve().parents[3]
WORKLOADS = ROOT / "tests" / "gpu" / "workloads"
sys.path.append(str(WORKLOADS))
sys.path.append(str(ROOT / "tools" / "gpu_check"))

figures = importlib.import_module("figures")
fingerprints = importlib.import_module("fingerprint")
step_profile = importlib.import_module("step_profile")

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not torch.__version__.startswith("2.11."),
        reason="not applicable: gpu-check uses PyTorch 2.11",
    ),
]


@pytest.fixture
def text(tmp_path):
    """A folder as make gpu-carry leaves it, with nothing but a text to train on."""
    words = (ROOT / "docs" / "architecture.md").read_text()
    carry = tmp_path / "carry"
    carry.mkdir()
    with gzip.open(carry / "text.json.gz", "wt") as lines:
        for _ in range(8):
            lines.write(json.dumps({"text": words}) + "\n")
    return carry / "text.json.gz"


@pytest.fixture
def gpu_check(tmp_path, text):
    """Runs the parts of gpu-check that follow the build, in their shortest form, with success.
    Gives the text of its report, and what its tests have measured as (kind, record)."""

    def gpu_check(device, environment, *options):
        build, out = tmp_path / "build", tmp_path / "out"
        build.mkdir()
        for name in ("bin", "python"):
            (build / name).symlink_to(ROOT / "build" / name)
        command = [sys.executable, ROOT / "tools" / "gpu_check" / "gpu_check.py", "--out", out]
        command += ["--build", build, "--carry", text.parent, "--device", device, "--tiny"]
        command += ["--parts", "checks", "link", "training", "peers", *options]
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,  # cuFile leaves a log there
        )
        assert done.returncode == 0, done.stdout + done.stderr
        measured = [item for log in out.glob("*.jsonl") for item in figures.records(log)]
        return (out / "report.txt").read_text(), measured

    return gpu_check


@pytest.mark.full
def test_the_whole_flow(gpu_check):
    few = "not text and not save_on_cpu"  # each takes a process that imports torch
    report, measured = gpu_check("cpu", os.environ, "-k", few)
    assert re.search(r"PASSED \S*test_bits\.py::test_bits\[llama, changing lengths\]", report)
    assert "test_peers.py::TestJob::test_peer[fsdp2-tiny-fp32] PASSED" in report
    assert "device <-> host, both: " in report
    assert "BITS DIFFER" not in report
    arms = {(r["title"], r["arm"]): r for kind, r in measured if kind == "arm"}
    ample, both = arms["tiny-fp32", "ample"], arms["tiny-fp32", "both-2"]
    assert both["budget_bytes"] == ample["peak_bytes"] // 2 >= both["peak_bytes"]
    assert sum(step.get("host_bytes_read", 0) for step in both["changes"]) > 0


# Nothing of it runs for the first time on a GPU, but for the build and the larger shapes.
@pytest.mark.full
def test_the_whole_flow_on_the_emulated_gpu(gpu_check):
    skip_without_machine()
    report, measured = gpu_check("cuda", environment())
    assert "SKIPPED" not in report
    assert "test_machine.py::test_gpu_is_found PASSED" in report
    assert re.search(
        r"PASSED \S*test_streams\.py::test_results_are_those_without_a_session\[capture\]", report
    )
    assert "BITS DIFFER" not in report and len(measured) > 5


@pytest.mark.full
def test_an_arm_that_fails_leaves_its_process_to_the_next(tmp_path, text):
    command = [sys.executable, WORKLOADS / "measure_training.py", "--device", "cpu", "--steps", 1]
    command += ["--ssd", tmp_path, "--cache", tmp_path / "cache", "--data", text]
    requests = [
        {"arm": "host-2"},
        {"arm": "host-at-100000", "peak_bytes": 1 << 25},
        {"arm": "stock"},
    ]
    done = subprocess.run(
        [str(word) for word in command],
        input="".join(json.dumps(request) + "\n" for request in requests),
        env=os.environ | {"PYTHONPATH": str(ROOT / "build" / "python"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["arm"] for record in records] == [request["arm"] for request in requests]
    without_peak, too_small, stock = records
    assert without_peak["outcome"].startswith("failed: NoPeak")
    assert too_small["outcome"].startswith("failed: ")
    assert stock["outcome"] == "done" and len(stock["losses"]) == 1


def event(cat, name, ts, dur, correlation, **args):
    args |= {"correlation": correlation} | ({"stream": 7} if cat in step_profile.WORK else {})
    return {"ph": "X", "cat": cat, "name": name, "tid": 1, "ts": ts, "dur": dur, "args": args}


def test_a_gap_between_kernels_is_of_the_host_until_the_launch_and_of_the_gpu_after_it():
    shares = step_profile.shares_of(
        [
            event("cuda_runtime", "cudaLaunchKernel", 0, 2, 1),
            event("kernel", "first", 5, 5, 1),
            event("cuda_runtime", "cudaEventSynchronize", 9, 2, 2),
            event("cuda_runtime", "cudaLaunchKernel", 12, 2, 3),
            event("kernel", "second", 40, 5, 3),
            event("cuda_runtime", "cudaMemcpyAsync", 14, 1, 4),
            event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 45, 2, 4, bytes=100),
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "tid": 1, "ts": 1},
        ]
    )
    assert shares["seconds"] == pytest.approx(47e-6)
    assert shares["busy_seconds"] == pytest.approx({"kernel": 10e-6, "Memcpy DtoD": 2e-6})
    assert shares["bytes"]["Memcpy DtoD"] == 100
    assert shares["calls"]["cudaLaunchKernel"] == [2, pytest.approx(4e-6)]
    assert (shares["gap_seconds"], shares["gaps_over_20_us"]) == (pytest.approx(30e-6), 1)
    assert shares["waiting_kernel_seconds"] == pytest.approx(26e-6)
    late = {"cudaEventSynchronize": 1e-6, "cudaLaunchKernel": 2e-6, "own work": 1e-6}
    assert shares["late_host_seconds"] == pytest.approx(late)


def test_equal_tensors_have_equal_fingerprints_and_others_have_not(monkeypatch):
    monkeypatch.setattr(fingerprints, "PIECE_WORDS", 400)
    fingerprint = fingerprints.fingerprint
    values = torch.arange(1_000, dtype=torch.float32)
    same, other = values.clone(), values.clone()
    other.view(torch.int32)[999] ^= 1
    swapped = values.clone()
    swapped[[0, 1]] = swapped[[1, 0]]
    zero, minus = torch.zeros(3), -torch.zeros(3)
    assert fingerprint([values]) == fingerprint([same])
    assert len({fingerprint([t]) for t in (values, other, swapped, zero, minus)}) == 5
    assert fingerprint([zero, values]) != fingerprint([values, zero])
    with pytest.raises(ValueError, match="bfloat16"):
        fingerprint([zero.bfloat16()])
