"""Draws the simulated step of a plan: device memory, transfers and compute over time.

draw_plan.py TRACE HARDWARE PICTURE [OPTION OF teraio plan ...]

Plans, simulates, and draws the timeline of the simulator to PICTURE, a PNG file. The figure of
docs/planning.md is:

  .venv/bin/python tools/draw_plan.py tests/data/traces/l8.json.gz tests/data/traces/h100_ssd.json \
    docs/images/plan.png --effort fast
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from teraio_figures.step import step
from teraio_figures.timeline import Timeline

TERAIO = Path(__file__).resolve().parents[1] / "build" / "bin" / "teraio"


def simulate(trace, hardware, options):
    """Plans and simulates a step of the trace on the hardware; all three are arguments of `teraio`.

    Returns the events of its timeline, and what `teraio simulate --json` prints. Raises
    CalledProcessError when a command fails.
    """
    inputs = ["--trace", trace, "--hardware", hardware]
    with tempfile.TemporaryDirectory() as folder:
        plan, timeline = Path(folder) / "plan.json", Path(folder) / "timeline.json"
        run(["plan", *inputs, *options, "--out", plan])
        result = run(["simulate", *inputs, "--plan", plan, "--json", "--timeline", timeline])
        return json.loads(timeline.read_text())["traceEvents"], json.loads(result)


def run(arguments):
    return subprocess.run([TERAIO, *arguments], check=True, stdout=subprocess.PIPE).stdout


def main(trace, hardware_path, picture, *options):
    events, result = simulate(trace, hardware_path, options)
    hardware = json.loads(Path(hardware_path).read_text())
    name = Path(trace).name.partition(".")[0]
    title = f"{name} on {hardware['name']}: {100 * result['fraction_of_ideal']:.1f} % of ideal"
    timeline = Timeline(events, result["step_ns"] / 1e9)
    step(timeline, hardware["device_memory_bytes"], title).savefig(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
