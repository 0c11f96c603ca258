"""`make gpu-check`: everything that needs a GPU, in one command.

Builds for the Python that runs this, runs the tests of the device, the storage and the engine and
the comparisons of bits on the GPU, and leaves gpu_check.json and gpu_check.txt in OUT. A step that
fails does not keep the others from running. Exit code 1 when one failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TAIL_CHARACTERS = 4000


@dataclass
class Step:
    name: str
    command: list
    environment: dict = field(default_factory=dict)
    timeout_seconds: int = 120
    needs: str = ""  # a program without which the step is skipped


def build_steps(build):
    configure = ["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", "-DTERAIO_CUDA=ON"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DTERAIO_BUILD_BENCHMARKS=OFF"]
    return [
        Step("configure", configure, timeout_seconds=60),
        Step("build", ["cmake", "--build", str(build)], timeout_seconds=420),
    ]


def test_steps(build):
    program = build / "bin"
    on_gpu = {"TERAIO_TEST_DEVICE": "cuda"}
    small = "--gtest_filter=*cuda*:CudaOrder*-*Random*"
    return [
        Step("a GPU is there", [str(program / "device_tests"), "--gtest_filter=*TellsWhatItIs"]),
        Step("device", [str(program / "device_tests")]),
        Step("storage", [str(program / "storage_tests")], timeout_seconds=240),
        Step("engine", [str(program / "engine_tests")], on_gpu, timeout_seconds=240),
        Step(
            "device under compute-sanitizer",
            ["compute-sanitizer", "--error-exitcode", "9", str(program / "device_tests"), small],
            timeout_seconds=240,
            needs="compute-sanitizer",
        ),
    ]


def bit_steps(build):
    script = str(ROOT / "tools" / "gpu_check" / "bits.py")
    package = {"PYTHONPATH": str(build / "python")}
    cases = ["single", "foreach", "fused", "autocast", "checkpointing", "compile"]
    steps = [
        Step(f"bits: {case}", [sys.executable, script, "--case", case], package) for case in cases
    ]
    for case in ("single", "fused", "autocast"):
        command = [sys.executable, script, "--case", case, "--stress"]
        steps.append(Step(f"bits under stress: {case}", command, package))
    return steps


def run_step(step):
    """What came of it, as a dict. `skipped` tests of a C++ program make it skipped, not passed."""
    result = {"name": step.name, "command": step.command}
    if step.needs and shutil.which(step.needs) is None:
        return result | {"outcome": "skipped", "output": f"{step.needs} is not installed"}
    start = time.monotonic()
    try:
        done = subprocess.run(
            step.command,
            cwd=ROOT,
            env=os.environ | step.environment,
            timeout=step.timeout_seconds,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        output, outcome = done.stdout, "passed" if done.returncode == 0 else "failed"
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        outcome = f"failed: not done after {step.timeout_seconds} s"
    except OSError as error:
        output, outcome = str(error), "failed"
    if outcome == "passed" and "[  SKIPPED ]" in output:
        outcome = "passed, in part skipped"
    seconds = round(time.monotonic() - start, 1)
    return result | {"outcome": outcome, "seconds": seconds, "output": output[-TAIL_CHARACTERS:]}


def text_of(results):
    lines = [f"{r['outcome']:<24} {r.get('seconds', 0):>7} s  {r['name']}" for r in results]
    for result in results:
        if result["outcome"].startswith("failed"):
            lines += ["", f"--- {result['name']}", result["output"]]
    return "\n".join(lines) + "\n"


def write_report(out, results):
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu_check.json").write_text(json.dumps({"steps": results}, indent=1))
    (out / "gpu_check.txt").write_text(text_of(results))


def run_all(steps, out):
    """The results; the report is written after every step, so that a cut run leaves one."""
    results = []
    for step in steps:
        results.append(run_step(step))
        print(f"{results[-1]['outcome']:<24} {step.name}", flush=True)
        write_report(out, results)
        if step.name in ("configure", "build") and results[-1]["outcome"] != "passed":
            break
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="gpu-check", type=Path, help="folder for the report")
    parser.add_argument("--build", default=ROOT / "build-gpu", type=Path)
    options = parser.parse_args()
    build = options.build.absolute()
    steps = build_steps(build) + test_steps(build) + bit_steps(build)
    results = run_all(steps, options.out)
    print(f"report in {options.out}/gpu_check.txt and gpu_check.json")
    return 1 if any(r["outcome"].startswith("failed") for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
