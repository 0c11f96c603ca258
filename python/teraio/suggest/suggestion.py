"""The suggestion: limits, drives and the command line, with the reasons for them."""

import dataclasses
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from teraio.errors import Error
from teraio.files.native_command import command_path
from teraio.ranks import default_device
from teraio.suggest.alternatives import alternatives
from teraio.suggest.drives import choose_directories, measured_hardware, share_of
from teraio.suggest.prediction import Planner, Prediction
from teraio.suggest.text import text_of
from teraio.units import format_size, parse_size

_GIB = 1 << 30
# The part of the available host memory that tensors may take. The rest is for the program.
_HOST_SHARE = 0.75
# Host memory between a drive and a device that the CPU cannot address.
_STAGING_BYTES_PER_DRIVE = 16 << 20
# What a run takes beyond a predicted peak.
_ROOM = 1.1


@dataclass(frozen=True)
class Suggestion:
    """How to train a script. Sizes are bytes of one process.

    `prediction` and `hardware` are None where the training fits into the device memory.
    """

    device: object  # a `TargetDevice`
    peak_bytes: int
    peak_op: str
    peak_kinds: list  # of pairs: kind, bytes; the largest first
    budget_bytes: int
    budget_note: str
    host_limit_bytes: int
    host_note: str
    hardware: dict | None
    prediction: Prediction | None
    alternatives: list  # of `Alternative`s: changes of the script that make it fit
    command: list  # of words
    reservations: list  # of lines

    @property
    def fits(self):
        """Whether the training fits into the budget without offloading."""
        return self.prediction is None

    def text(self):
        """Returns the suggestion as a table, and the command line."""
        return text_of(self)

    def to_json(self):
        """Returns the suggestion as a JSON object."""
        content = {
            "device": self.device.name,
            "accelerator": self.device.accelerator.name,
            "peak_bytes": self.peak_bytes,
            "fits": self.fits,
            "device_budget_bytes": self.budget_bytes,
            "command": self.command,
            "reservations": self.reservations,
        }
        if self.fits:
            return content
        step = self.prediction
        return content | {
            "host_limit_bytes": self.host_limit_bytes,
            "drives": self.hardware["drives"],
            "step_ns": step.step_ns,
            "ideal_ns": step.ideal_ns,
            "fraction_of_ideal": step.fraction_of_ideal,
            "ssd_bytes_written": step.written_bytes,
            "ssd_bytes_read": step.read_bytes,
            "ssd_bytes_written_per_day": round(step.written_bytes_per_day),
            "drive_life_days": step.life_days,
            "host_peak_bytes": step.host_peak_bytes,
            "ssd_peak_bytes": step.ssd_peak_bytes,
            "alternatives": [dataclasses.asdict(each) for each in self.alternatives],
            "changes": [{"what": each.what, "step_ns": each.step_ns} for each in step.changes],
        }


