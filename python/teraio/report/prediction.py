"""What the C++ command predicts from the trace, the plan and the hardware of a run."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from teraio.errors import Error
from teraio.native_command import command_path
from teraio.report.timeline import Timeline

_MANY_OPS = 20_000


@dataclass(frozen=True)
class Prediction:
    """One step under the plan, in steady state.

    - `totals`: what `teraio simulate --json` prints.
    - `timeline`: the step's Timeline.
    - `explanation`: what `teraio explain --json` prints.
    """

    totals: dict
    timeline: Timeline
    explanation: dict


def predict(directory):
    """Returns the Prediction for the plan of a RunDirectory, which must have one.

    Raises:
        teraio.Error: the command fails; the message is its own.
    """
    with tempfile.TemporaryDirectory() as scratch:
        timeline = Path(scratch) / "timeline.json"
        totals = _run("simulate", directory, "--timeline", timeline)
        events = json.loads(timeline.read_text())["traceEvents"]
    _announce_planning(len(directory.trace["ops"]))
    explanation = _run("explain", directory)
    return Prediction(totals, Timeline(events, totals["step_ns"] / 1e9), explanation)


def _announce_planning(op_count):
    if op_count > _MANY_OPS:
        print(
            f"teraio report: planning a step of {op_count:,} ops with other drives and memory, "
            "which takes up to a minute ...",
            file=sys.stderr,
        )


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
