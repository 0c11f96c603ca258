"""The analyses of a case for the document: each runs `teraio` on the trace of the case."""

import functools
import json
import os
import platform
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evaluation import cases
from evaluation.command import CommandFailed, teraio
from teraio_figures.timeline import SSD_READ, SSD_WRITE, Timeline

SLICES = 240  # of a step, for rates over time
UNITS_S = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
ONLY_MOVES = ("--recompute", "off")  # like the paper
BANDWIDTHS = "2GB,4GB,8GB,12GB,16GB,24GB,32GB,48GB,64GB"
# What 1 TB of host memory leaves for each of two GPUs, at most.
HOST_MEMORIES = "0,32GB,64GB,128GB,256GB,385GB,512GB"


@dataclass(frozen=True)
class Analysis:
    """A question about a trace.

    `compute` takes the trace's path and returns a JSON value, or raises CommandFailed. The value
    depends on the trace, the machine, `teraio`, and `parameters`.
    """

    name: str
    compute: Callable[[Path], dict]
    parameters: tuple = ()


def of_case(case):
    """Returns the analyses of a case.

    A case of every figure has all of them, a step of Figure 7 alone has fewer, and a stage of a
    pipeline has memory.
    """
    if case in cases.STAGES:
        return [Analysis("characterization", characterization)]
    if case in cases.CASES:
        return [
            Analysis("characterization", characterization),
            *(_step_under(system, with_timeline=True) for system in cases.SYSTEMS),
            Analysis("bandwidth", against_bandwidth),
            Analysis("grid", against_drives_and_host),
        ]
    return [
        Analysis("characterization", memory, ("without roofline",)),
        *(_step_under(system, with_timeline=False) for system in cases.SYSTEMS_OF_SETTINGS),
    ]


def _step_under(system, with_timeline):
    compute = functools.partial(step, system=system, with_timeline=with_timeline)
    return Analysis(system.key, compute, (*system.options, with_timeline))


def characterization(trace):
    """Returns the tables of `teraio characterize` (docs/analysis.md), including the roofline."""
    return tables("characterization", "characterize", trace, "--hardware", cases.HARDWARE)


def memory(trace):
    """Returns the same without the roofline, which takes as long as several plans."""
    return tables("characterization", "characterize", trace)


def against_bandwidth(trace):
    """Returns the tables of `teraio what-if` for migration bandwidths, without host memory."""
    inputs = ["--trace", trace, "--hardware", cases.HARDWARE, "--host-limit", "0"]
    return tables("what-if", "what-if", *inputs, *ONLY_MOVES, "--bandwidth", BANDWIDTHS)


def against_drives_and_host(trace):
    """Returns the tables of `teraio what-if` for all numbers of drives and sizes of host memory."""
    inputs = ["--trace", trace, "--hardware", cases.HARDWARE]
    grid = ["--drives", "1-4", "--host-memory", HOST_MEMORIES, "--grid"]
    return tables("what-if", "what-if", *inputs, *ONLY_MOVES, *grid)


def tables(name, *arguments):
    """Returns the tables that a command writes to NAME.json with --out.

    TERAIO_PYTHON names no interpreter, so that the command draws no figures: the document has its
    own.
    """
    with tempfile.TemporaryDirectory() as folder:
        teraio(*arguments, "--out", folder, TERAIO_PYTHON="none")
        return json.loads((Path(folder) / f"{name}.json").read_text())


def step(trace, system, with_timeline):
    """Plans and simulates a step under a system.

    Returns what `teraio simulate --json` prints, and of_planning; {"refused": why} when the step
    does not fit. With a timeline, of_timeline too.
    """
    policy, *limits = system.options
    inputs = ["--trace", trace, "--hardware", cases.HARDWARE, *limits]
    with tempfile.TemporaryDirectory() as folder:
        plan, timeline = Path(folder) / "plan.json.gz", Path(folder) / "timeline.json"
        try:
            summary = teraio("plan", *inputs, *ONLY_MOVES, "--policy", policy, "--out", plan)
        except CommandFailed as failure:
            return {"refused": str(failure)}
        wanted = ["--timeline", timeline] if with_timeline else []
        run = json.loads(teraio("simulate", *inputs, "--plan", plan, "--json", *wanted))
        run |= of_planning(summary)
        if with_timeline:
            events = json.loads(timeline.read_text())["traceEvents"]
            run |= of_timeline(events, run["step_ns"] / 1e9)
    return run


def of_timeline(events, step_s):
    """Returns what the document needs of the events of a timeline.

    These are the seconds in which ops overlap transfers, and the bytes per second that drives read
    and write in each of SLICES parts of the step.
    """
    timeline = Timeline(events, step_s)
    return {
        "overlapped_s": timeline.overlapped_s(),
        "ssd_read_rates": timeline.rates(SSD_READ, SLICES),
        "ssd_write_rates": timeline.rates(SSD_WRITE, SLICES),
    }


def of_planning(summary):
    """Returns what the document needs of the output of `teraio plan`.

    These are the seconds of planning, on this machine with its present load, and the lower bound on
    the step time in seconds.
    """
    number, unit = re.search(r"planned in ([0-9.]+) (s|ms|us|ns)\b", summary).groups()
    bound = re.search(r"no plan is faster than ([0-9.]+) (s|ms|us|ns)\b", summary)
    return {
        "planning_s": float(number) * UNITS_S[unit],
        "bound_s": float(bound.group(1)) * UNITS_S[bound.group(2)],
        "machine": machine(),
        "load": os.getloadavg()[0],
    }


def machine():
    """Describes the cores and the processor of this machine."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {names[0] if names else platform.machine()}"
