"""A long run of tiny steps: what a session holds stays flat from a fifth of the run to its end.

TERAIO_SOAK_STEPS is the number of steps (`make soak STEPS=100000`).
"""

import json
import os

import pytest

STEPS = int(os.environ.get("TERAIO_SOAK_STEPS", 1000))
SAMPLES = 100

SOAKED = """\
import json, os, pathlib, sys
import torch, teraio

steps, shapes, report, ssd = int(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(160, 160) for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1])

def sample():
    file_bytes = 0
    numbers = os.listdir("/proc/self/fd")
    for number in numbers:
        path = f"/proc/self/fd/{number}"
        if os.path.islink(path) and "/.teraio-" in os.readlink(path):
            file_bytes += os.stat(path).st_blocks * 512
    return {
        "resident_bytes": status("VmRSS") * 1024,
        "mappings": sum(1 for _ in open("/proc/self/maps")),
        "descriptors": len(numbers),
        "threads": status("Threads"),
        "file_bytes": file_bytes,
        "names": len(os.listdir(ssd)),
        "report_bytes": sum(file.stat().st_size for file in report.glob("*")),
    }

with teraio.offload(
    "1MB", ssd=ssd, ssd_capacity="64MB", report=report
) as session:
    samples = []
    for step in range(steps):
        rows = 16 if shapes == "equal" else 8 + step * 7 % 23
        model(torch.full((rows, 160), 0.5)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % (steps // 100) == 0:
            samples.append(sample())
    written = session.counters()["ssd_bytes_written"]
report_bytes = {file.name: file.stat().st_size for file in report.glob("*")}
print(json.dumps({"samples": samples, "written": written, "report_bytes": report_bytes}))
"""

# What the end may have more than the fifth of the run. The history that `iterations()` and
# `verify()` return, one entry per step, grows by HISTORY_BYTES at most.
HISTORY_BYTES = 600
TOLERANCES = {
    "resident_bytes": 8_000_000,
    "mappings": 64,  # they depend on where extents lie, and go up and down by 20
    "descriptors": 2,
    "threads": 0,
    "file_bytes": 0,
    "names": 0,
    "report_bytes": 65_536,
}


@pytest.mark.full
@pytest.mark.parametrize("shapes", ["equal", "changing"])
def test_what_a_session_holds_stays_flat(warm_python, tmp_path, shapes):
    (tmp_path / "ssd").mkdir()
    (tmp_path / "soaked.py").write_text(SOAKED)
    arguments = (STEPS, shapes, tmp_path / "report", tmp_path / "ssd")
    outcome = warm_python("soaked.py", *arguments, timeout_s=60 + STEPS)
    assert outcome.code == 0, outcome
    result = json.loads(outcome.out.splitlines()[-1])
    samples = result["samples"]
    print(f"{STEPS} steps of {shapes} shapes: at 20 % {samples[19]}, at the end {samples[-1]}")
    print(f"written: {result['written']}, reports: {result['report_bytes']}")
    assert len(samples) == SAMPLES and result["written"] > STEPS * 100_000
    history_bytes = STEPS * 8 // 10 * HISTORY_BYTES
    for name, tolerance in TOLERANCES.items():
        settled = max(sample[name] for sample in samples[9:20])
        highest = max(sample[name] for sample in samples[20:])
        allowed = tolerance + (history_bytes if name == "resident_bytes" else 0)
        assert highest <= settled + allowed, f"{name}: {settled} at 20 %, later {highest}"
    assert list((tmp_path / "ssd").iterdir()) == []
