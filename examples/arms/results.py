"""Compares the records of arms: medians, fractions of ideal, and whether all bits are equal."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import median

from .arm import ArmResult


@dataclass(frozen=True)
class ArmSummary:
    """The figures of an arm. Times and bytes per step are medians over the measured steps."""

    name: str
    step_seconds: float
    fraction_of_ideal: float
    device_peak_bytes: int
    ssd_bytes_read: int
    ssd_bytes_written: int
    losses_sha256: str
    parameters_sha256: str
    read_bytes_per_step: float
    written_bytes_per_step: float
    stall_by_cause_seconds: dict[str, float]
    measured_steps: int
    planned_steps: int | None  # of the measured ones; None without a session


@dataclass(frozen=True)
class Comparison:
    """The figures of all arms, and the references for them."""

    arms: list[ArmSummary]
    natural_peak_bytes: int
    device_budget_bytes: int
    bound_fraction: float | None  # of ideal, for compute and the measured drive; from the plan
    predicted_step_seconds: float | None
    differences: list[str]


IDEAL = "ideal"
PLANNED = "planned"
ON_DEMAND = "on_demand"
ARM_FIELDS = (
    *("step_seconds", "fraction_of_ideal", "device_peak_bytes", "ssd_bytes_read"),
    *("ssd_bytes_written", "losses_sha256", "parameters_sha256"),
)


def measured(values: Sequence, warm_up_steps: int) -> list:
    """Returns the values after the warm-up steps, at least the last one."""
    return list(values[min(warm_up_steps, len(values) - 1) :])


def compare(
    results: list[ArmResult], natural_peak_bytes: int, device_budget_bytes: int, warm_up_steps: int
) -> Comparison:
    """Compares every arm with the first one, which is the reference."""
    ideal_seconds = median(measured(results[0].training["step_seconds"], warm_up_steps))
    planned = next((r.session for r in results if r.name == PLANNED and r.session), {})
    return Comparison(
        arms=[
            summarize(result, ideal_seconds, natural_peak_bytes, warm_up_steps)
            for result in results
        ],
        natural_peak_bytes=natural_peak_bytes,
        device_budget_bytes=device_budget_bytes,
        bound_fraction=planned.get("bound_fraction"),
        predicted_step_seconds=planned.get("predicted_step_seconds"),
        differences=[text for other in results[1:] for text in differences(results[0], other)],
    )


def summarize(
    result: ArmResult, ideal_seconds: float, natural_peak_bytes: int, warm_up_steps: int
) -> ArmSummary:
    session = result.session or {}
    times = measured(result.training["step_seconds"], warm_up_steps)
    steps = session.get("steps", [])[-len(times) :]
    return ArmSummary(
        name=result.name,
        step_seconds=median(times),
        fraction_of_ideal=ideal_seconds / median(times),
        # Stock PyTorch does not count its memory, so the profiling run stands for it.
        device_peak_bytes=session.get("device_peak_bytes", natural_peak_bytes),
        ssd_bytes_read=session.get("ssd_bytes_read", 0),
        ssd_bytes_written=session.get("ssd_bytes_written", 0),
        losses_sha256=result.training["losses_sha256"],
        parameters_sha256=result.training["parameters_sha256"],
        read_bytes_per_step=_median_of(steps, "ssd_bytes_read"),
        written_bytes_per_step=_median_of(steps, "ssd_bytes_written"),
        stall_by_cause_seconds=session.get("stall_by_cause_seconds", {}),
        measured_steps=len(times),
        planned_steps=sum(s["mode"] == PLANNED for s in steps) if result.session else None,
    )


def _median_of(steps: list[dict], field: str) -> float:
    return median(step[field] for step in steps) if steps else 0


def differences(reference: ArmResult, other: ArmResult) -> list[str]:
    """Returns a line for each value that is not bit-identical."""
    found = []
    pairs = list(zip(reference.training["losses"], other.training["losses"], strict=False))
    if len(reference.training["losses"]) != len(other.training["losses"]):
        found.append("the number of steps")
    elif unequal := [step for step, (a, b) in enumerate(pairs, 1) if a != b]:
        found.append(f"the loss of step {unequal[0]} ({len(unequal)} of {len(pairs)} differ)")
    for what in ("parameters", "optimizer"):
        if reference.training[f"{what}_sha256"] != other.training[f"{what}_sha256"]:
            found.append(f"the final {what}")
    return [f"{other.name} differs from {reference.name} in {what}" for what in found]


def as_json(comparison: Comparison) -> dict:
    """Returns the content of `results.json`: the figures on which other programs may rely."""
    arms = {arm.name: {name: getattr(arm, name) for name in ARM_FIELDS} for arm in comparison.arms}
    shared = {f.name: getattr(comparison, f.name) for f in fields(comparison)}
    return {"arms": arms, **{k: v for k, v in shared.items() if k not in ("arms", "differences")}}
