"""The text of a suggestion: a table with the reasons, and the command line."""

import shlex

from teraio.dry_run.summary import KIND_NAMES
from teraio.report.wear import life_text
from teraio.units import format_duration, format_size

_KINDS_SHOWN = 3


def text_of(suggestion):
    """Returns the text that `teraio suggest` prints for a `Suggestion`."""
    rows = [
        ("memory needed", _peak_text(suggestion)),
        ("device budget", f"{format_size(suggestion.budget_bytes)}: {suggestion.budget_note}"),
    ]
    if suggestion.fits:
        end = "The training fits into the device memory: it needs no TERAIO."
    else:
        rows += _rows_of_plan(suggestion)
        end = "Run it with:"
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {text}".rstrip() for name, text in rows]
    title = f"\nsuggestion for {suggestion.device.accelerator.name}, predicted"
    lines += ["", *suggestion.reservations] if suggestion.reservations else []
    return "\n".join([title, *lines, "", end, f"  {shlex.join(suggestion.command)}"])


def _peak_text(suggestion):
    kinds = [
        f"{KIND_NAMES[kind]} {format_size(size)}"
        for kind, size in suggestion.peak_kinds[:_KINDS_SHOWN]
    ]
    return (
        f"{format_size(suggestion.peak_bytes)} at the peak, in {suggestion.peak_op}: "
        + ", ".join(kinds)
    )


def _rows_of_plan(suggestion):
    step = suggestion.prediction
    host = format_size(suggestion.host_limit_bytes) if suggestion.host_limit_bytes else "none"
    yield "host limit", f"{host}: {suggestion.host_note}"
    for number, drive in enumerate(suggestion.hardware["drives"]):
        yield "" if number else "drives", _drive_text(drive)
    yield (
        "step",
        f"{format_duration(step.step_ns)}, {100 * step.fraction_of_ideal:.0f} % of ideal "
        f"({format_duration(step.ideal_ns)} with unlimited memory)",
    )
    yield (
        "wear",
        f"{format_size(step.written_bytes)} written per step, "
        f"{format_size(round(step.written_bytes_per_day))} per day: {_life_text(step)}",
    )
    for number, change in enumerate(step.changes):
        saved = 100 * (1 - change.step_ns / step.step_ns)
        yield (
            "" if number else "would help",
            f"{change.what}: {format_duration(change.step_ns)} per step, {saved:.0f} % less",
        )
    for number, each in enumerate(suggestion.alternatives):
        size = format_size(each.peak_bytes)
        yield "" if number else "also fits", f"with {each.what}, without TERAIO: about {size}"


def _drive_text(drive):
    return (
        f"{drive['name']}: reads {format_size(drive['read_bytes_per_second'])}/s, writes "
        f"{format_size(drive['write_bytes_per_second'])}/s, "
        f"{format_size(drive['capacity_bytes'])} free"
    )


def _life_text(step):
    if step.written_bytes == 0:
        return "the drives do not wear"
    if step.life_days is None:
        return "the drives' rated writes are not known (--rated-writes tells them)"
    return f"the drives last {life_text(step.life_days)} of training without a pause"