class Suggester:
    """Decides on the limits and predicts a step.

    Args:
        options: the checked options of `teraio suggest`.
        run: the `DryRun`, which has executed the script.
        traces: the paths of their traces, in a directory for further files.
        reservations: lines about what the dry run leaves out or assumes.
    """

    def __init__(self, options, run, traces, reservations):
        self._options = options
        self._device = options.device
        self._trained = run.trained
        self._patterns = patterns = run.log.patterns()
        self._traces = traces
        self._reservations = reservations
        facts = [pattern.trace.summary() for pattern in patterns]
        self._largest = max(facts, key=lambda each: each["device_peak_bytes"])

    def suggestion(self):
        """Returns the `Suggestion`.

        Raises:
            teraio.Error: the script cannot be trained within the limits, or the drives cannot be
                used. The message says what would suffice, where that is known.
        """
        budget_bytes, budget_note = self._budget()
        if self._largest["device_peak_bytes"] <= budget_bytes:
            return self._suggestion(budget_bytes, budget_note, command=self._plain_command())
        others = alternatives(self._traces, self._trained, budget_bytes)
        directories = [] if self._options.hardware else choose_directories(self._options.ssd)
        host_bytes, host_note = self._host_limit()
        hardware = self._hardware(directories, host_bytes)
        pool_bytes = max(0, host_bytes - self._staging_bytes(hardware))
        planner = Planner(
            self._traces,
            self._patterns,
            self._write(share_of(hardware, self._options.world_size)),
            budget_bytes,
            pool_bytes // self._options.world_size,
            has_host_memory=self._device.name != "cpu" or host_bytes > 0,
        )
        try:
            prediction = planner.predict(self._options.recompute)
        except Error as error:
            raise self._failure(error, budget_bytes, host_bytes, hardware, others) from None
        if not self._options.host_limit_given:
            host_bytes, host_note = self._used_host(prediction, hardware, host_bytes, host_note)
        return self._suggestion(
            budget_bytes,
            budget_note,
            host_limit_bytes=host_bytes,
            host_note=host_note,
            hardware=hardware,
            prediction=prediction,
            alternatives=others,
            command=self._run_command(budget_bytes, host_bytes, directories, hardware, prediction),
        )

    def _failure(self, error, budget_bytes, host_bytes, hardware, others):
        """Returns the error with what there is: no option may have named it."""
        on_drives = sum(drive["capacity_bytes"] for drive in hardware["drives"])
        sizes = self._largest["device_peak_bytes"], budget_bytes, host_bytes, on_drives
        needed, device, host, drives = map(format_size, sizes)
        return Error(
            f"the training needs {needed}, and may use {device} of device memory, {host} of host "
            f"memory and {drives} on drives: {error}"
            + "".join(
                f"; {each.what} alone needs about {format_size(each.peak_bytes)}" for each in others
            )
        )

    def _suggestion(self, budget_bytes, budget_note, **more):
        nothing = {"host_limit_bytes": 0, "host_note": "", "hardware": None, "prediction": None}
        nothing["alternatives"] = []
        return Suggestion(
            device=self._device,
            peak_bytes=self._largest["device_peak_bytes"],
            peak_op=self._largest["peak_op"],
            peak_kinds=self._largest["peak_kinds"],
            budget_bytes=budget_bytes,
            budget_note=budget_note,
            reservations=self._reservations,
            **nothing | more,
        )

    def _budget(self):
        given = self._options.device_budget
        if given is None:
            return self._device.usable_bytes, self._device.memory_note
        return parse_size(given, whole_bytes=self._device.memory_bytes), "as given"

    def _host_limit(self):
        """Returns the host memory of all processes that plans may use, and the reason."""
        if self._options.host_limit_given:
            return parse_size(self._options.host_limit), "as given"
        if self._options.hardware:
            host = json.loads(self._options.hardware.read_text())["host"]
            return host["capacity_bytes"], "that of the hardware file"
        if self._device.name == "cpu":
            return 0, "the memory of a CPU is its device memory"
        from teraio import core

        available_bytes = core.available_memory_bytes()
        return int(_HOST_SHARE * available_bytes), "what the plan uses"

    def _used_host(self, prediction, hardware, host_bytes, note):
        """Returns a host limit for the plan, of at most `host_bytes`, and the reason."""
        if prediction.host_peak_bytes == 0:
            return 0, note if self._device.name == "cpu" else "the plan uses none"
        pool_bytes = int(_ROOM * prediction.host_peak_bytes) * self._options.world_size
        used_bytes = min(pool_bytes + self._staging_bytes(hardware), host_bytes)
        return used_bytes, "what the plan uses"

    def _staging_bytes(self, hardware):
        if self._device.name == "cpu":
            return 0
        return _STAGING_BYTES_PER_DRIVE * len(hardware["drives"]) * self._options.world_size

    def _hardware(self, directories, host_bytes):
        if self._options.hardware:
            return json.loads(self._options.hardware.read_text())
        path = self._traces[0].with_name("measured.json")
        rated_writes = self._options.rated_writes
        return measured_hardware(directories, self._device, host_bytes, rated_writes, path)

    def _write(self, hardware):
        path = self._traces[0].with_name("hardware.json")
        path.write_text(json.dumps(hardware))
        return path

    def _plain_command(self):
        python = Path(sys.executable).name
        if self._options.world_size == 1:
            return [python, *self._options.words]
        return ["torchrun", "--nproc-per-node", str(self._options.world_size), *self._options.words]

    def _run_command(self, budget_bytes, host_bytes, directories, hardware, prediction):
        options = self._options
        command = run_command(options, self._device.name)
        command += ["--device-budget", options.device_budget or _size_word(budget_bytes)]
        if host_bytes:
            command += ["--host-limit", _size_word(host_bytes)]
        unnamed = [f"DIR{number}" for number in range(1, len(hardware["drives"]) + 1)]
        for directory in directories or unnamed:
            command += ["--ssd", str(directory)]
        if capacity_bytes := _needed_capacity(budget_bytes, hardware, prediction):
            command += ["--ssd-capacity", _size_word(capacity_bytes * options.world_size)]
        if options.recompute != "all":
            command += ["--recompute", options.recompute]
        return command + options.words


def run_command(options, device):
    """Returns the first words of a `teraio run` line, for checked options of `teraio suggest`."""
    command = ["teraio" if shutil.which("teraio") else str(command_path())]
    if options.world_size > 1:
        command = ["torchrun", "--nproc-per-node", str(options.world_size), "-m", "teraio"]
    return [*command, "run"] + ([] if device == default_device() else ["--device", device])


def _size_word(size_bytes):
    """Returns a size as a word of a command line, rounded down to megabytes where it is large."""
    return f"{size_bytes // 10**6}MB" if size_bytes >= 10**9 else str(size_bytes)


def _needed_capacity(budget_bytes, hardware, prediction):
    """Returns the space on the drives that a process needs, or 0 where a run takes as much."""
    free_bytes = sum(drive["capacity_bytes"] for drive in hardware["drives"])
    default_bytes = min(max(2 * _GIB, 8 * budget_bytes), free_bytes // 2)
    needed_bytes = int(_ROOM * prediction.ssd_peak_bytes)
    return needed_bytes if needed_bytes > default_bytes else 0
