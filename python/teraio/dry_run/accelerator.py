"""What a device can do: a file of peak rates with their source, or one that was measured."""

import json
from bisect import bisect_left
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from teraio.errors import Error

FORMAT = "teraio-accelerator/1"
_KNOWN = Path(__file__).parent / "accelerators"


@dataclass(frozen=True)
class Accelerator:
    """Sizes in bytes, rates per second.

    `efficiency` is the share of the peak that a kind of op reaches. `measured` has precedence over
    it: for a kind, points of (work of one op, rate). Work is bytes, or FLOPs where the kind's name
    ends in a precision ("matmul.float32"); between points the rate is interpolated.
    """

    name: str
    memory_bytes: int
    memory_bytes_per_second: int
    flops_per_second: dict[str, int]  # by precision: "float32", "tensorfloat32", "bfloat16", ...
    link_bytes_per_second: int  # to another device, one direction
    link_latency_ns: int  # of one step of a collective
    kernel_ns: int  # least time of an op that does anything
    op_ns: int  # of every op, in the program that calls it
    efficiency: dict[str, float]
    source: str = ""
    note: str = ""
    library: str = ""  # whose workspaces ops have: "onednn", or unknown and left out
    measured: dict[str, list] = field(default_factory=dict)

    def rate(self, kind: str, work: float) -> float | None:
        """The measured rate of a kind of op of this much work; None when it was not measured."""
        points = self.measured.get(kind)
        return _interpolated(points, work) if points else None


def _interpolated(points, work):
    """Between two points on straight lines over the logarithm of the work; level outside."""
    place = bisect_left(points, [work])
    if place == 0:
        return points[0][1]
    if place == len(points):
        return points[-1][1]
    (low, low_rate), (high, high_rate) = points[place - 1], points[place]
    share = log(work / low) / log(high / low)
    return low_rate + share * (high_rate - low_rate)


def known_names() -> list[str]:
    return sorted(path.stem for path in _KNOWN.glob("*.json"))


def load(name: str) -> Accelerator:
    """The accelerator of a known name or of a file. Raises teraio.Error that says what is wrong."""
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


_NUMBERS = {
    "memory_bytes": 1,
    "memory_bytes_per_second": 1,
    "link_bytes_per_second": 1,
    "link_latency_ns": 0,
    "kernel_ns": 0,
    "op_ns": 0,
}


def parse(content, where: str) -> Accelerator:
    """An accelerator from the content of its file. Extra fields are ignored."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Error(f'{where}: field "format": expected "{FORMAT}"')
    if not isinstance(content.get("name"), str) or not content["name"]:
        raise Error(f'{where}: field "name": expected a name')
    for name, least in _NUMBERS.items():
        value = content.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise Error(f'{where}: field "{name}": expected an integer of at least {least}')
    for name in ("flops_per_second", "efficiency"):
        _check_rates(content.get(name), where, name)
    if "float32" not in content["flops_per_second"]:
        raise Error(f'{where}: field "flops_per_second": expected a rate for "float32"')
    if "memory" not in content["efficiency"]:
        raise Error(f'{where}: field "efficiency": expected a share for "memory"')
    measured = content.get("measured", {})
    _check_measured(measured, where)
    fields = {name: content[name] for name in ("name", "flops_per_second", "efficiency", *_NUMBERS)}
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
    content = {"format": FORMAT} | {
        name: getattr(accelerator, name) for name in accelerator.__dataclass_fields__
    }
    return {name: value for name, value in content.items() if value != {} and value != ""}
