"""What the planner and the simulator predict for a dry run on a machine."""

import json
import subprocess
from dataclasses import dataclass

from teraio.dry_run.trace_files import trace_options
from teraio.errors import Error
from teraio.files.native_command import command_path

# What a run leaves free of its budget for rounding to pages.
_PLAN_MARGIN = 0.01
_SECONDS_PER_DAY = 86400
_MOST_CHANGES = 3
_LEAST_GAIN = 0.01


@dataclass(frozen=True)
class Change:
    """Something that would make a step faster, and the time of a step with it."""

    what: str
    step_ns: int


@dataclass(frozen=True)
class Prediction:
    """A step under the best plan. Bytes are those of one step, or peaks in it."""

    step_ns: int
    ideal_ns: int
    written_bytes: int
    read_bytes: int
    host_peak_bytes: int
    ssd_peak_bytes: int
    life_days: float | None  # of the first drive to reach its rated writes; None: not known
    changes: list  # of `Change`s, the fastest first

    @property
    def fraction_of_ideal(self):
        """The time of a step with unlimited device memory over the predicted one."""
        return self.ideal_ns / self.step_ns if self.step_ns else 1.0

    @property
    def written_bytes_per_day(self):
        """The bytes written to the drives by steps that follow each other all day."""
        return _per_day(self.written_bytes, self.step_ns)


class Planner:
    """Plans the patterns of a dry run on one machine, with the commands that users have.

    Args:
        traces: the paths of the trace files, in the directory that plans go to.
        patterns: the `Pattern`s of the traces.
        hardware_path: the path of the hardware file.
        budget_bytes: the device budget of the run.
        host_bytes: the host memory for tensors.
        has_host_memory: whether host memory is anything else than the device's.
    """

    def __init__(
        self, traces, patterns, hardware_path, budget_bytes, host_bytes, has_host_memory=True
    ):
        self._patterns = patterns
        self._traces = traces
        self._steps = patterns[0].iteration_steps  # more than 1 only where there is one pattern
        self._limits = ["--hardware", hardware_path, "--host-limit", host_bytes]
        self._limits += ["--device-budget", int(budget_bytes * (1 - _PLAN_MARGIN))]
        self._ignored = {"nothing changed", "no replays"}
        if not has_host_memory:
            self._ignored.add("64 GB more host memory")
        self._hardware = json.loads(hardware_path.read_text())

    def predict(self, recompute):
        """Returns the `Prediction` for the best plan.

        Args:
            recompute: the choice of --recompute.

        Raises:
            teraio.Error: there is no plan within the limits.
        """
        run = self._simulated(recompute)
        return Prediction(
            step_ns=round(run["step_ns"] / self._steps),
            ideal_ns=round(run["ideal_ns"] / self._steps),
            written_bytes=round(run["ssd_bytes_written"] / self._steps),
            read_bytes=round(run["ssd_bytes_read"] / self._steps),
            host_peak_bytes=run["host_peak_bytes"],
            ssd_peak_bytes=run["ssd_peak_bytes"],
            life_days=_life_days(
                self._hardware["drives"], run["ssd_bytes_written"], run["step_ns"]
            ),
            changes=self._changes(run["step_ns"], recompute),
        )

    def _simulated(self, recompute):
        plans = self._plans()
        _run("plan", *self._inputs(), "--out", *plans, "--recompute", recompute)
        run = json.loads(_run("simulate", *self._inputs(), "--plan", *plans, "--json"))
        return run.get("mean", run)

    def _plans(self):
        return [trace.with_name(f"plan-{trace.name}") for trace in self._traces]

    def _inputs(self):
        return [*trace_options(self._traces, self._patterns), *self._limits]

    def _changes(self, step_ns, recompute):
        """Returns the changes that make a step faster; of the most frequent pattern, if several."""
        explained = ["--trace", self._traces[0], "--plan", self._plans()[0], *self._limits]
        explanation = json.loads(_run("explain", "--json", "--time-limit", 10, *explained))
        changes = {
            change["what"]: change["step_ns"] / explanation["step_ns"]
            for change in explanation["changes"]
            if "step_ns" in change and change["what"] not in self._ignored
        }
        if recompute == "off":
            changes["--recompute all"] = self._simulated("all")["step_ns"] / step_ns
        gains = sorted((share, what) for what, share in changes.items() if share < 1 - _LEAST_GAIN)
        return [
            Change(what, round(share * step_ns / self._steps))
            for share, what in gains[:_MOST_CHANGES]
        ]


def _life_days(drives, written_bytes, step_ns):
    """Returns the days until the first drive reaches its rated writes, or None if unknown."""
    if not drives or any("rated_bytes_written" not in drive for drive in drives):
        return None
    whole = sum(drive["write_bytes_per_second"] for drive in drives)
    per_day = [
        _per_day(written_bytes, step_ns) * drive["write_bytes_per_second"] / whole
        for drive in drives
    ]
    if not any(per_day):
        return None
    return min(
        drive["rated_bytes_written"] / daily for drive, daily in zip(drives, per_day, strict=True)
    )


def _per_day(size_bytes, duration_ns):
    return size_bytes / duration_ns * 1e9 * _SECONDS_PER_DAY if duration_ns else 0.0


def _run(name, *words):
    command = [str(word) for word in (command_path(), name, *words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Error("no plan: " + done.stderr.strip().removeprefix("teraio: "))
    return done.stdout
