"""The page about two runs side by side."""

from dataclasses import dataclass

from teraio.report import page, summary, wear
from teraio.report.figures import steps
from teraio.units import format_size


@dataclass(frozen=True)
class Difference:
    """A row of the table: what it is, the texts of both runs, and the change to the second one."""

    name: str
    values: tuple
    difference: str


def page_of_runs(first, second):
    """Returns the page about two RunDirectories as text."""
    directories = (first, second)
    labels = _labels(directories)
    return page.render(
        "runs.html.j2",
        {"steps": steps.steps_of_two(directories, labels)},
        labels=labels,
        verdict=_verdict(directories, labels),
        differences=list(_differences(directories)),
        changed=_changed(directories),
    )


def _labels(directories):
    names = [directory.name for directory in directories]
    return names if names[0] != names[1] else [str(directory.path) for directory in directories]


def _verdict(directories, labels):
    seconds = [directory.median("seconds") for directory in directories]
    if None in seconds:
        return "One of the runs has no step, so there is nothing to compare."
    fast, slow = sorted((0, 1), key=lambda i: seconds[i])
    gain = 1 - seconds[fast] / seconds[slow]
    if gain < summary.NOTABLE:
        return "The steps of both runs take the same time, within 2 %."
    return (
        f"The steps of {labels[fast]} take {summary.percent(gain)} less time: "
        f"{summary.duration(seconds[fast])} instead of {summary.duration(seconds[slow])}."
    )


def _differences(directories):
    runs = [directory.run for directory in directories]
    times = [summary.times_of(directory) for directory in directories]
    per_day = [
        sum(use.written_bytes_per_day for use in wear.drive_uses(directory))
        for directory in directories
    ]
    yield _row("device budget", [run["device_budget_bytes"] for run in runs], _size)
    yield _row("needed without TERAIO", [run["natural_peak_bytes"] for run in runs], _size)
    for name in ("measured", "predicted", "ideal", "bound"):
        title = {"ideal": "compute alone (ideal)", "bound": "no plan is faster than"}
        values = [getattr(each, name) for each in times]
        yield _row(title.get(name, f"step, {name}"), values, summary.duration)
    utilisations = [run.get("flop_utilisation") for run in runs]
    yield _row("model FLOP utilisation", utilisations, summary.percent)
    for cause in ("read", "memory"):
        values = [run["stall_by_cause_seconds"][cause] for run in runs]
        yield _row(f"step waits for {cause}", values, summary.duration)
    for name, field in (("written", "ssd_bytes_written"), ("read", "ssd_bytes_read")):
        yield _row(f"{name} per step", [each.median(field) for each in directories], _size)
    yield _row("drive wear per day", per_day, _size)
    yield _row("ops that followed a plan", [_planned_share(run) for run in runs], summary.percent)


def _row(name, values, text):
    texts = tuple("not known" if value is None else text(value) for value in values)
    return Difference(name, texts, _change(*values))


def _change(before, after):
    if before is None or after is None:
        return ""
    if before == after:
        return "same"
    return f"{100 * (after / before - 1):+.1f} %" if before else ""


def _size(size_bytes):
    return format_size(round(size_bytes))


def _planned_share(run):
    counters = run["counters"]
    return counters["planned_ops"] / counters["ops"] if counters["ops"] else None


def _changed(directories):
    """Returns a dict from names to the two values, of those that are not the same."""
    values = [
        {
            "command": " ".join(run["command"]),
            **run["settings"],
            **run["versions"],
            **run["machine"],
        }
        for run in (directory.run for directory in directories)
    ]
    names = dict.fromkeys((*values[0], *values[1]))
    pairs = {name: tuple(each.get(name) for each in values) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
