"""The summary of a dry run: the memory that the job needs, what fills it, and the step time."""

from teraio.units import format_duration, format_size

KIND_NAMES = {
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
    patterns = run.log.patterns()
    lines = _one_pattern(run, patterns[0]) if len(patterns) == 1 else _mean_of(run, patterns)
    return "\n".join(lines + reservations(run))


def reservations(run) -> list[str]:
    """Returns lines that tell what the prediction leaves out, and which values it assumes."""
    return _other_steps_text(run) + assumptions(run)


def assumptions(run) -> list[str]:
    """Returns lines that tell what does not count, and which values the script got."""
    return _mapped_text(run) + _answered_text(run.value_policy)


def _one_pattern(run, pattern):
    facts = pattern.facts
    steps = pattern.iteration_steps
    ops = f"{facts['op_count']:,} ops " + ("a step" if steps == 1 else f"in {steps} steps")
    time = format_duration(facts["step_ns"])
    if steps > 1:
        time = f"{format_duration(round(facts['step_ns'] / steps))}, the mean of {steps} in {time},"
    return [
        f"\ndry run on {run.accelerator.name}{_rank_text(run)}: {ops}, "
        f"{facts['tensor_count']:,} tensors",
        *_memory_text(run, facts),
        f"step: {time} with unlimited device memory",
    ]


def _mean_of(run, patterns):
    facts = [pattern.facts for pattern in patterns]
    steps = sum(pattern.step_count for pattern in patterns)
    rows = [
        f"  {number}: {100 * pattern.step_count / steps:.1f} % of the steps, "
        f"{of_pattern['op_count']:,} ops, {of_pattern['tensor_count']:,} tensors, "
        f"{format_size(of_pattern['device_peak_bytes'])}, {format_duration(of_pattern['step_ns'])}"
        for number, (pattern, of_pattern) in enumerate(zip(patterns, facts, strict=True), 1)
    ]
    mean = format_duration(round(run.log.mean_step_ns()))
    return [
        f"\ndry run on {run.accelerator.name}{_rank_text(run)}: {len(patterns)} patterns in "
        f"{steps} steps",
        *rows,
        *_memory_text(run, max(facts, key=lambda each: each["device_peak_bytes"])),
        f"mean step: {mean} with unlimited device memory",
    ]


def _memory_text(run, facts):
    device = run.accelerator
    peak = facts["device_peak_bytes"]
    kinds = [f"{KIND_NAMES[kind]} {format_size(size)}" for kind, size in facts["peak_kinds"]]
    return [
        f"memory: {format_size(peak)} at the peak, "
        f"{format_size(device.memory_bytes)} on the device: "
        + _fit_text(peak, device.memory_bytes),
        f"  at {facts['peak_op']}: " + ", ".join(kinds),
    ]


def _other_steps_text(run):
    log = run.log
    if run.steps is not None:
        return []
    if not log.has_repeated():
        return [
            f"no two of {log.step_count} steps in a row are alike: what is predicted is the mean "
            "of all but the first"
        ]
    if not log.has_other_steps():
        return []
    largest = format_size(log.largest_peak_bytes())
    return [
        f"other steps executed other ops, with {largest} at most: --steps N predicts the mean of N "
        "steps"
    ]


def _mapped_text(run):
    if not run.has_mapped_files:
        return []
    return ["not counted: files that the script maps into host memory, as in a run on a CPU"]


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
