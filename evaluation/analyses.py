"""What the document needs to know of a case: each question is one or two runs of `teraio`."""

import json
import os
import platform
import re
import tempfile
from pathlib import Path

from evaluation import cases
from evaluation.command import Refused, teraio
from evaluation.timeline import SSD_READ, SSD_WRITE, Timeline

SLICES = 240
UNITS_S = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
BANDWIDTHS = "2GB,4GB,8GB,12GB,16GB,24GB,32GB,48GB,64GB"
# To what 1 TB of host memory leaves each of two GPUs.
HOST_MEMORIES = "0,32GB,64GB,128GB,256GB,385GB,512GB"


def tables(name, *arguments):
    """The tables that a command writes with --out. Its figures, for which it would start a Python,
    are not wanted: the document has its own."""
    with tempfile.TemporaryDirectory() as folder:
        teraio(*arguments, "--out", folder, TERAIO_PYTHON="none")
        return json.loads((Path(folder) / f"{name}.json").read_text())


def characterization(trace):
    return tables("characterization", "characterize", trace, "--hardware", cases.HARDWARE)


def memory(trace):
    """The characterization without its roofline, which takes as long as several plans."""
    return tables("characterization", "characterize", trace)


def against_bandwidth(trace):
    given = ["--trace", trace, "--hardware", cases.HARDWARE, "--host-limit", "0"]
    return tables("what-if", "what-if", *given, "--bandwidth", BANDWIDTHS)


def against_drives_and_host(trace):
    given = ["--trace", trace, "--hardware", cases.HARDWARE]
    grid = ["--drives", "1-4", "--host-memory", HOST_MEMORIES, "--grid"]
    return tables("what-if", "what-if", *given, *grid)


def performance(trace, system):
    """A system's step as planned and simulated, and what happens in it over time;
    {"refused": why} where it does not fit."""
    return step(trace, system, Path("timeline.json"))


def step(trace, system, timeline=None):
    """The same; without a timeline what it alone can tell is left out."""
    policy, *limits = system.options
    given = ["--trace", trace, "--hardware", cases.HARDWARE, *limits]
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json.gz"
        try:
            said = teraio("plan", *given, "--policy", policy, "--out", plan)
        except Refused as refusal:
            return {"refused": str(refusal)}
        wanted = ["--timeline", Path(folder) / timeline] if timeline else []
        run = json.loads(teraio("simulate", *given, "--plan", plan, "--json", *wanted))
        run |= of_planning(said)
        if timeline:
            run |= of_timeline(json.loads(wanted[1].read_text())["traceEvents"], run)
    return run


def of_timeline(events, run):
    timeline = Timeline(events, run["step_ns"] / 1e9)
    return {
        "overlapped_s": timeline.overlapped_s(),
        "ssd_read_rates": timeline.rates(SSD_READ, SLICES),
        "ssd_write_rates": timeline.rates(SSD_WRITE, SLICES),
    }


def of_planning(said):
    """How long planning took, which is measured here, and on what."""
    number, unit = re.search(r"planned in ([0-9.]+) (s|ms|us|ns)\b", said).groups()
    bound = re.search(r"no plan is faster than ([0-9.]+) (s|ms|us|ns)\b", said)
    return {
        "planning_s": float(number) * UNITS_S[unit],
        "bound_s": float(bound.group(1)) * UNITS_S[bound.group(2)],
        "machine": machine(),
        "load": os.getloadavg()[0],
    }


def machine():
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {names[0] if names else platform.machine()}"
