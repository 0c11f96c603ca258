"""What the C++ command predicts from the trace, the plan and the hardware of a run."""

import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from teraio.errors import Error
from teraio.files.native_command import command_path
from teraio.report.timeline import Timeline

# After so long, a plan for a machine with something changed is the best of the rounds so far. Only
# steps of tens of thousands of ops take longer; one round is within half a percent of all there.
_PLANNING_SECONDS = 1


@dataclass(frozen=True)
class Prediction:
    """One step under the plan, in steady state.

    - `totals`: what `teraio simulate --json` prints.
    - `timeline`: the step's Timeline.
    - `explanation`: what `teraio explain --json --brief` prints.
    """

    totals: dict
    timeline: Timeline
    explanation: dict


def predict(directory):
    """Returns the Prediction for the plan of a RunDirectory, which must have one.

    Raises:
        teraio.Error: the command fails; the message is its own.
    """
    limit = ("--time-limit", _PLANNING_SECONDS)
    with ThreadPoolExecutor() as threads:
        explanation = threads.submit(_run, "explain", directory, "--brief", *limit)
        totals, timeline = _simulate(directory)
        return Prediction(totals, timeline, explanation.result())


def _simulate(directory):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "timeline.json"
        totals = _run("simulate", directory, "--timeline", path)
        events = json.loads(path.read_text())["traceEvents"]
    return totals, Timeline(events, totals["step_ns"] / 1e9)


def _run(name, directory, *options):
    command = [command_path(), name, "--json", *_inputs(directory), *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("teraio: "))
    return json.loads(done.stdout)


def _inputs(directory):
    yield from ("--trace", directory.trace_path, "--hardware", directory.hardware_path)
    yield from ("--plan", directory.plan_path)
    limits = directory.run["prediction"] or {}
    budget_bytes = limits.get("device_budget_bytes") or directory.run["device_budget_bytes"]
    yield from ("--device-budget", budget_bytes)
    if limits.get("write_budget_bytes"):
        yield from ("--write-budget", limits["write_budget_bytes"])
