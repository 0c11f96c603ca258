"""The summary of a dry run: whether it fits, what fills the memory, and how long a step takes."""

import gzip
import json
from pathlib import Path

from teraio.units import format_duration, format_size

_KINDS = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer_state": "optimizer states",
    "activation": "activations",
    "input": "inputs",
    "workspace": "inside the op",
    "other": "other",
}


def summary(run, trace_path) -> str:
    """Returns the text that `teraio dry-run` prints.

    Args:
        run: the `DryRun`, which has executed its program.
        trace_path: the file of its trace.
    """
    trace = read_trace(Path(trace_path))
    iteration = run.last_iteration()
    device = run.accelerator
    peak = iteration["device_peak_bytes"]
    at_peak, op = memory_at_peak(trace)
    step_ns = sum(op["duration_ns"] for op in trace["ops"])
    lines = [
        f"\ndry run on {device.name}{_rank_text(run)}: {iteration['op_count']:,} ops a step, "
        f"{len(trace['tensors']):,} tensors",
        f"memory: {format_size(peak)} at the peak, "
        f"{format_size(device.memory_bytes)} on the device: "
        + _fit_text(peak, device.memory_bytes),
        f"  at {op}: " + ", ".join(f"{_KINDS[kind]} {format_size(size)}" for kind, size in at_peak),
        f"step: {format_duration(step_ns)} with all of it there",
    ]
    return "\n".join(lines + _answered_text(run.value_policy))


def _rank_text(run):
    return f", rank {run.rank} of {run.world_size}" if run.world_size > 1 else ""


def _fit_text(peak, capacity):
    if peak <= capacity:
        return f"fits, {100 * peak / capacity:.0f} % of it"
    return f"does not fit, {peak / capacity:.2f} times as much"


def _answered_text(value_policy):
    if not value_policy.answered:
        return []
    lines = ["values that the script read, and was given (--assume gives others):"]
    return lines + [f"  {location}: {value}" for location, value in value_policy.answered.items()]


def read_trace(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def memory_at_peak(trace):
    """((kind, bytes) with the largest first, name of the op) where most is alive."""
    tensors = {tensor["id"]: tensor for tensor in trace["tensors"]}
    alive = {}
    for tensor in trace["tensors"]:
        if tensor["persistent"]:
            _add(alive, tensor, 1)
    seen = {tensor["id"] for tensor in trace["tensors"] if tensor["persistent"]}
    best, best_bytes, best_op = {}, -1, ""
    for op in trace["ops"]:
        for number in (*op["reads"], *op["writes"]):
            if number not in seen:
                seen.add(number)
                _add(alive, tensors[number], 1)
        total_bytes = sum(alive.values()) + op["workspace_bytes"]
        if total_bytes > best_bytes:
            best = alive | {"workspace": op["workspace_bytes"]}
            best_bytes, best_op = total_bytes, op["name"]
        for number in op["frees"]:
            _add(alive, tensors[number], -1)
    return sorted(((k, v) for k, v in best.items() if v), key=lambda entry: -entry[1]), best_op


def _add(alive, tensor, sign):
    alive[tensor["kind"]] = alive.get(tensor["kind"], 0) + sign * tensor["bytes"]
