"""The table of what gpu-check has measured, read from the logs of pytest-reportlog.

A test leaves what it has measured as properties: `arm` is the record of a training, `link` that of
the link and the drive.
"""

import json
from pathlib import Path
from statistics import median


def table(logs: list[Path]) -> str:
    """Returns a line for each arm and rate that the logs have a record of."""
    found = {"arm": [], "link": []}
    for log in logs:
        for kind, record in records(log):
            found[kind].append(record)
    done = [record for record in found["arm"] if record["outcome"] == "done"]
    arms = {}
    for record in done:
        arms.setdefault((record["title"], record["arm"]), []).append(record)
    lines = [arm_line(arms, title, arm) for title, arm in arms]
    lines += [rate_line(rate) for link in found["link"] for rate in link["measured"]]
    return "\n".join(lines)


def records(log: Path):
    """Yields the properties of the tests in a log; its last line may be incomplete."""
    for line in log.read_text().splitlines() if log.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            return
        if entry.get("$report_type") == "TestReport" and entry["when"] == "call":
            yield from (item for item in entry["user_properties"] if item[0] != "note")


def arm_line(arms, title, arm) -> str:
    """Describes an arm by medians over all of its steps that count. Ideal is stock or ample."""
    measured = arms[title, arm]
    ideal = [
        step_seconds(arms[title, name]) for name in ("stock", "ample") if (title, name) in arms
    ]
    parts = [f"{step_seconds(measured):.3f} s per step"]
    if ideal:
        parts.append(f"{min(ideal) / step_seconds(measured):.3f} of ideal")
    for record in measured:
        parts += [*predictions_of(record), bits_of(arms, record)]
    lines = [f"{title}, {arm}: {', '.join(filter(None, parts))}"]
    return "\n".join(lines + [line for record in measured for line in details_of(record)])


def predictions_of(record):
    """Yields what the session has predicted, and what CUDA says that it has taken."""
    if record.get("bound_fraction"):
        yield f"bound {record['bound_fraction']:.3f}"
    if record.get("predicted_seconds"):
        yield f"predicted {record['predicted_seconds']:.3f} s"
    if record.get("sampled_peak_bytes") and record.get("budget_bytes"):
        taken = record["sampled_peak_bytes"] / record["budget_bytes"]
        yield f"{taken:.3f} of the budget taken"


def details_of(record):
    """Yields lines on where the time of a step goes."""
    names = dict.fromkeys(name for changes in record.get("changes", ()) for name in changes)
    each = {name: median(c.get(name, 0) for c in record["changes"]) for name in names}
    changes = [f"{name} {value:.10g}" for name, value in each.items() if value]
    if changes:
        yield f"  a step counts: {', '.join(changes)}"
    if "profile" in record:
        profile = json.dumps(record["profile"])
        rounded = json.loads(profile, parse_float=lambda digits: round(float(digits), 5))
        yield f"  a profiled step: {json.dumps(rounded)}"


def step_seconds(measured) -> float:
    return median(seconds for record in measured for seconds in record["measured_seconds"])


def bits_of(arms, record) -> str:
    """Says where losses or the final state differ from those of stock PyTorch."""
    stock = arms.get((record["title"], "stock"), [record])[0]
    is_equal = (record["losses"], record["state"]) == (stock["losses"], stock["state"])
    return "" if is_equal else "BITS DIFFER FROM STOCK"


def rate_line(rate) -> str:
    read, written = (rate[f"{way}_bytes_per_second"] / 1e9 for way in ("read", "write"))
    title = f"device <-> {rate['path']}, {rate['phase']}"
    return f"{title}: {read:.2f} GB/s read, {written:.2f} written"
