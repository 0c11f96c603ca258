"""Draws what executing a plan does over one step: device memory, the drives, and compute.

draw_plan.py TRACE HARDWARE PICTURE [OPTIONS OF teraio plan ...] plans, simulates and draws; the
picture of docs/planning.md is
  .venv/bin/python tools/draw_plan.py tests/data/traces/l8.json.gz tests/data/traces/h100_ssd.json \
    docs/images/plan.png --effort fast
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
TERAIO = ROOT / "build" / "bin" / "teraio"
SLICES = 240

ROWS = {
    "compute": 1,
    "stall": 2,
    "SSD to device": 3,
    "host to device": 4,
    "device to SSD": 5,
    "device to host": 6,
}


def simulated(trace, hardware, options):
    """The events of one step, and what `teraio simulate --json` tells of it."""
    given = ["--trace", trace, "--hardware", hardware]
    with tempfile.TemporaryDirectory() as folder:
        plan, timeline = Path(folder) / "plan.json", Path(folder) / "timeline.json"
        subprocess.run(
            [TERAIO, "plan", *given, *options, "--out", plan], check=True, stdout=subprocess.DEVNULL
        )
        simulate = [TERAIO, "simulate", *given, "--plan", plan, "--json", "--timeline", timeline]
        run = json.loads(subprocess.run(simulate, check=True, capture_output=True).stdout)
        return json.loads(timeline.read_text())["traceEvents"], run


class Step:
    """Events of one step in steady state; what passes its ends is folded back into it."""

    def __init__(self, events, step_s):
        self.events = events
        self.step_s = step_s
        self.start_us = min(e["ts"] for e in events if e["ph"] == "X" and e["tid"] <= 2)

    def seconds(self, time_us):
        return (time_us - self.start_us) / 1e6

    def busy(self, row):
        """Per slice of the step, the part of the time in which the row does something."""
        slice_s = self.step_s / SLICES
        busy = [0.0] * SLICES
        for event in self.events:
            if event["ph"] != "X" or event["tid"] != ROWS[row]:
                continue
            at, end = self.seconds(event["ts"]), self.seconds(event["ts"] + event["dur"])
            while end - at > 1e-12:
                index = int(at // slice_s)
                part = min(end, (index + 1) * slice_s) - at
                if part <= 0:
                    part, index = min(end - at, slice_s), index + 1
                busy[index % SLICES] += part / slice_s
                at += part
        return [min(value, 1.0) for value in busy]

    def memory(self):
        """Per slice of the step, the most bytes in use on the device."""
        most = [0] * SLICES
        levels = [
            (self.seconds(e["ts"]), e["args"]["bytes"]) for e in self.events if e["ph"] == "C"
        ]
        for (at, level), (until, _) in zip(levels, levels[1:] + [(self.step_s, 0)], strict=True):
            first = max(0, int(at / self.step_s * SLICES))
            last = min(SLICES - 1, int(until / self.step_s * SLICES))
            for index in range(first, last + 1):
                most[index] = max(most[index], level)
        return most


def draw(step, capacity, title, path):
    times = [(i + 0.5) * step.step_s / SLICES for i in range(SLICES)]
    figure, (memory, out, back, compute) = plt.subplots(
        4, 1, sharex=True, figsize=(9, 6), gridspec_kw={"height_ratios": [3, 1.4, 1.4, 1]}
    )
    memory.fill_between(times, [b / 1e9 for b in step.memory()], step="mid", color="#4c78a8")
    memory.axhline(capacity / 1e9, color="#b03030", linewidth=1)
    memory.set_ylabel("device memory, GB")
    memory.set_ylim(0, capacity / 1e9 * 1.08)
    memory.set_title(title, fontsize=10)
    for axes, label, rows in [
        (out, "writes", ["device to SSD", "device to host"]),
        (back, "reads", ["SSD to device", "host to device"]),
    ]:
        for row, color in zip(rows, ["#f58518", "#b79a20"], strict=True):
            busy = step.busy(row)
            if any(busy):
                axes.fill_between(times, busy, step="mid", color=color, alpha=0.8, label=row)
        axes.set_ylabel(f"{label}, busy")
        axes.legend(loc="upper right", fontsize=7)
    ops, stall = step.busy("compute"), step.busy("stall")
    compute.stackplot(times, ops, stall, colors=["#54a24b", "#b03030"], labels=["ops", "stall"])
    compute.set_ylabel("compute")
    compute.legend(loc="lower right", fontsize=7)
    for axes in (out, back, compute):
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 1])
    compute.set_xlabel("seconds of one step")
    compute.set_xlim(0, step.step_s)
    figure.align_ylabels()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main():
    trace, hardware_path, picture, *options = sys.argv[1:]
    events, run = simulated(trace, hardware_path, options)
    hardware = json.loads(Path(hardware_path).read_text())
    name = Path(trace).name.partition(".")[0]
    title = f"{name} on {hardware['name']}: {100 * run['fraction_of_ideal']:.1f} % of ideal"
    draw(Step(events, run["step_ns"] / 1e9), hardware["device_memory_bytes"], title, picture)


if __name__ == "__main__":
    main()
