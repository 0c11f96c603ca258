"""The checks of `make gpu-check` with PyTorch and our build, on the CPU and on an emulated GPU."""

import gzip
import importlib
import json
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
        command += ["--parts", "checks", "link", "training", *options]
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
