"""The analyses of a case for the document: each runs `teraio` on the trace of the case."""

import functools
import gzip
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
EFFORT = ("--effort", "fast")
BANDWIDTHS = "2GB,4GB,8GB,12GB,16GB,24GB,32GB,48GB,64GB"
# What 1 TB of host memory leaves for each of two GPUs, at most.
HOST_MEMORIES = "0,32GB,64GB,128GB,256GB,512GB"


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

    A case of every figure has all of them, a step of Figure 7 alone has fewer, one of the sweep has
    its systems, and a stage of a pipeline has memory.
    """
    if case in cases.STAGES:
        return [Analysis("characterization", characterization)]
    if case in cases.SWEEP.values():
        return [_step_under(system) for system in cases.SYSTEMS_OF_SWEEP]
    if case in cases.CASES:
        return of_figures(case)
    return [
        Analysis("characterization", memory, ("without roofline",)),
        *(_step_under(system) for system in cases.SYSTEMS_OF_SETTINGS),
    ]


def of_figures(case):
    """Returns the analyses of a case of every figure; fewest writes for OF_PAPER alone."""
    wanted = [
        Analysis("characterization", characterization),
        Analysis("replayable", replayable),
        *(
            _step_under(system, with_timeline=system in cases.SYSTEMS_OF_FIGURES)
            for system in cases.SYSTEMS
        ),
    ]
    if case in cases.OF_PAPER:
        wanted += [_step_under(system) for system in cases.FRUGAL_SYSTEMS]
        wanted += [
            Analysis("bandwidth", against_bandwidth),
            Analysis("grid", against_drives_and_host),
        ]
    return wanted


def _step_under(system, with_timeline=False):
    compute = functools.partial(step, system=system, with_timeline=with_timeline)
    options = (*system.options, *system.plan_options)
    return Analysis(system.key, compute, (*options, system.recompute, with_timeline))


def replayable(trace):
    """Returns how many bytes the ops of a trace write to activations, and those that may be again.

    {"bytes": all of them, "replayable_bytes": those of ops that a plan may replay}
    """
    content = json.loads(gzip.decompress(trace.read_bytes()))
    sizes = {t["id"]: t["bytes"] for t in content["tensors"] if t["kind"] == "activation"}
    written = {True: 0, False: 0}
    for op in content["ops"]:
        written[op.get("replayable", False)] += sum(sizes.get(number, 0) for number in op["writes"])
    return {"bytes": sum(written.values()), "replayable_bytes": written[True]}


def characterization(trace):
    """Returns the tables of `teraio characterize` (docs/planning.md), including the roofline."""
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
    grid = ["--drives", "1,2,4", "--host-memory", HOST_MEMORIES, "--grid"]
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
    options = [*EFFORT, "--recompute", system.recompute, "--policy", policy, *system.plan_options]
    with tempfile.TemporaryDirectory() as folder:
        plan, timeline = Path(folder) / "plan.json.gz", Path(folder) / "timeline.json"
        inputs = ["--trace", trace, "--hardware", cases.HARDWARE, *limits]
        try:
            summary = teraio("plan", *inputs, *options, "--out", plan)
        except CommandFailed as failure:
            return {"refused": str(failure).removesuffix(" (--verbose tells more)")}
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

    These are the seconds of planning, on this machine with its present load, and the lower bounds
    on the step time in seconds: of plans without replays, and of all plans where the plan has some.
    """
    duration = r"([0-9.]+) (s|ms|us|ns)\b"
    bounds = re.search(
        rf"no plan is faster than {duration}(?:, none without replays than {duration})?", summary
    )
    number, unit = re.search(rf"planned in {duration}", summary).groups()
    least, of_moves = _seconds(*bounds.group(1, 2)), bounds.group(3, 4)
    return {
        "planning_s": _seconds(number, unit),
        "bound_s": _seconds(*of_moves) if of_moves[0] else least,
        "replay_bound_s": least if of_moves[0] else None,
        "machine": machine(),
        "load": os.getloadavg()[0],
    }


def _seconds(number, unit):
    return float(number) * UNITS_S[unit]


def machine():
    """Describes the cores and the processor of this machine."""
    names = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{os.cpu_count()} cores, {names[0] if names else platform.machine()}"
