"""The answer in words: does it work, how fast is it against what it could be, what would help."""

from dataclasses import dataclass

from teraio.report.wear import NO_PROBLEMS, life_text
from teraio.units import format_duration, format_size

# Differences below this share are not worth a sentence.
NOTABLE = 0.02
# Measured steps that exceed the prediction by this share need an explanation.
UNEXPECTED = 0.15


@dataclass(frozen=True)
class Fact:
    """A figure at the top of the page: what it is, the value, and a note."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Times:
    """Seconds of one step; None where they are not known.

    - `measured`: the median of the settled steps. - `predicted`: under the plan.
    - `ideal`: compute alone. - `bound`: what no plan is faster than.
    """

    measured: float | None
    predicted: float | None
    ideal: float | None
    bound: float | None


def times_of(directory):
    """Returns the Times of a RunDirectory."""
    prediction = directory.run["prediction"] or {}
    seconds = {
        name: prediction[name] / 1e9 if prediction.get(name) else None
        for name in ("step_ns", "ideal_ns", "bound_ns")
    }
    return Times(
        directory.median("seconds"), seconds["step_ns"], seconds["ideal_ns"], seconds["bound_ns"]
    )


def verdict(directory):
    """Returns one sentence: whether the run works, and what it saves."""
    run = directory.run
    if not run["steps"]:
        return "No training step has ended, so there is nothing to report yet."
    budget_bytes, natural_bytes = run["device_budget_bytes"], run["natural_peak_bytes"]
    budget = format_size(budget_bytes)
    if directory.plan_path is None:
        return (
            f"The run stayed within {budget} of device memory, without a plan: tensors moved on "
            "demand, which is slow."
        )
    if natural_bytes <= budget_bytes:
        return f"The training needs {format_size(natural_bytes)}, which {budget} has room for."
    return (
        f"It works: the training needs {format_size(natural_bytes)} of device memory, and ran in "
        f"{budget}, {percent(budget_bytes / natural_bytes)} of that."
    )


def speed_sentence(directory):
    """Returns one sentence: how fast the steps are against what they could be."""
    times = times_of(directory)
    if not times.measured or not times.ideal:
        return ""
    if times.measured <= times.ideal:
        return f"A step takes {duration(times.measured)}: no time is lost to moving tensors."
    share = percent(times.ideal / times.measured)
    return (
        f"A step takes {duration(times.measured)}. With all the memory it would take about "
        f"{duration(times.ideal)}: it reaches {share} of that speed."
    )


def facts(directory, uses):
    """Returns the Facts of a RunDirectory. `uses` is what drive_uses() returns."""
    return [
        *_memory_facts(directory.run),
        *_time_facts(directory),
        *_traffic_facts(directory, uses),
        *_replay_facts(directory.run["counters"]),
        _planned_ops(directory),
        *_plan_facts(directory.run),
    ]


def _memory_facts(run):
    yield Fact("device budget", format_size(run["device_budget_bytes"]))
    if run["natural_peak_bytes"]:
        saved = max(0, run["natural_peak_bytes"] - run["device_budget_bytes"])
        note = f"{format_size(saved)} saved"
        yield Fact("needed without TERAIO", format_size(run["natural_peak_bytes"]), note)


def _time_facts(directory):
    times = times_of(directory)
    count = len(directory.settled_steps)
    yield Fact("step, measured", duration(times.measured), f"median of {count} steps")
    if times.predicted and times.measured:
        note = f"the measured step takes {_compared(times.measured, times.predicted)}"
        yield Fact("step, predicted", duration(times.predicted), note + _timed_steps(directory))
    if times.ideal and times.measured:
        reached = f"the step reaches {percent(times.ideal / times.measured)} of this speed"
        note = reached if times.ideal <= times.measured else "measured steps are faster still"
        yield Fact("compute alone (ideal)", duration(times.ideal), note)
    if utilisation := directory.run.get("flop_utilisation"):
        note = "of the device's peak; what is computed again does not count"
        yield Fact("model FLOP utilisation", percent(utilisation), note)


def _traffic_facts(directory, uses):
    for name, field in (("written", "ssd_bytes_written"), ("read", "ssd_bytes_read")):
        size = directory.median(field)
        yield Fact(f"{name} per step", "unknown" if size is None else format_size(round(size)))
    per_day = sum(use.written_bytes_per_day for use in uses)
    lives = [use.life_days for use in uses if use.life_days]
    rated = f"the drives last {life_text(min(lives))}" if lives else "rated writes not known"
    if uses:
        yield Fact("drive wear per day", format_size(round(per_day)), rated)


def _replay_facts(counters):
    if counters.get("discards"):
        note = f"{duration(counters['replay_ns'] / 1e9)} for their ops over the whole run"
        yield Fact("tensors made again", f"{counters['discards']:,}", note)


def _planned_ops(directory):
    counters = directory.run["counters"]
    steps = directory.settled_steps
    total = sum(step["op_count"] for step in steps)
    planned = sum(step["planned_op_count"] for step in steps)
    whole = counters["planned_ops"] / counters["ops"] if counters["ops"] else 0
    share = f"{percent(planned / total)}" if total else "none"
    return Fact("ops that followed a plan", share, f"{percent(whole)} over the whole run")


def _timed_steps(directory):
    prediction = directory.run["prediction"]
    first, last = (prediction.get(f"{which}_timed_step") for which in ("first", "last"))
    if not first:
        return ""
    return f"; predicted with op times of {_steps(first, last)}"


def _steps(first, last):
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _plan_facts(run):
    prediction = run["prediction"] or {}
    if "plan_from_step" not in prediction:
        return
    seconds = duration(run["counters"]["search_ns"] / 1e9)
    if prediction["is_found_by_search"]:
        gain = f"{100 * prediction['predicted_gain']:.1f} %"
        note = f"found by a search of {seconds}, {gain} faster by prediction"
    else:
        is_searched = run["counters"]["search_ns"] > 0
        note = f"a better one was searched for, for {seconds}" if is_searched else ""
        if prediction["is_kept_plan"]:
            note = "kept from an earlier search"
    yield Fact("plan in force", f"from step {prediction['plan_from_step']}", note)


def stall_sentence(directory):
    """Returns one sentence about what the measured steps wait for."""
    if not directory.settled_steps:
        return ""
    stalls = directory.run["stall_by_cause_seconds"]
    if sum(stalls.values()) < NOTABLE * directory.median("seconds"):
        return "The steps hardly wait for transfers."
    return (
        f"A step waits {duration(stalls['read'])} for reads from the tiers, and "
        f"{duration(stalls['memory'])} for device memory to become free (medians)."
    )


def advice(directory, explanation, uses):
    """Returns sentences about what would make the run faster, the most helpful first.

    Args:
        explanation: what `teraio explain --json` prints, or None without a plan.
        uses: what drive_uses() returns.
    """
    if explanation is None:
        return [_why_no_plan(directory)]
    return [*_gaps(directory, uses), *_changes(explanation)]


def _why_no_plan(directory):
    if directory.run["settings"]["policy"] == "on-demand":
        return "Leave out --policy on-demand: a plan moves tensors before they are needed."
    if directory.trace is None:
        return "No iteration has repeated, so there is no plan. Train for more steps."
    return (
        "There is no plan for this device budget; the log of the run tells why. Raise the budget."
    )


def _why_slower(directory, times, uses):
    """Returns a sentence about what the steps have beyond the prediction: stalls, or slower ops."""
    slower = f"Measured steps take {_compared(times.measured, times.predicted)} than predicted"
    more_stall = directory.median("stall_seconds") - (times.predicted - times.ideal)
    if more_stall < (times.measured - times.predicted) / 2:
        return (
            f"{slower}, because ops take longer than when they were profiled, not because they "
            "wait. Look whether other programs use the device or the processor."
        )
    slow = ", ".join(use.name for use in uses if use.problems != NO_PROBLEMS)
    drives = f"Drives with problems: {slow}." if slow else "Look whether others use the drives."
    return f"{slower}, because transfers take longer. {drives}"


def _gaps(directory, uses):
    times = times_of(directory)
    if times.measured and times.predicted and times.measured > (1 + UNEXPECTED) * times.predicted:
        yield _why_slower(directory, times, uses)
    if times.predicted and times.bound and times.predicted > (1 + NOTABLE) * times.bound:
        most = percent(1 - times.bound / times.predicted)
        yield (
            f"A better plan: it would make the step at most {most} shorter. This one is predicted "
            f"to take {duration(times.predicted)}, and none less than {duration(times.bound)}."
        )
    if times.measured and times.bound and times.measured < times.bound:
        yield (
            "Measured steps take less time than is predicted for any plan: the drives or the ops "
            "were slower when they were measured. Other predictions are too slow as well then."
        )


def _changes(explanation):
    yield f"The plan is {explanation['binding']}."
    now_ns, ideal_ns = explanation["step_ns"], explanation["ideal_ns"]
    if now_ns < (1 + NOTABLE) * ideal_ns:
        yield (
            "The plan hides all transfers behind compute: only faster compute would shorten the "
            "predicted step. A smaller device budget may do as well."
        )
        return
    gains = sorted(gains_of(explanation), key=lambda gain: -gain[1])
    for what, gain, step_ns in gains:
        if gain > NOTABLE:
            yield (
                f"{what[0].upper()}{what[1:]}: the step is predicted to take "
                f"{format_duration(step_ns)}, {percent(gain)} less."
            )
    if not any(gain > NOTABLE for _, gain, _ in gains):
        tried = ", ".join(what for what, _, _ in gains)
        yield f"None of these changes shortens the predicted step by more than 2 %: {tried}."


def gains_of(explanation):
    """Yields (what, gain as a share of the step, step_ns) for each change that fits."""
    for change in explanation["changes"]:
        if "step_ns" in change and change["what"] != "nothing changed":
            gain = 1 - change["step_ns"] / explanation["step_ns"]
            yield change["what"], gain, change["step_ns"]


def duration(seconds):
    """Returns seconds as text with a unit; "unknown" for None."""
    return "unknown" if seconds is None else format_duration(round(seconds * 1e9))


def percent(share):
    """Returns a share as text: "52 %"."""
    return f"{100 * share:.0f} %"


def _compared(value, other):
    difference = value / other - 1
    if abs(difference) < 0.005:
        return "the same time"
    return f"{percent(abs(difference))} {'longer' if difference > 0 else 'less'}"
