"""Draws the simulated step of a plan: device memory, transfers and compute over time.

draw_plan.py TRACE HARDWARE PICTURE [OPTION OF teraio plan ...]

Plans, simulates, and draws the timeline of the simulator to PICTURE, a PNG file. The figure of
docs/planning.md is:

  .venv/bin/python tools/draw_plan.py tests/data/traces/l8.json.gz tests/data/traces/h100_ssd.json \
    docs/images/plan.png --effort fast
"""

import argparse
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
    CalledProcessError when a command fails, which has told why on stderr.
    """
    inputs = ["--trace", trace, "--hardware", hardware]
    with tempfile.TemporaryDirectory() as folder:
        plan, timeline = Path(folder) / "plan.json", Path(folder) / "timeline.json"
        run(["plan", *inputs, *options, "--out", plan])
        result = run(["simulate", *inputs, "--plan", plan, "--json", "--timeline", timeline])
        return json.loads(timeline.read_text())["traceEvents"], json.loads(result)


def run(arguments):
    return subprocess.run([TERAIO, *arguments], check=True, stdout=subprocess.PIPE).stdout


def draw(trace, hardware_path, picture, options):
    events, result = simulate(trace, hardware_path, options)
    hardware = json.loads(Path(hardware_path).read_text())
    name = Path(trace).name.partition(".")[0]
    title = f"{name} on {hardware['name']}: {100 * result['fraction_of_ideal']:.1f} % of ideal"
    timeline = Timeline(events, result["step_ns"] / 1e9)
    step(timeline, hardware["device_memory_bytes"], title).savefig(picture, format="png")


def parsed(words):
    parser = argparse.ArgumentParser(description="Draws the simulated step of a plan.")
    add = parser.add_argument
    add("trace", metavar="TRACE", help="trace of one iteration (.json or .json.gz)")
    add("hardware", metavar="HARDWARE", help="hardware file of the machine (.json)")
    add("picture", metavar="PICTURE", help="the PNG file to write")
    add("options", metavar="OPTION", nargs=argparse.REMAINDER, help="options of `teraio plan`")
    arguments = parser.parse_args(words)
    if not TERAIO.is_file():
        parser.error(f"{TERAIO} does not exist: run `make build` first")
    if not Path(arguments.picture).absolute().parent.is_dir():
        parser.error(f"PICTURE: the folder of {arguments.picture} does not exist: create it first")
    return arguments


def main():
    arguments = parsed(sys.argv[1:])
    try:
        draw(arguments.trace, arguments.hardware, arguments.picture, arguments.options)
    except subprocess.CalledProcessError as failed:
        return failed.returncode
    except OSError as error:
        print(f"draw_plan.py: {arguments.picture}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
