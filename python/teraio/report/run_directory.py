"""The directory that `teraio run --report` has written."""

import gzip
import json
import statistics
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from teraio.errors import Error

RUN_FORMAT = "teraio-run/1"


@dataclass(frozen=True)
class RunDirectory:
    """The content of the directory. A file that the run could not write is None here.

    - `path`: the directory, a `pathlib.Path`.
    - `run`: the content of run.json.
    - `trace`, `hardware`: the content of trace.json.gz and hardware.json.
    - `plan_path`: the plan's file.
    """

    path: Path
    run: dict
    trace: dict | None
    hardware: dict | None
    plan_path: Path | None

    @property
    def trace_path(self):
        return self.path / "trace.json.gz"

    @property
    def hardware_path(self):
        return self.path / "hardware.json"

    @property
    def name(self):
        """The name of the directory, which tells two runs apart."""
        return self.path.resolve().name or str(self.path)

    @cached_property
    def settled_steps(self):
        """The steps whose times stand for the run: the planned ones of its second half, or all of
        that half. Where steps differ, only those that run as many ops as the trace; where plans
        do, only those after the first one on the last plan."""
        steps = self.run["steps"]
        middle = len(steps) // 2
        plan_began = (self.run["prediction"] or {}).get("plan_from_step", 0)
        last = steps[max(middle, plan_began - self.run.get("first_step", 0)) :]
        planned = _planned(steps[middle:])
        return self._alike(_planned(last)) or self._alike(planned) or planned or steps[middle:]

    def _alike(self, steps):
        op_count = len(self.trace["ops"]) if self.trace else None
        return [step for step in steps if step["op_count"] == op_count]

    def median(self, field):
        """Returns the median of a field over the settled steps, or None without steps."""
        values = [step[field] for step in self.settled_steps]
        return statistics.median(values) if values else None


def _planned(steps):
    return [step for step in steps if step["mode"] == "planned"]


def read_run_directory(path):
    """Reads a directory, and returns a RunDirectory.

    Raises:
        teraio.Error: it has no run.json, or a file of it is not what it should be.
    """
    path = Path(path)
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise Error(f"{path} {what}: expected one that `teraio run --report` has written")
    run_path, plan_path = path / "run.json", path / "plan.json.gz"
    if not run_path.is_file():
        raise Error(f"{path} has no run.json: expected what `teraio run --report {path}` writes")
    run = _read(run_path, RUN_FORMAT)
    return RunDirectory(
        path,
        run,
        _read_if_there(path / "trace.json.gz", "teraio-trace/1"),
        _read_if_there(path / "hardware.json", "teraio-hardware/1"),
        plan_path if plan_path.is_file() else None,
    )


def _read_if_there(path, expected_format):
    return _read(path, expected_format) if path.is_file() else None


def _read(path, expected_format):
    try:
        data = path.read_bytes()
        content = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise Error(
            f"{path} cannot be read: {error}. Expected what `teraio run --report` writes"
        ) from None
    if not isinstance(content, dict) or content.get("format") != expected_format:
        raise Error(f'{path}: field "format": expected "{expected_format}"')
    return content
