"""Predicts the step of a job: plans and simulates its ranks, which wait for each other.

Equal ranks are of one kind, and one simulation serves them all. The simulator executes a rank whose
waits for collectives are given. A rank that waits longer has more time for its transfers and stalls
less, so that waits and simulations are repeated until they agree.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation import traces
from evaluation.command import teraio
from evaluation.scaling import lockstep
from evaluation.scaling.collectives import WAIT
from teraio_figures.timeline import COMPUTE, REPLAY, SSD_READ, STALL

_PLANNING = ("--recompute", "all", "--effort", "fast")
_MOST_ROUNDS = 24
_AGREED = 1e-3  # of the step, the difference between a rank's simulation and the job's step


@dataclass(frozen=True)
class Kind:
    """Equal ranks: what each has of its node, what its plan counts on, and the time of its ops."""

    share: object
    planned: object
    slowdown: float = 1.0


@dataclass(frozen=True)
class Job:
    """A program with its collectives, in order, and the time of each of them in this job."""

    trace: dict
    collectives: list
    durations_ns: list

    @property
    def points(self):
        return lockstep.points_of(self.collectives)


def predict(job, kinds):
    """Returns the step of a job of ranks of these kinds, and the execution of each kind.

    The result has step_ns, ideal_ns (when all tensors stay on the devices), compute_ns (when
    collectives take no time either), and `kinds`: for each, what `teraio simulate --json` prints,
    wait_ns, starts_ns and stalls_ns of its ops, and its `reads` from drives.

    Raises CommandFailed when a kind has no plan, and ArithmeticError when simulations and waits do
    not come to agree.
    """
    ideal = _without_transfers(job, kinds)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            _Rank(job, kind, Path(folder), number, ideal.waits_ns[number])
            for number, kind in enumerate(kinds)
        ]
        step, runs = _agreed(job, ranks, ideal)
    compute_ns = max(_compute_times(job.trace, kind)[1] for kind in kinds)
    times = {"step_ns": step.step_ns, "ideal_ns": ideal.step_ns, "compute_ns": compute_ns}
    return times | {"kinds": runs}


def _without_transfers(job, kinds):
    segments = [segments_of(job.points, *_compute_times(job.trace, kind)) for kind in kinds]
    return lockstep.steady(job.points, job.durations_ns, np.array(segments))


def _compute_times(trace, kind):
    """Returns the start of each op, and the end of the step, of a rank that waits for nothing."""
    times = np.cumsum([0.0, *(op["duration_ns"] * kind.slowdown for op in trace["ops"])])
    return times[:-1], times[-1]


def segments_of(points, starts_ns, end_ns, waits_ns=0.0):
    """Returns the times between points: before the first, between two, and after the last."""
    arrivals = np.array([starts_ns[point.op] for point in points])
    return np.diff([0.0, *arrivals, end_ns]) - np.append(0.0, np.zeros(len(points)) + waits_ns)


def _agreed(job, ranks, step):
    """Repeats simulations and waits; returns the last of both."""
    for _ in range(_MOST_ROUNDS):
        runs = [rank.simulated(step.waits_ns[n]) for n, rank in enumerate(ranks)]
        segments = [
            segments_of(job.points, run["starts_ns"], run["step_ns"], step.waits_ns[n])
            for n, run in enumerate(runs)
        ]
        step = lockstep.steady(job.points, job.durations_ns, np.array(segments))
        if all(abs(run["step_ns"] / step.step_ns - 1) <= _AGREED for run in runs):
            return step, runs
    steps = ", ".join(f"{run['step_ns'] / 1e6:.1f}" for run in runs)
    raise ArithmeticError(f"the job's step is {step.step_ns / 1e6:.1f} ms, its ranks have {steps}")


class _Rank:
    """A rank of one kind with its plan, in files."""

    def __init__(self, job, kind, folder, number, waits_ns):
        self._job, self._kind = job, kind
        self._trace = folder / f"trace-{number}.json.gz"
        self._plan = folder / f"plan-{number}.json.gz"
        self._timeline = folder / f"timeline-{number}.json"
        self._hardware = folder / f"hardware-{number}.json"
        self._write_trace(waits_ns)
        self._hardware.write_text(json.dumps(kind.planned.hardware()))
        teraio("plan", *self._inputs(), *_PLANNING, "--out", self._plan)
        self._hardware.write_text(json.dumps(kind.share.hardware()))

    def simulated(self, waits_ns):
        """Returns the execution of the plan by a rank that waits for collectives so long."""
        self._write_trace(waits_ns)
        files = ["--plan", self._plan, "--timeline", self._timeline]
        run = json.loads(teraio("simulate", *self._inputs(), *files, "--json"))
        events = json.loads(self._timeline.read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        rows = (COMPUTE, STALL, REPLAY)
        origin_us = min(event["ts"] for event in spans if event["tid"] in rows)
        starts_us = {event["args"]["op"]: event["ts"] for event in spans if event["tid"] == COMPUTE}
        starts_ns = [1e3 * (starts_us[op] - origin_us) for op in range(len(starts_us))]
        stalls_ns = [0.0] * len(starts_ns)
        for event in spans:
            if event["tid"] == STALL:
                stalls_ns[event["args"]["op"]] += 1e3 * event["dur"]
        reads = [_read(event, origin_us) for event in spans if event["tid"] == SSD_READ]
        times = {"wait_ns": float(np.sum(waits_ns)), "starts_ns": starts_ns, "stalls_ns": stalls_ns}
        return run | times | {"reads": reads}

    def _inputs(self):
        return ["--trace", self._trace, "--hardware", self._hardware]

    def _write_trace(self, waits_ns):
        traces.write(with_times(self._job, self._kind.slowdown, waits_ns), self._trace)


def with_times(job, slowdown, waits_ns):
    """Returns the trace of a rank whose ops take `slowdown` times as long, with these waits."""
    waiting = {point.op: wait for point, wait in zip(job.points, waits_ns, strict=True)}
    ops = []
    for number, op in enumerate(job.trace["ops"]):
        wait_ns = waiting.get(number, 0) if op["name"] == WAIT else 0
        ops.append(op | {"duration_ns": round(op["duration_ns"] * slowdown + wait_ns)})
    return job.trace | {"ops": ops}


def _read(event, origin_us):
    return {
        "tensor": event["args"]["tensor"],
        "size_bytes": event["args"]["bytes"],
        "start_ns": 1e3 * (event["ts"] - origin_us),
        "end_ns": 1e3 * (event["ts"] - origin_us + event["dur"]),
        "queued_ns": 1e3 * event["args"]["queued_us"],
    }
