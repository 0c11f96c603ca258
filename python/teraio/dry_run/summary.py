"""The summary of a dry run: the memory that the job needs, what fills it, and the step time."""

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


def summary(run) -> str:
    """Returns the text that `teraio dry-run` prints.

    Args:
        run: a `DryRun` that has executed its program.
    """
    facts = run.summary()
    device = run.accelerator
    peak = facts["device_peak_bytes"]
    kinds = [f"{_KINDS[kind]} {format_size(size)}" for kind, size in facts["peak_kinds"]]
    lines = [
        f"\ndry run on {device.name}{_rank_text(run)}: {facts['op_count']:,} ops a step, "
        f"{facts['tensor_count']:,} tensors",
        f"memory: {format_size(peak)} at the peak, "
        f"{format_size(device.memory_bytes)} on the device: "
        + _fit_text(peak, device.memory_bytes),
        f"  at {facts['peak_op']}: " + ", ".join(kinds),
        f"step: {format_duration(facts['step_ns'])} with unlimited device memory",
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
    lines = ["values that the script got where it read tensors (--assume gives others):"]
    return lines + [f"  {location}: {value}" for location, value in value_policy.answered.items()]
