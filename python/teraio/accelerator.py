"""Accelerator files: the rates of a device, from its data sheet or measured on the device."""

import json
import os
from bisect import bisect_left
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from teraio.directories import cache_directory
from teraio.errors import Error

FORMAT = "teraio-accelerator/1"
# GPUs whose names do not contain the words of their file's name.
_NAMES = {"NVIDIA H100 80GB HBM3": "h100-sxm"}
_KNOWN = Path(__file__).parent / "accelerators"


@dataclass(frozen=True)
class Accelerator:
    """The capacities and rates of a device.

    `efficiency` gives the share of the peak rate that each kind of op reaches. `measured` takes
    precedence over it: for each kind of op it has points (work of one op, rate per second), between
    which rates are interpolated. Work is in FLOPs if the kind's name ends in a precision, such as
    "matmul.float32", and in bytes otherwise.
    """

    name: str
    memory_bytes: int
    memory_bytes_per_second: int
    flops_per_second: dict[str, int]  # by precision: "float32", "tensorfloat32", "bfloat16", ...
    link_bytes_per_second: int  # to another device, one direction
    link_latency_ns: int  # of each step of a collective
    kernel_ns: int  # the least time of an op that runs a kernel
    op_ns: int  # the time of the calling program for each op
    efficiency: dict[str, float]
    source: str = ""
    note: str = ""
    library: str = ""  # the library whose workspaces ops have: "onednn", or "" for none
    measured: dict[str, list] = field(default_factory=dict)

    def seconds_at_peak(self, flops: dict[str, int]) -> float | None:
        """Returns the time of `flops`, by precision, at the device's peak. None without any, or if
        a peak is not known."""
        if not flops or not flops.keys() <= self.flops_per_second.keys():
            return None
        return sum(count / self.flops_per_second[name] for name, count in flops.items())

    def rate(self, kind: str, work: float) -> float | None:
        """Returns the measured rate per second of a kind of op with this work, or None."""
        points = self.measured.get(kind)
        return _interpolated(points, work) if points else None


def _interpolated(points, work):
    """Returns the rate for `work`, linear in its logarithm between points and constant outside."""
    index = bisect_left(points, [work])
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (low, low_rate), (high, high_rate) = points[index - 1], points[index]
    share = log(work / low) / log(high / low)
    return low_rate + share * (high_rate - low_rate)


def known_names() -> list[str]:
    """Returns the sorted names of the accelerators whose files the package contains."""
    return sorted(path.stem for path in _KNOWN.glob("*.json"))


def load(name: str) -> Accelerator:
    """Returns an accelerator.

    Args:
        name: the name of an accelerator in the package, or the path of an accelerator file.

    Raises:
        teraio.Error: there is neither, or the file cannot be read or has a wrong field.
    """
    path = _KNOWN / f"{name}.json"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(known_names())
        raise Error(f'"{name}" is neither an accelerator file nor one of: {known}')
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise Error(f"{path} cannot be read: {error}") from None
    return parse(content, str(path))


def of_device(device: str) -> Accelerator | None:
    """Returns the accelerator of a device of this machine: "cpu", "cuda" or "cuda:1".

    Returns None if its rates are not known, as those of a CPU that `teraio suggest` has not
    measured.
    """
    import torch

    try:
        if device == "cpu":
            return load(str(file_of_cpu()))
        return load(name_of_gpu(torch.cuda.get_device_name(device)))
    except Error:
        return None


def file_of_cpu():
    """Returns the path of the accelerator file of this machine's CPU, which may be missing."""
    import torch

    return cache_directory() / f"cpu-{os.uname().machine}-{torch.get_num_threads()}-threads.json"


def name_of_gpu(gpu):
    """Returns the name of the accelerator file for a GPU by the name that CUDA gives it.

    Raises:
        teraio.Error: there is none.
    """
    if gpu in _NAMES:
        return _NAMES[gpu]
    words = set(gpu.lower().replace("-", " ").split())
    for name in known_names():
        if set(name.split("-")) <= words:
            return name
    raise Error(
        f"the rates of {gpu} are not known: give a similar device with --accelerator, "
        f"one of {', '.join(known_names())}, or a file"
    )


_NUMBERS = {
    "memory_bytes": 1,
    "memory_bytes_per_second": 1,
    "link_bytes_per_second": 1,
    "link_latency_ns": 0,
    "kernel_ns": 0,
    "op_ns": 0,
}


def parse(content, where: str) -> Accelerator:
    """Returns the accelerator that the content of a file describes. Unknown fields are ignored.

    Args:
        content: the file's JSON value.
        where: the file's path, for messages.

    Raises:
        teraio.Error: a field is missing or has a wrong value.
    """
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Error(f'{where}: field "format": expected "{FORMAT}"')
    if not isinstance(content.get("name"), str) or not content["name"]:
        raise Error(f'{where}: field "name": expected a name')
    for name, least in _NUMBERS.items():
        value = content.get(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value % 1
            or value < least
        ):
            raise Error(f'{where}: field "{name}": expected an integer of at least {least}')
    for name in ("flops_per_second", "efficiency"):
        _check_rates(content.get(name), where, name)
    if "float32" not in content["flops_per_second"]:
        raise Error(f'{where}: field "flops_per_second": expected a rate for "float32"')
    if "memory" not in content["efficiency"]:
        raise Error(f'{where}: field "efficiency": expected a share for "memory"')
    measured = content.get("measured", {})
    _check_measured(measured, where)
    fields = {name: content[name] for name in ("name", "flops_per_second", "efficiency")}
    fields |= {name: int(content[name]) for name in _NUMBERS}  # 25e9 is an integer, too
    return Accelerator(
        **fields,
        source=content.get("source", ""),
        note=content.get("note", ""),
        library=content.get("library", ""),
        measured={kind: sorted(points) for kind, points in measured.items()},
    )


def _check_rates(rates, where, name):
    if not isinstance(rates, dict):
        raise Error(f'{where}: field "{name}": expected an object of numbers')
    for key, value in rates.items():
        if not _is_positive(value):
            raise Error(f'{where}: field "{name}.{key}": expected a number above 0')


def _check_measured(measured, where):
    if not isinstance(measured, dict):
        raise Error(f'{where}: field "measured": expected an object of lists')
    for kind, points in measured.items():
        is_list = isinstance(points, list) and points
        if not is_list or not all(
            isinstance(point, list) and len(point) == 2 and all(map(_is_positive, point))
            for point in points
        ):
            raise Error(f'{where}: field "measured.{kind}": expected pairs of numbers above 0')


def _is_positive(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def to_json(accelerator: Accelerator) -> dict:
    """Returns the JSON value of the accelerator's file, as parse() reads it."""
    content = {"format": FORMAT} | {
        name: getattr(accelerator, name) for name in accelerator.__dataclass_fields__
    }
    return {name: value for name, value in content.items() if value != {} and value != ""}
