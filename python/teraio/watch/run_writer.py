"""The files of a run, of which `teraio report` makes a page (docs/watching.md)."""

import json
import statistics
from datetime import datetime
from pathlib import Path

from teraio.errors import Error
from teraio.files.atomic_file import replace_file
from teraio.watch import notebook
from teraio.watch.environment import machine, versions

FORMAT = "teraio-run/1"  # of run.json


class RunWriter:
    """Writes the files of a session into its report directory.

    Args:
        session: the `teraio.Session`.
        directory: the path of the directory, which is created if it is missing.
        settings: a dict of what the session was asked for, for run.json.
        started_at: the datetime at which the session was made.

    Raises:
        teraio.Error: the directory cannot be created.
    """

    def __init__(self, session, directory, settings, started_at):
        self._session = session
        self._settings = settings
        self._started_at = started_at
        self._directory = Path(directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(
                f"the report directory {directory} cannot be made: {error.strerror}. Choose another"
            ) from None

    def save(self, step_count):
        """Writes run.json, trace.json.gz, plan.json.gz and hardware.json.

        Args:
            step_count: the number of steps so far. The session may have forgotten the first ones.

        Raises:
            teraio.Error: a file cannot be written.
        """
        try:
            self._write_documents()
            run = json.dumps(self._run(step_count)).encode()
            replace_file(self._directory / "run.json", run)
        except OSError as error:
            raise Error(
                f"the report in {self._directory} is not complete: {error.strerror}"
            ) from None

    def _write_documents(self):
        """Writes what the session has of its trace, plan and hardware, and removes the others:
        those of an earlier run."""
        for name, document in (
            ("trace.json.gz", self._session.trace),
            ("plan.json.gz", self._session.plan),
            ("hardware.json", self._session.hardware),
        ):
            path = self._directory / name
            try:
                document().save(path)
            except Error:
                path.unlink(missing_ok=True)

    def _run(self, step_count):
        counters = self._session.counters()
        iterations = self._session.iterations()
        first_step = step_count - len(iterations)
        prediction = self._session.prediction() or {}
        share = self._session.share()
        return {
            "format": FORMAT,
            "command": notebook.command(),
            "started_at": self._started_at.isoformat(timespec="seconds"),
            "ended_at": datetime.now().astimezone().isoformat(timespec="seconds"),
            "settings": self._settings,
            "versions": versions(),
            "machine": machine(self._settings["device"], share["drives"]),
            "share": share,
            # After the session there is no limit any more.
            "device_budget_bytes": self._settings["device_budget_bytes"],
            "device_peak_bytes": max((each["device_peak_bytes"] for each in iterations), default=0),
            "natural_peak_bytes": counters["natural_peak_bytes"],
            "ssd_bytes_read": counters["ssd_bytes_read"],
            "ssd_bytes_written": counters["ssd_bytes_written"],
            "predicted_step_seconds": _seconds(prediction.get("step_ns")),
            "flop_utilisation": _flop_utilisation(prediction, iterations),
            "bound_fraction": _bound_fraction(prediction),
            "prediction": prediction or None,
            "stall_by_cause_seconds": {
                cause: _median_seconds(iterations, f"stall_{cause}_ns")
                for cause in ("read", "memory")
            },
            # A session keeps the newest iterations of a long run.
            **({"first_step": first_step} if first_step > 0 else {}),
            "steps": [_step(iteration) for iteration in iterations],
            "memory_timeline": [
                [time_ns / 1e9, size_bytes]
                for time_ns, size_bytes in self._session.memory_timeline()
            ],
            "patterns": self._session.patterns(),
            "differences": self._session.differences(),
            "counters": counters,
        }


def add_bits(directory, bits):
    """Adds to the run.json in a directory how the bits of the run compare with others: a text.

    Raises:
        OSError: the file cannot be read or written.
    """
    path = Path(directory) / "run.json"
    replace_file(path, json.dumps(json.loads(path.read_text()) | {"bits": bits}).encode())


def _step(iteration):
    return {
        "seconds": iteration["duration_ns"] / 1e9,
        "mode": iteration["mode"],
        "ssd_bytes_read": iteration["ssd_bytes_read"],
        "ssd_bytes_written": iteration["ssd_bytes_written"],
        "stall_seconds": (iteration["stall_read_ns"] + iteration["stall_memory_ns"]) / 1e9,
        "op_count": iteration["op_count"],
        "planned_op_count": iteration["planned_op_count"],
        "pattern": iteration["pattern"],
    }


def _bound_fraction(prediction):
    if not prediction.get("bound_ns"):
        return None
    return prediction["ideal_ns"] / prediction["bound_ns"]


def _flop_utilisation(prediction, iterations):
    if not prediction.get("at_peak_ns"):
        return None
    return prediction["at_peak_ns"] / 1e9 / _median_seconds(iterations, "duration_ns")


def _seconds(duration_ns):
    return None if duration_ns is None else duration_ns / 1e9


def _median_seconds(iterations, field):
    values = [iteration[field] / 1e9 for iteration in iterations]
    return statistics.median(values[len(values) // 2 :]) if values else 0.0
